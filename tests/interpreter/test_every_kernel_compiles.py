"""Every kernel of the project compiles for every target that it claims, with both Tritons that the course supports."""

import ast
from fnmatch import fnmatch

import pytest

from course_lib.interpreter.compiled import compile_reports, proof
from course_lib.interpreter.text.kernel_source import self_contained
from tests.interpreter import other_triton
from tests.interpreter.kernel_registry import EXEMPT, ROOT, claims

CLAIMS = dict(claims())
CASES = [(name, target) for name, launch in CLAIMS.items() for target in launch.targets]
_reports = {}


def report(which, name):
    """All cases of one Triton are compiled together, when the first of them is asked for."""
    if which not in _reports:
        folder = other_triton.folder() if which == "beside" else ""
        made = compile_reports(list(CLAIMS.values()), cached=False, triton_folder=folder, disassemble=False)
        _reports[which] = dict(zip(CLAIMS, made, strict=True))
    return _reports[which][name]


@pytest.mark.compile
@pytest.mark.parametrize("which", ["installed", "beside"])
@pytest.mark.parametrize(("name", "target"), CASES, ids=lambda value: value)
def test_it_compiles_and_fits(which, name, target):
    found = report(which, name)[target]
    assert found.compiles, found.why_not
    assert found.fits


@pytest.mark.compile
def test_the_two_tritons_are_the_two_that_the_course_supports():
    versions = {proof.triton_version().rpartition(".")[0], proof.triton_version(other_triton.folder()).rpartition(".")[0]}
    assert versions == {"3.6", "3.7"}


def kernels_of(path):
    """(name, line of its def) of each function of a file that @triton.jit or @gluon.jit makes a kernel or a helper."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                called = decorator.func if isinstance(decorator, ast.Call) else decorator
                if ast.unparse(called) in ("triton.jit", "gluon.jit", "jit"):
                    yield node.name, node.lineno


def unclaimed(root, claimed):
    """path::name of each kernel below root that is neither claimed nor exempt. claimed: (file, line of its def)."""
    files = [path for part in ("course_lib", "solutions", "benchmarks", "tests") for path in sorted((root / part).rglob("*.py"))]
    for path in files:
        where = path.relative_to(root).as_posix()
        if not any(fnmatch(where, pattern) for pattern in EXEMPT):
            yield from (f"{where}::{name}" for name, line in kernels_of(path) if (str(path), line) not in claimed)


def test_no_kernel_is_without_a_claim():
    """A helper is claimed with the kernels that call it."""
    claimed = {(one.file, one.line) for launch in CLAIMS.values() for one in self_contained(launch.kernel).segments}
    assert list(unclaimed(ROOT, claimed)) == []


def test_the_finder_of_kernels_sees_every_form(tmp_path):
    forms = [
        "@triton.jit\n",
        "@gluon.jit\n",
        "@triton.jit(noinline=True)\n",
        "@triton.autotune([], key=[])\n@triton.jit\n",
        "@jit\n",
    ]
    (tmp_path / "course_lib").mkdir()
    text = "".join(f"{form}def k{number}(): ...\n" for number, form in enumerate(forms)) + "def plain(): ...\n"
    (tmp_path / "course_lib" / "x.py").write_text(text)
    found = list(unclaimed(tmp_path, {(str(tmp_path / "course_lib" / "x.py"), 4)}))
    assert found == [f"course_lib/x.py::k{number}" for number in (0, 2, 3, 4)]


@pytest.mark.parametrize("pattern", EXEMPT)
def test_every_exemption_is_needed_and_has_a_reason(pattern):
    assert len(EXEMPT[pattern].split()) > 4
    assert [path for path in ROOT.glob(pattern) if path.is_file() or any(path.rglob("*.py"))]
