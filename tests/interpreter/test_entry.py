"""Whether Triton interprets or compiles: decided before Triton is imported, in every process, and said when it is too late."""

import ast
import json
import os
import shutil
import subprocess
from pathlib import Path

import nbformat
import pytest

from course_lib import lab
from course_lib.interpreter import entry

from .entry_helpers import AMD, CPU, NO_GPU, NVIDIA, ROOT, Fake, environment, fake_torch, on_machine, python, version_file

PACKAGE = "import course_lib\nfound = os.environ.get('TRITON_INTERPRET')\n"
LAB = "from course_lib import lab\nfound = os.environ.get('TRITON_INTERPRET')\n"
LIGHT = "assert not {'torch', 'triton', 'numpy'} & set(sys.modules)\n"

MACHINES = {
    "nothing": (CPU, "1"),
    "a driver with its device": (NVIDIA, None),
    "a driver library alone, as in a CUDA container": (Fake(driver=True), "1"),
    "a device without a driver library": (Fake(("/dev/nvidiactl",)), "1"),
    "WSL2": (Fake(("/dev/dxg",), driver=True), None),
    "Jetson": (Fake(("/dev/nvmap",), driver=True), None),
    "a kernel module that has made no device file yet": (Fake(("/proc/driver/nvidia/gpus",), driver=True), None),
    "a card whose driver nobody has used yet": (Fake(driver=True, pci=(("a", None), ("b", "0x8086"), ("c", "0x10de"))), None),
    "another vendor's card": (Fake(driver=True, pci=(("a", None), ("b", "0x8086"))), "1"),
    "AMD": (AMD, None),
    "AMD in WSL2": (Fake(("/dev/dxg", "/opt/rocm")), None),
    "WSL2 without any driver": (Fake(("/dev/dxg",)), "1"),
}


@pytest.mark.parametrize("name", MACHINES)
def test_a_machine_is_interpreted_only_when_no_gpu_driver_is_there(name, tmp_path):
    machine, expected = MACHINES[name]
    assert on_machine(machine, PACKAGE + LIGHT, tmp_path) == expected


@pytest.mark.parametrize(
    ("machine", "variable", "value", "expected"),
    [(NVIDIA, "CUDA_VISIBLE_DEVICES", value, "1") for value in ("", "-1", "NoDevFiles", "-1,0")]
    + [(NVIDIA, "CUDA_VISIBLE_DEVICES", value, None) for value in ("0", "3,-1", "GPU-8932f937", "MIG-1b2c")]
    + [(AMD, "HIP_VISIBLE_DEVICES", "-1", "1"), (AMD, "ROCR_VISIBLE_DEVICES", "", "1"), (AMD, "HIP_VISIBLE_DEVICES", "0", None)]
    + [(AMD, "CUDA_VISIBLE_DEVICES", "", "1")],
)
def test_a_gpu_that_is_hidden_from_this_process_is_none(machine, variable, value, expected, tmp_path):
    assert on_machine(machine, PACKAGE, tmp_path, **{variable: value}) == expected


@pytest.mark.parametrize(
    ("machine", "set_to", "expected"), [(CPU, "0", "0"), (NVIDIA, "1", "1"), (CPU, "", "1"), (NVIDIA, "", "")]
)
def test_what_the_user_has_set_stands_and_an_empty_value_is_not_set(machine, set_to, expected, tmp_path):
    cpu_torch = fake_torch(tmp_path / "cpu", version_file())
    assert on_machine(machine, PACKAGE, tmp_path, TRITON_INTERPRET=set_to) == expected
    if set_to:
        assert on_machine(machine, LAB, tmp_path, TRITON_INTERPRET=set_to, PYTHONPATH=cpu_torch) == expected


def test_nothing_is_set_behind_a_triton_that_is_there_already(tmp_path):
    loaded = "import types\nsys.modules['triton'] = types.ModuleType('triton')\n"
    assert on_machine(CPU, loaded + LAB, tmp_path) is None


@pytest.mark.parametrize(
    ("machine", "version", "expected"),
    [
        (NVIDIA, version_file(), "1"),  # a CPU build beside a driver
        (NVIDIA, version_file(cuda="13.0"), None),
        (NVIDIA, version_file(hip="7.1.2"), "1"),
        (AMD, version_file(cuda="13.0"), "1"),  # the usual build of a Linux laptop, on one with an AMD chip
        (AMD, version_file(), "1"),
        (AMD, version_file(hip="7.1.2"), None),
        (NVIDIA, "cuda = None\n", "1"),  # as older ones and distributions write it
        (NVIDIA, "cuda = '12.4'\n", None),
        (NVIDIA, "# says nothing\n", None),
    ],
)
def test_lab_looks_at_the_build_of_torch_and_does_not_import_it(machine, version, expected, tmp_path):
    path = fake_torch(tmp_path / "path", version)
    assert on_machine(machine, LAB + LIGHT, tmp_path, PYTHONPATH=path) == expected
    assert on_machine(machine, PACKAGE, tmp_path, PYTHONPATH=path) is None  # a library is no notebook: torch is not asked


ASKED = """
from . import version
class cuda:
    @staticmethod
    def is_available():
        import warnings
        warnings.warn('the driver on your system is too old')
        return {}
"""
SETTLED = """
from course_lib import lab
from course_lib.interpreter import entry
found = [os.environ.get("TRITON_INTERPRET"), entry.state().mode]
entry.settle()
found += [os.environ.get("TRITON_INTERPRET"), *entry.state()]
"""


@pytest.mark.parametrize(("hip", "device"), [(None, "cuda"), ("7.1", "rocm")])
def test_torch_has_the_last_word_when_the_notebook_starts(hip, device, tmp_path):
    version, machine = version_file(cuda=None if hip else "13.0", hip=hip), AMD if hip else NVIDIA
    works = fake_torch(tmp_path / "works", version, ASKED.format(True))
    fails = fake_torch(tmp_path / "fails", version, ASKED.format(False))
    assert on_machine(machine, SETTLED, tmp_path, PYTHONPATH=works)[:4] == [None, device, None, device]
    *before, after, mode, reason = on_machine(machine, SETTLED, tmp_path, PYTHONPATH=fails)
    assert (*before, after, mode) == (None, device, "1", "interpreter")
    assert "labs doctor" in reason


KERNEL = """
import json, os, sys
{first}
import torch
from torch.utils.flop_counter import FlopCounterMode
import triton, triton.language as tl
{then}
from course_lib import lab
from course_lib.interpreter import entry

@triton.jit
def total(x, out, BLOCK: tl.constexpr):
    tl.store(out, tl.sum(tl.load(x + tl.arange(0, BLOCK)), axis=0))

out = torch.zeros(1)
try:
    total[(1,)](torch.arange(8.0), out, BLOCK=8)
    message = ""
except Exception as error:
    message = str(error)
print("---")
lab.start(1)
print("---")
shown = lab.check("1.1", lambda p, b: p)
print(json.dumps([entry.state().mode, entry.state().reason, out.item(), message, shown.message]))
"""


def launch(tmp_path, first, then="", **values):
    """Launch a kernel that uses Triton's own library -> mode, reason, result, error, greeting, message of a check."""
    (tmp_path / "kernel.py").write_text(KERNEL.format(first=first, then=then))
    env = environment(**(NO_GPU | {"COURSE_HOME": str(tmp_path)} | values))
    text = python(["kernel.py"], tmp_path, env)
    greeting = text.split("---")[1]
    mode, reason, result, error, message = json.loads(text.splitlines()[-1])
    return mode, reason, result, error, greeting, message


def test_with_lab_first_a_kernel_runs_whatever_of_torch_is_imported_next(tmp_path):
    mode, _, result, error, greeting, message = launch(tmp_path, "from course_lib import lab")
    assert (mode, result, error) == ("interpreter", 28.0, "")
    assert "restart" not in greeting + message


def test_with_triton_first_launch_greeting_and_check_say_what_to_do(tmp_path):
    mode, reason, result, error, greeting, message = launch(tmp_path, "import triton")
    assert (mode, result) == ("too late", 0.0)
    assert "restart the kernel" in reason
    assert "`from course_lib import lab` the first import" in reason
    assert error.startswith(reason)
    assert "0 active drivers" in error  # Triton's own words come after ours
    assert reason in greeting
    assert reason in message


def test_a_variable_that_is_set_after_triton_was_imported_is_too_late(tmp_path):
    late = "os.environ['TRITON_INTERPRET'] = '1'"
    mode, reason, _, error, greeting, _ = launch(tmp_path, "import triton", late)
    assert mode == "too late"
    assert "turned on after that: restart the kernel" in reason
    assert error  # so it is no idle warning
    assert reason in greeting
    mode, reason, _, error, _, _ = launch(tmp_path, "os.environ['TRITON_INTERPRET'] = '1'", "del os.environ['TRITON_INTERPRET']")
    assert mode == "too late"
    assert "turned off after that" in reason
    assert error


def test_zero_on_a_machine_without_a_gpu_compiles_only_and_says_so(tmp_path):
    mode, reason, _, error, _, _ = launch(tmp_path, "from course_lib import lab", TRITON_INTERPRET="0")
    assert mode == "compile only"
    assert "TRITON_INTERPRET=0 is set" in reason
    assert error.startswith(reason)
    assert "0 active drivers" in error


def test_an_unknown_triton_is_told_once_where_it_is_imported_and_by_the_greeting(tmp_path):
    lines = (
        "from course_lib import lab", "from course_lib.interpreter import versions", "versions.KNOWN_VERSIONS = ('3.1', '3.2')",
        "import triton, torch", "print('---')", "lab.start(1)",
    )  # fmt: skip
    (tmp_path / "cell.py").write_text("\n".join(lines))
    said, greeting = python(["cell.py"], tmp_path, environment(**NO_GPU, COURSE_HOME=str(tmp_path))).split("---")
    words = "is not known to the course's interpreter (known: 3.1 and 3.2), so kernels run in Triton's own"
    assert said.count(words) == 1
    assert greeting.count(words) == 1
    assert "how to look into a kernel" not in greeting


def test_who_wants_to_time_an_interpreted_kernel_is_told_that_there_is_no_gpu(tmp_path):
    asked = "try:\n    triton.testing.do_bench(lambda: None)\nexcept RuntimeError as error:\n    print(error)"
    (tmp_path / "timed.py").write_text(f"from course_lib import lab\nimport triton\n{asked}")
    said = python(["timed.py"], tmp_path, environment(**NO_GPU, COURSE_HOME=str(tmp_path)))
    assert said.startswith("Kernels run in Triton's interpreter, on the CPU")
    assert "Nothing can be timed" in said


STATE = "from course_lib import lab\nfrom course_lib.interpreter import entry\nfound = list(entry.state())\n"


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"triton/__init__.py": ""}, "triton/__init__.py in place of Triton: rename it"),
        ({"triton/__init__.py": "raise ImportError('broken')"}, "in place of Triton"),
        ({"triton.py": ""}, "triton.py in place of Triton: rename it"),
        ({"triton/notes.txt": ""}, ""),  # a bare folder: the installed package wins
    ],
)
def test_something_else_named_triton_beside_the_notebook_breaks_nothing_and_is_named(files, words, tmp_path):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    mode, reason = on_machine(CPU, STATE, tmp_path)
    assert (mode == "no triton") == bool(words)
    assert words in reason
    assert "Usage" in python(["-m", "course_lib.cli", "--help"], tmp_path, environment(PYTHONPATH=str(tmp_path)))


@pytest.mark.parametrize(("folder", "words"), [(False, "not installed"), (True, "in place of Triton")])
def test_without_triton_the_course_says_so(folder, words, tmp_path):
    """-S leaves site-packages out: no Triton and no torch, as on a Mac without them."""
    if folder:
        (tmp_path / "triton").mkdir()
    code = f"import json\n{STATE}print(json.dumps(found))"
    mode, reason = json.loads(python(["-S", "-c", code], tmp_path, environment()))
    assert mode == "no triton"
    assert words in reason
    blocked = "sys.modules['triton'] = None\n" + STATE
    assert on_machine(CPU, blocked, tmp_path)[0] == "no triton"


def test_the_driver_library_is_really_loaded(tmp_path):
    """With a shared object of that name, and no fake loader."""
    compiler = shutil.which("cc")
    assert compiler, "this test compiles an empty library: install a C compiler (apt install gcc)"
    code = "from course_lib.interpreter.gpu_driver import _driver_loads\nprint(_driver_loads())"
    subprocess.run([compiler, "-shared", "-x", "c", "/dev/null", "-o", str(tmp_path / "libcuda.so.1")], check=True)
    assert python(["-c", code], ROOT, environment(LD_LIBRARY_PATH=str(tmp_path))) == "True\n"
    (tmp_path / "libcuda.so.1").write_text("not a library")
    assert python(["-c", code], ROOT, environment(LD_LIBRARY_PATH=str(tmp_path))) == "False\n"


def test_a_child_gets_the_decision_even_where_it_is_too_late_for_its_parent(monkeypatch):
    monkeypatch.setattr(entry, "_torch_is_loaded", lambda: False)
    for missing, value in (("there is no GPU", "1"), ("", None)):
        monkeypatch.setattr(entry, "why_no_cuda", lambda missing=missing: missing)
        monkeypatch.setattr(entry, "why_no_rocm", lambda: "there is no ROCm driver")
        monkeypatch.setattr(entry, "torch_build", lambda: "cuda")
        assert entry.child_environment({"A": "b"}).get(entry.VARIABLE) == value
        assert entry.child_environment({"A": "b", "TRITON_INTERPRET": "0"}) == {"A": "b", "TRITON_INTERPRET": "0"}
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert entry.child_environment() == dict(os.environ)


def test_a_process_that_compiles_stays_one_though_it_imports_the_course(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    code = "from course_lib import lab\nfrom triton import knobs\nprint(knobs.runtime.interpret)"
    env = environment() | {k: v for k, v in entry.compiling_environment().items() if k == "TRITON_INTERPRET"} | NO_GPU
    assert python(["-c", code], ROOT, env) == "False\n"
    assert os.environ["TRITON_INTERPRET"] == "1"
    assert entry.compiling_environment({"A": "b"}).keys() == {"A", "TRITON_INTERPRET"}


def first_import(source):
    """The first import of a notebook's code, whose magics are no Python."""
    plain = "\n".join("" if line.startswith(("%", "!")) else line for line in source.splitlines())
    nodes = [node for node in ast.walk(ast.parse(plain)) if isinstance(node, (ast.Import, ast.ImportFrom))]
    return ast.unparse(min(nodes, key=lambda node: (node.lineno, node.col_offset)))


def code_of(path):
    if path.suffix == ".py":
        return path.read_text()
    return "\n".join(cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code")


PLACES = ("solutions/*.py", "solutions/*/*.ipynb", "labs/*/*.ipynb")
NOTEBOOKS = [path for place in PLACES for path in sorted(ROOT.glob(place))]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: str(path.relative_to(ROOT)))
def test_lab_is_the_first_import_of_every_notebook(path: Path):
    assert first_import(code_of(path)) == "from course_lib import lab"


def test_lab_comes_first_here_as_well_and_nothing_is_imported_in_lab_before_it_decides():
    ours = ast.parse((ROOT / "tests/conftest.py").read_text()).body
    foreign = [ast.unparse(n) for n in ours if isinstance(n, (ast.Import, ast.ImportFrom)) and "torch" in ast.unparse(n)]
    assert foreign == []
    lines = [ast.unparse(n) for n in ast.parse((ROOT / "course_lib/lab.py").read_text()).body[1:5]]
    imports = ["from .interpreter import after_import as _triton_import", "from .interpreter import entry as _triton_entry"]
    assert lines == [*imports, "_triton_entry.for_notebook()", "_triton_import.arm()"]
    assert NOTEBOOKS
    assert first_import("%env A=b\nimport torch\nfrom course_lib import lab") == "import torch"


def test_the_greeting_comes_after_torch_has_been_asked(monkeypatch, capsys):
    printed_before = []
    monkeypatch.setattr(entry, "settle", lambda: printed_before.append(capsys.readouterr().out))
    lab.start(1)
    assert printed_before == [""]
    assert capsys.readouterr().out.startswith("Phase 1")
