"""Arrows between the parts run one way (docs/decisions.md), and importing the course costs neither torch nor Triton."""

import ast
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "course_lib"
LOWER = {  # part -> the parts that it may import, when it is loaded or later
    "timing": set(),
    "telemetry": set(),
    "workloads": set(),
    "roofline": set(),
    "hardware": {"telemetry", "timing", "workloads"},
    "attention": {"hardware", "roofline", "timing"},
    "kvcache": {"hardware", "roofline", "timing"},
    "model": {"attention", "kvcache", "roofline"},
    "claims": set(),
    "interpreter": {"hardware"},
    "grading": {"interpreter"},
    "exercises": {
        "attention", "grading", "hardware", "interpreter", "kvcache", "roofline", "telemetry", "workloads",
    },
    "display": {
        "claims", "grading", "hardware", "interpreter", "model", "recorded", "roofline", "course.progress_summary",
    },
    "course": {"claims", "display", "exercises", "grading", "hardware", "interpreter"},
}  # fmt: skip


def imported_parts(path):
    """Parts of course_lib that a file imports, as "hardware" or "course.progress_summary"."""
    return _names(path, ast.walk(ast.parse(path.read_text())))


def imported_at_once(path):
    """Those that it imports when it is loaded: not inside functions, and not for type checkers only."""
    waiting, found = [ast.parse(path.read_text())], []
    while waiting:
        node = waiting.pop()
        later = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        if not later and not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            found.append(node)
            waiting += ast.iter_child_nodes(node)
    return _names(path, found)


def _names(path, nodes):
    package = ("course_lib", *path.relative_to(PACKAGE).parts[:-1])
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, *filter(None, [node.module])))
            names = [f"{module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            if name.startswith("course_lib."):
                yield name.removeprefix("course_lib.")


def import_circle():
    """Files of course_lib that import each other in a circle when they are loaded, as a path; [] when there are none."""
    files = {".".join(p.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"): p for p in PACKAGE.rglob("*.py")}
    arrows = {}
    for module, path in files.items():
        named = imported_at_once(path)
        arrows[module] = {n if n in files else n.rpartition(".")[0] for n in named} & files.keys() - {module}
    done, path = set(), []

    def visit(module):
        if module in path:
            return [*path[path.index(module) :], module]
        if module in done:
            return []
        path.append(module)
        circle = next(filter(None, map(visit, sorted(arrows[module]))), [])
        path.pop()
        done.add(module)
        return circle

    return next(filter(None, map(visit, sorted(arrows))), [])


@pytest.mark.parametrize("part", LOWER)
def test_a_part_imports_only_what_stands_below_it(part):
    files = sorted((PACKAGE / part).rglob("*.py"))
    assert files
    for path in files:
        for name in imported_parts(path):
            top = name.split(".")[0]
            allowed = top == part or top in LOWER[part] or any(name.startswith(a) for a in LOWER[part] if "." in a)
            assert allowed or top == "__version__", f"{path.relative_to(PACKAGE)} imports {name}"


def test_no_files_import_each_other_in_a_circle():
    assert import_circle() == []


@pytest.mark.parametrize(("line", "circle"), [
    ("from .b import f", ["a", "b", "a"]), ("from . import b", ["a", "b", "a"]), ("import course_lib.b", ["a", "b", "a"]),
    ("def f():\n    from . import b", []), ("if TYPE_CHECKING:\n    from . import b", []), ("import course_lib.c", []),
])  # fmt: skip
def test_the_finder_of_circles_finds_one(line, circle, tmp_path, monkeypatch):
    monkeypatch.setattr("tests.test_arrows.PACKAGE", tmp_path)
    (tmp_path / "a.py").write_text(line)
    (tmp_path / "b.py").write_text("class B:\n    from .a import g")
    (tmp_path / "c.py").write_text("")
    assert import_circle() == circle


def test_every_part_has_its_place():
    parts = {p.name for p in PACKAGE.iterdir() if p.is_dir() and (p / "__init__.py").exists()}
    assert parts == LOWER.keys()


@pytest.mark.parametrize("path", sorted((PACKAGE / "grading" / "inside").glob("*.py")), ids=lambda p: p.stem)
def test_what_enters_the_sandbox_imports_nothing_else_of_the_course(path):
    assert all(name.startswith("grading.inside.") for name in imported_parts(path))


@pytest.mark.parametrize("path", sorted((PACKAGE / "workloads").glob("*.py")), ids=lambda p: p.stem)
def test_what_is_measured_imports_only_torch_triton_and_the_standard_library(path):
    """Runners carry it into the sandbox."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module]
        assert {name.split(".")[0] for name in names} <= {"torch", "triton", *sys.stdlib_module_names}, names


def test_the_finder_of_imports_sees_every_form(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.test_arrows.PACKAGE", tmp_path)
    (tmp_path / "grading").mkdir()
    file = tmp_path / "grading" / "x.py"
    lines = ["from ..exercises import a", "from . import b", "import course_lib.hardware.specs"]
    lines += ["def f():", "    from .. import lab"]
    file.write_text("\n".join(lines))
    assert list(imported_parts(file)) == ["exercises.a", "grading.b", "hardware.specs", "lab"]
