"""binder/ and .devcontainer/ describe one environment: a learner's, with the pins of constraints/cpu.txt and nothing of CUDA.

Building it and measuring what it takes is `python -m benchmarks.binder`, here as a soak test.
"""

import ast
import json
import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from benchmarks import _binder_build as binder_build
from benchmarks import binder
from benchmarks._process_memory import PeakMemory
from course_lib.course.release import released

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import binder_requirements  # noqa: E402
import setup_plan  # noqa: E402

FOR_AUTHORS = {"hypothesis", "nbval", "playwright", "pytest", "pytest-timeout", "ruff", "coverage"}


def requirements() -> dict[str, Requirement]:
    lines = (ROOT / "binder" / "requirements.txt").read_text().splitlines()
    parsed = [Requirement(line) for line in lines if line and not line.startswith(("#", "--"))]
    return {canonicalize_name(wish.name): wish for wish in parsed}


def devcontainer() -> dict:
    return json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())


# --- what is installed ---------------------------------------------------------------------------------------------


def test_the_requirements_are_what_pyproject_and_the_pins_give():
    assert binder_requirements.made() == (ROOT / "binder" / "requirements.txt").read_text()


def test_every_requirement_is_pinned_as_ci_pins_it_and_torch_to_its_cpu_build():
    pinned = binder_requirements.pins()
    for name, wish in requirements().items():
        version = str(pinned[name].specifier)
        assert str(wish.specifier) == (f"{version}+cpu" if name == "torch" else version)


def test_no_cuda_package_and_no_authors_tool_is_in_them():
    assert binder_build.cuda_packages(list(requirements())) == []
    assert requirements().keys() & FOR_AUTHORS == set()
    assert binder_build.cuda_packages(["nvidia-ml-py", "nvidia-nccl-cu13", "cuda-bindings", "torch"]) == [
        "cuda-bindings",
        "nvidia-nccl-cu13",
    ]


def test_a_cuda_dependency_and_all_that_only_it_needs_is_left_out(monkeypatch):
    needs = {
        "torch": [
            "filelock",
            "nvidia-nccl-cu13==1; platform_system == 'Linux'",
            "colorama; sys_platform == 'win32'",
            "sympy[fast]",
        ],
        "nvidia-nccl-cu13": ["only-for-cuda"],
        "sympy": ["gmpy2; extra == 'fast'", "docs; extra == 'docs'", "arm-only; platform_machine == 'aarch64'"],
    }
    monkeypatch.setattr(metadata, "requires", lambda name: needs.get(name))
    assert binder_requirements.needed(["torch"], "3.11") == {"torch", "filelock", "sympy", "gmpy2", "arm-only"}


def test_only_pytorchs_cpu_index_is_named():
    files = [*(ROOT / "binder").rglob("*"), *(ROOT / ".devcontainer").iterdir()]
    text = "\n".join(path.read_text() for path in files if path.is_file())
    assert set(re.findall(r"https?://[^\s\"']+", text)) == {setup_plan.PYTORCH_INDEX + "cpu"}


def test_whatever_the_course_imports_is_in_them():
    """Every import of course_lib, also those inside functions: what is not ours or Python's is a requirement."""
    provided = metadata.packages_distributions()
    known = requirements().keys()
    missing = set()
    for path in (ROOT / "course_lib").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and not node.level else []
            for name in (name.partition(".")[0] for name in names):
                ours = name in {"course_lib", *sys.stdlib_module_names}
                if not ours and not {canonicalize_name(one) for one in provided.get(name, [name])} & known:
                    missing.add((name, path.relative_to(ROOT).as_posix()))
    assert not missing, f"imported, and not in binder/requirements.txt: {sorted(missing)}"


def test_the_python_is_one_that_the_course_supports_and_ci_pins_for():
    text = (ROOT / "binder" / "runtime.txt").read_text()
    version = re.fullmatch(r"python-(3\.\d+)\n", text)[1]
    assert tuple(map(int, version.split("."))) >= setup_plan.MIN_PYTHON
    image = re.search(r"^FROM \S+/python:(3\.\d+)-", (ROOT / ".devcontainer" / "Dockerfile").read_text(), re.MULTILINE)
    assert image[1] == version


# --- what is opened ------------------------------------------------------------------------------------------------


def test_the_scripts_can_be_run_and_are_bash():
    for name in ("postBuild", "start"):
        path = ROOT / "binder" / name
        assert os.access(path, os.X_OK), f"{path} is not executable"
        subprocess.run(["bash", "-n", path], check=True)
        assert b"\r" not in path.read_bytes()


def test_start_runs_what_it_is_given_with_the_copys_settings(tmp_path):
    show = "import os, sys; print(os.environ['COURSE_HOME'], os.environ['JUPYTER_CONFIG_PATH'], *sys.argv[1:], sep='\\n')"
    theirs = os.environ | {"JUPYTER_CONFIG_PATH": "/theirs"}
    command = ["bash", ROOT / "binder" / "start", sys.executable, "-c", show, "a b", "c"]
    done = subprocess.run(command, cwd=tmp_path, env=theirs, capture_output=True, text=True)
    home, config, *given = done.stdout.splitlines()
    assert home == str(ROOT / "work")
    assert config.split(":") == [str(ROOT / "binder" / "jupyter"), str(ROOT / "work" / ".course" / "jupyter"), "/theirs"]
    assert given == ["a b", "c"]


def test_both_open_on_the_first_lab():
    first = released()[0].relative
    config = json.loads((ROOT / "binder" / "jupyter" / "jupyter_server_config.json").read_text())
    assert {section["default_url"] for section in config.values()} == {f"/lab/tree/work/{first}"}
    assert f"--LabApp.default_url=/lab/tree/{first}" in devcontainer()["postAttachCommand"].split()


def test_the_dev_container_is_built_from_binders_files():
    container = devcontainer()
    dockerfile = (ROOT / ".devcontainer" / container["build"]["dockerfile"]).read_text()
    assert container["build"]["context"] == ".."
    assert "COPY binder/requirements.txt /tmp/requirements.txt" in dockerfile
    assert "pip install --no-cache-dir -r /tmp/requirements.txt" in dockerfile
    assert container["postCreateCommand"] == "bash binder/postBuild"
    assert container["forwardPorts"] == [8888]
    assert "--port=8888" in container["postAttachCommand"].split()


# --- what it takes -------------------------------------------------------------------------------------------------


def test_memory_of_a_child_counts_and_a_shared_page_counts_once():
    size = 60_000_000
    program = f"import os, time; data = bytearray(b'x') * {size}; os.fork(); time.sleep(1)"
    process = subprocess.Popen([sys.executable, "-c", program])
    with PeakMemory(process.pid) as peak:
        process.wait()
    # two Pythons are less than 40 MB beside the array
    assert size / 1e9 < peak.proportional_gb < size / 1e9 + 0.04
    assert peak.resident_gb > 2 * size / 1e9
    assert peak.processes == 2


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_the_environment_is_built_and_holds_the_largest_lab_in_its_memory(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COURSE_RESULTS", str(tmp_path))
    assert binder.main() == 0, capsys.readouterr().out
    (path,) = tmp_path.glob("*/binder.json")
    rows = json.loads(path.read_text())["rows"]
    assert sum(row["unit"] == "GB" and row["peer"] == 1.5 for row in rows) == 3
