"""An exercise judged in the notebook's kernel and in a child process ends the same way."""

import ast
import inspect
import linecache
import subprocess
import sys
import textwrap
from pathlib import Path

import nbformat
import pytest

from course_lib.course.judge import judge
from course_lib.course.live import check_live
from course_lib.course.submission import cells_for
from course_lib.exercises import all_exercises, exercise, phase
from course_lib.exercises import runners as runners_package

from .answers import WRONG

ROOT = Path(__file__).parents[2]


def solved_notebook(number):
    name = phase(number).name
    return nbformat.read(ROOT / "solutions" / name / f"{name}.ipynb", as_version=4)


def notebook_with(known, answer):
    """A notebook that holds only this answer, as a learner's cell."""
    source = textwrap.dedent(inspect.getsource(answer)).replace(f"def {answer.__name__}(", f"def {known.entry}(", 1)
    cell = nbformat.v4.new_code_cell(f"import torch\n\n{source}", metadata={"nbgrader": {"grade_id": known.cell_id}})
    return nbformat.v4.new_notebook(cells=[cell])


def entry_of(notebook, known):
    space = {"__name__": "notebook"}
    for cell in cells_for(notebook, known):
        lines = cell.source.splitlines(keepends=True)
        linecache.cache[cell.name] = (len(cell.source), None, lines, cell.name)  # a kernel's text is read from there
        exec(compile(cell.source, cell.name, "exec"), space)
    return space[known.entry]


@pytest.mark.parametrize("known", all_exercises(), ids=lambda e: e.id)
def test_the_solution_earns_the_same_in_both(known):
    notebook = solved_notebook(known.phase)
    for cell in known.cells:
        live = check_live(known.id, entry_of(notebook, known), cell, seed=7)
        apart = judge(notebook, known, cell, seed=7)
        if cell == "check":
            assert live.outcomes == apart.outcomes
        ends = [[(o.name, o.state, o.points) for o in verdict.outcomes] for verdict in (live, apart)]
        assert ends[0] == ends[1]  # of a timed part only the end is equal; no two measurements are
        assert live.attempted
        assert apart.attempted
        assert apart.score + apart.waiting_points == known.points(cell)


@pytest.mark.parametrize("known", all_exercises(), ids=lambda e: e.id)
def test_a_wrong_answer_ends_the_same_in_both(known):
    """The one that fails least and the one that fails most; each costs a process, and one more where launches are replayed."""
    wrong = [answer for answer, _ in sorted(WRONG[known.id], key=lambda row: len(row[1]))]
    replays = any(criterion.launches for criterion in known.criteria)
    for answer in wrong[:1] if replays else (wrong[0], wrong[-1]):
        notebook = notebook_with(known, answer)
        live = check_live(known.id, entry_of(notebook, known), seed=11)
        apart = judge(notebook, known, seed=11)
        assert live.outcomes == apart.outcomes, answer.__name__
        assert live.score < live.max_points


@pytest.mark.parametrize("bad", ["ridge_points = 42", "def ridge_points(one): return one", "ridge_points = None"])
def test_what_is_no_function_of_this_signature_is_refused_alike(bad):
    known, space = exercise("1.1"), {}
    exec(bad, space)
    cell = nbformat.v4.new_code_cell(bad, metadata={"nbgrader": {"grade_id": known.cell_id}})
    apart = judge(nbformat.v4.new_notebook(cells=[cell]), known, seed=3)
    assert check_live("1.1", space["ridge_points"], seed=3).outcomes == apart.outcomes


@pytest.mark.parametrize("path", sorted(Path(runners_package.__path__[0]).glob("phase*.py")), ids=lambda p: p.stem)
def test_a_runner_imports_only_torch_triton_workloads_and_the_standard_library(path):
    allowed = {"torch", "triton"} | set(sys.stdlib_module_names)
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} imports a neighbour, which is not beside it in the sandbox"
            names = [node.module]
        names = [name for name in names if not f"{name}.".startswith("course_lib.workloads.")]  # work to be measured, no answers
        assert {name.split(".")[0] for name in names} <= allowed, names


@pytest.mark.parametrize("path", sorted(Path(runners_package.__path__[0]).glob("phase*.py")), ids=lambda p: p.stem)
def test_a_runner_is_imported_without_the_rest_of_the_course(path, tmp_path):
    alone = tmp_path / "runner.py"
    alone.write_bytes(path.read_bytes())
    blocked = "import sys; sys.modules['course_lib'] = None; sys.path.insert(0, sys.argv[1]); import runner"
    code = f"{blocked}; assert runner.__course_runner__"
    ran = subprocess.run([sys.executable, "-I", "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
