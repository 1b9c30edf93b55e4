"""The interpreter's numbers, mistakes and counts with the other supported Triton, and why Triton 3.6 needs it."""

import importlib.metadata
import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter

import numpy as np
import pytest

from . import other_triton
from .entry_helpers import ROOT, environment

pytestmark = pytest.mark.compile  # on CI the other Triton must be there

FILES = {  # the quick ones of each kind, and the least number of tests that must pass
    "numbers": ("arithmetic atomics casts dot language memory reductions shapes", 200),
    "mistakes": ("bounds masked overflow races unwritten", 100),
    "ledger": ("accesses books copy flash matmul repeats speed waste", 100),
}
ALLOWED_SKIPS = r"Triton 3\.6 compiles no tl\.full of fp8|the unpatched Triton 3\.6 cannot run a loop with numpy 2\.4"

RUN = """
import sys
from course_lib import lab  # before Triton, as everywhere
import pytest, triton
assert triton.__version__.startswith(sys.argv[1] + "."), (triton.__version__, triton.__file__)
raise SystemExit(pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[2:]]))
"""


def version_in(folder):
    """ "3.6" for a folder with Triton 3.6.0, whose place in it is where pip puts it."""
    (found,) = importlib.metadata.distributions(name="triton", path=[str(folder)])
    return found.version.rpartition(".")[0]


@pytest.mark.slow
def test_numbers_mistakes_and_counts_are_the_same_with_the_other_triton(tmp_path):
    folder, report = other_triton.folder(), tmp_path / "report.xml"
    files = [f"tests/interpreter/test_{kind}_{name}.py" for kind, (names, _) in FILES.items() for name in names.split()]
    done = subprocess.run(
        [sys.executable, "-c", RUN, version_in(folder), *files, f"--junitxml={report}"],
        cwd=ROOT, env=environment(PYTHONPATH=str(folder)), capture_output=True, text=True, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    passed = Counter()
    for case in ET.parse(report).iter("testcase"):
        bad = [child for child in case if child.tag in ("failure", "error", "skipped")]
        assert all(re.search(ALLOWED_SKIPS, child.get("message", "")) for child in bad), (case.get("name"), bad)
        passed[case.get("classname").split("test_")[1].split("_")[0]] += not bad
    assert passed.keys() == FILES.keys()
    assert all(passed[name] >= least for name, (_, least) in FILES.items()), passed


LOOP = """
import json, torch, triton
from course_lib.interpreter import disable, enable
from tests.interpreter.kernels.matmul import matmul
a, b = torch.ones(16, 64).half(), torch.ones(64, 16).half()
found = {"triton": triton.__version__}
disable()
try:
    matmul(a, b, bm=16, bn=16)
    found["unpatched"] = "runs"
except Exception as error:
    found["unpatched"] = str(error)
enable()
found["ours"] = matmul(a, b, bm=16, bn=16).unique().tolist()
print(json.dumps(found))
"""


def test_a_loop_to_a_runtime_bound_stops_the_unpatched_3_6_and_not_ours():
    """numpy 2.4 no longer turns an array of one element into a Python number, which Triton 3.6 does for each range()."""
    beside = other_triton.folder()
    path = {"PYTHONPATH": str(beside)} if version_in(beside) == "3.6" else {}  # else the main one is 3.6
    done = subprocess.run(
        [sys.executable, "-c", LOOP], cwd=ROOT, env=environment(TRITON_INTERPRET="1", **path), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["triton"].startswith("3.6.")
    assert found["ours"] == [64.0]
    if np.lib.NumpyVersion(np.__version__) >= "2.4.0":
        assert "only 0-dimensional arrays can be converted to Python scalars" in found["unpatched"]
    else:
        assert found["unpatched"] == "runs"
