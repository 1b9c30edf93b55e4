"""What every test shares: a progress log of its own, no skipped proof on CI, and markers that decide what runs.

`lab` is imported first, as in every notebook: it is what decides how Triton is set up.
"""

import itertools
import os

import pytest

from course_lib import lab  # noqa: F401
from course_lib.interpreter import entry

MUST_NOT_SKIP_ON_CI = ("browser", "sandbox", "compile")


_homes = itertools.count()


@pytest.fixture(autouse=True)
def _own_home(tmp_path_factory, monkeypatch):
    """No test reads or writes a learner's progress, or believes that it runs inside a grading run.

    The home is a path only: a folder made for each of the thousands of tests that need none takes 1 ms each.
    """
    monkeypatch.setenv("COURSE_HOME", str(tmp_path_factory.getbasetemp() / f"home-{next(_homes)}"))
    monkeypatch.delenv("COURSE_RUN_ID", raising=False)


def pytest_configure(config):
    for line in (
        "sandbox: needs bubblewrap",
        "compile: needs Triton's compiler",
        "soak: long evidence, run by make soak only",
    ):
        config.addinivalue_line("markers", line)


def pytest_report_header(config):
    """How the kernels of this run are run: compiled, interpreted, or not at all."""
    return f"triton: {entry.state().reason}"


def pytest_collection_modifyitems(config, items):
    """Soak tests run only when they are asked for; GPU tests say "blocked" where there is no CUDA device."""
    if "soak" not in (config.option.markexpr or ""):
        kept = [item for item in items if not item.get_closest_marker("soak")]
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("soak")])
        items[:] = kept
    gpu = [item for item in items if item.get_closest_marker("gpu")]
    if gpu:
        import torch

        if not torch.cuda.is_available():
            for item in gpu:
                item.add_marker(pytest.mark.skip(reason="blocked: needs a CUDA device"))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """On CI a browser, sandbox or compile test that is skipped has proved nothing: that is a failure."""
    result = yield
    report = result.get_result()
    proof = [name for name in MUST_NOT_SKIP_ON_CI if item.get_closest_marker(name)]
    if report.skipped and proof and os.environ.get("CI") == "true":
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} ({', '.join(proof)}) was skipped on CI: {report.longrepr}"
