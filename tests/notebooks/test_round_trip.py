"""The round trip: a class hands in, `labs grade` grades it with nbgrader, and every submission ends as it must."""

import nbformat
import pytest

from course_lib.course.nbgrader_steps.outputs import verdicts_of
from course_lib.grading.outcome import State

from .classroom import PHASE, cell, read
from .the_class import STUDENTS

GRADED = [name for name, student in STUDENTS.items() if student.score is not None]


@pytest.mark.parametrize("name", STUDENTS)
def test_a_submission_earns_exactly_what_it_must(graded_class, name):
    expected, row = STUDENTS[name], graded_class.rows[name]
    assert (row.score, row.waiting_points, row.status) == (expected.score, expected.waiting, expected.status), row
    assert row.max_score == 5.0


def test_every_submission_has_exactly_one_row(graded_class):
    assert sorted(graded_class.rows) == sorted(STUDENTS)


@pytest.mark.parametrize("name", GRADED)
def test_the_grade_book_holds_plain_numbers_within_the_points(graded_class, name):
    with graded_class.gradebook() as gradebook:
        for grade in gradebook.find_submission(PHASE, name).notebooks[0].grades:
            assert grade.auto_score is None or type(grade.auto_score) is float
            assert 0.0 <= (grade.auto_score or 0.0) <= grade.max_score


@pytest.mark.parametrize("name", GRADED)
def test_every_grade_cell_of_an_autograded_notebook_holds_a_verdict_of_one_run(graded_class, name):
    verdicts = verdicts_of(read(graded_class.autograded(name)))
    assert [(v.exercise, v.cell) for v in verdicts] == [("1.1", "check"), ("1.1", "timed")]
    assert len({v.context["run"] for v in verdicts}) == 1
    assert "0" * 32 not in {v.context["run"] for v in verdicts}


@pytest.mark.parametrize("name", GRADED)
def test_an_autograded_notebook_is_valid_and_each_of_its_cells_has_an_id(graded_class, name):
    nbformat.validate(read(graded_class.autograded(name)))
    ids = [c.get("id") for c in read(graded_class.autograded(name)).cells]
    assert all(ids)
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("name", [name for name, student in STUDENTS.items() if student.waiting])
def test_a_wholly_blocked_cell_has_no_automatic_score_and_says_why_on_the_solution(graded_class, name):
    with graded_class.gradebook() as gradebook:
        timed = gradebook.find_grade("ex-1-1-timed", PHASE, PHASE, name)
        check = gradebook.find_grade("ex-1-1-check", PHASE, PHASE, name)
        comment = gradebook.find_comment("ex-1-1", PHASE, PHASE, name).comment
    assert (timed.auto_score, timed.needs_manual_grade) == (None, True)
    assert (check.auto_score, check.needs_manual_grade) == (STUDENTS[name].score, False)
    assert comment == "1 point waits (this device): needs a CUDA device, and this machine shows none"


def test_deleted_cells_come_back_in_their_places(graded_class):
    names = [c.metadata.nbgrader.grade_id for c in read(graded_class.autograded("all-but-the-answer-deleted")).cells
             if "nbgrader" in c.metadata]  # fmt: skip
    assert names == ["setup", "ex-1-1", "ex-1-1-check", "ex-1-1-timed"]


def test_an_edited_check_is_the_course_s_check_again(graded_class):
    notebook = read(graded_class.autograded("forged"))
    assert cell(notebook, "ex-1-1-check").source == 'lab.check("1.1", ridge_points)'
    assert cell(notebook, "ex-1-1-timed").source == 'lab.check_timed("1.1", ridge_points)'


def test_a_flood_of_output_leaves_a_small_file(graded_class):
    assert graded_class.autograded("flood").stat().st_size < 500_000
    assert len(graded_class.feedback("flood")) < 1_500_000


REASONS = {
    "half-wrong": "case 'float32 inputs': ",
    "syntax-error": "SyntaxError",
    "undefined": "the cell defines no ridge_points",
    "solution-deleted": "the notebook has no code cell ex-1-1",
    "dies": "took its process down: exit code 0",
}


@pytest.mark.parametrize("name", REASONS)
def test_a_lost_point_has_a_reason_that_names_the_mistake(graded_class, name):
    verdicts = verdicts_of(read(graded_class.autograded(name)))
    lost = [o.reason for v in verdicts for o in v.outcomes if o.state is State.FAILED]
    assert lost
    assert all(REASONS[name] in reason for reason in lost), lost


SENTENCES = {
    "copied-cell": "phase1_roofline.ipynb holds the cell ex-1-1 more than once",
    "renamed": "expected a file named phase1_roofline.ipynb, found phase1_roofline (1).ipynb; rename it",
    "no-json": "phase1_roofline.ipynb is no valid notebook",
    "without-metadata": "its metadata is gone",
    "empty-folder": "there is no notebook; hand in the lab",
    "dies": "the kernel ended while the notebook ran",
    "from-elsewhere": "made from version 0.0.1+0ldc0de5 of the lab, graded as ",
    "solved": "1 point waits for a machine with a GPU",
}


@pytest.mark.parametrize("name", SENTENCES)
def test_the_status_says_in_a_sentence_what_happened_and_what_to_do(graded_class, name):
    assert SENTENCES[name] in graded_class.rows[name].sentence
