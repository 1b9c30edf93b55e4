"""Which cells of a notebook the judge runs for an exercise, and as what."""

import ast

import nbformat
import pytest

from course_lib.course.judge import judge, judgeable
from course_lib.course.submission import cells_for, only_definitions, plain_python
from course_lib.exercises import exercise
from course_lib.grading.outcome import State
from tests.notebooks.classroom import HEAD, RIGHT
from tests.notebooks.small_course import RIDGE, SCALED, planted


def _notebook(*cells):
    """(grade id or "", source) -> a notebook of code cells."""
    made = []
    for grade_id, source in cells:
        metadata = {"nbgrader": {"grade_id": grade_id}} if grade_id else {}
        made.append(nbformat.v4.new_code_cell(source, metadata=metadata))
    return nbformat.v4.new_notebook(cells=made)


def _used(*cells):
    return [cell.source for cell in cells_for(_notebook(*cells), exercise("1.1"))]


def test_setup_earlier_exercises_and_definitions_are_used_and_nothing_else():
    assert _used(
        ("setup", "import torch"),
        ("", "print('a try')"),
        ("", "K = 3"),
        ("", "def helper():\n    return 1"),
        ("", "numbers = list(range(3))"),
        ("ex-1-1", "first = print"),
        ("", "LATER = 1"),
        ("ex-1-1-check", "lab.check()"),
    ) == ["import torch", "K = 3", "def helper():\n    return 1", "first = print"]


def test_all_cells_of_an_exercise_are_required_and_only_they():
    cells = cells_for(_notebook(("setup", "a = 1"), ("ex-1-1", "b = 2"), ("ex-1-1-b", "c = 3")), exercise("1.1"))
    assert [(cell.source, cell.required) for cell in cells] == [("a = 1", False), ("b = 2", True), ("c = 3", True)]


def test_the_cells_of_exercise_11_are_not_those_of_exercise_1():
    assert _used(("ex-1-11", "x = 1"), ("ex-11-1", "y = 1")) == []


def test_markdown_with_the_exercise_s_id_is_no_answer():
    notebook = _notebook()
    notebook.cells.append(nbformat.v4.new_markdown_cell("text", metadata={"nbgrader": {"grade_id": "ex-1-1"}}))
    assert cells_for(notebook, exercise("1.1")) == []
    verdict = judge(notebook, exercise("1.1"))
    assert all(o.reason.startswith("the notebook has no code cell ex-1-1; ") for o in verdict.outcomes)


@pytest.mark.parametrize(("source", "plain"), [
    ("%time x = 1\ny = 2", "\ny = 2"),
    ("x = 1\n!pip install torch\ny = 2", "x = 1\n\ny = 2"),
    ("%%bash\nrm -rf x", ""),
    ("a = (7\n     % 3)", "a = (7\n     % 3)"),
    ('text = """\n!not a command\n%nor this\n"""', 'text = """\n!not a command\n%nor this\n"""'),
    ("x = 1\r\ny = 2\rz = 3", "x = 1\ny = 2\nz = 3"),
    ("", ""),
])  # fmt: skip
def test_ipython_s_own_lines_are_blanked_and_every_other_line_stays_in_its_place(source, plain):
    assert plain_python(source) == plain


@pytest.mark.parametrize("source", ["import torch", "from math import *", "x = 1", "x: int = 1", "def f(): pass", "class A: pass",
                                    "async def f(): pass", '"""words"""', "a = b = [1, 2]", "K = {'a': 1}['a']"])  # fmt: skip
def test_definitions_are_safe_to_run(source):
    assert only_definitions(source)


@pytest.mark.parametrize("source", [
    "", "# a comment", "f()", "x = f()", "while True: pass", "for x in y: pass", "x = [f() for _ in y]", "del x", "raise E",
    "import", "x = 1\nprint(x)", "assert x", "x = await y",
])  # fmt: skip
def test_anything_that_acts_is_left_out(source):
    assert not only_definitions(source)


def test_deep_nesting_does_not_stop_the_judge():
    source = "x = " + "(" * 5000 + ")" * 5000
    assert not only_definitions(source)
    assert plain_python("%a\n" + source).startswith("\nx")


def _reasons(*cells):
    verdict = judge(_notebook(("setup", "import torch"), *cells), exercise("1.1"))
    return verdict.score, {o.reason for o in verdict.outcomes if o.state is State.FAILED}


def test_an_answer_may_use_the_learner_s_own_definitions():
    assert _reasons(("", "KILO = 1000"), ("ex-1-1", HEAD + RIGHT.replace("1e3", "KILO"))) == (4.0, set())


def test_a_cell_that_was_left_out_is_named_where_it_is_missed():
    score, reasons = _reasons(("ex-1-1-b", "pass"), ("", "import not_here; KILO = 1000"),
                              ("ex-1-1", HEAD + RIGHT.replace("1e3", "KILO")))  # fmt: skip
    assert score == 0.0
    assert all("name 'KILO' is not defined" in r and "begins with 'import not_here; KILO = 1000'" in r for r in reasons)


def test_a_shadowed_name_is_named():
    head = HEAD.replace("peak_tflops,", "peak_tflops: torch.Tensor,")
    score, reasons = _reasons(("", "torch = None"), ("ex-1-1", head + RIGHT))
    assert score == 0.0
    assert all("'NoneType' object has no attribute 'Tensor'" in reason for reason in reasons)


def test_an_earlier_answer_that_ends_the_process_costs_only_its_own_points():
    notebook = _notebook(("setup", "import torch\nprint(3)"), ("ex-1-1", "import os\nos._exit(0)"),
                         ("ex-1-2", HEAD.replace("ridge_points", "scaled") + "    torch.ones(1)\n" + RIGHT))  # fmt: skip
    with planted(RIDGE, SCALED):
        verdict = judge(notebook, SCALED)
    assert (verdict.score, verdict.waiting_points) == (2.0, 3.0)


def test_a_check_that_stands_twice_is_judged_once():
    assert judgeable(_notebook(("ex-1-1-check", ""), ("ex-1-1-check", ""), ("ex-9-9-check", ""))) == [
        (exercise("1.1"), "check")
    ]


def test_the_tests_own_answers_are_python():
    ast.parse(HEAD + RIGHT)
