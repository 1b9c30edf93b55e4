"""What one answer does to the others, and points that wait for more than a device: a lab with a second exercise, 1.2.

The kernel of a submission does not know the planted exercise, so its checks are judged from source, as after a crash.
"""

import pytest

from course_lib.course.grade import grade, open_gradebook, submissions
from course_lib.course.nbgrader_steps import config

from .classroom import PHASE, hand_in, source
from .small_course import FIRST, RIDGE, SCALED, SECOND, SETUP, planted, write_course

HANGS = "def ridge_points(peak_tflops, hbm_gb_per_s):\n    while True:\n        pass\n"
SLEEPS = "import time\ntime.sleep(1e9)\n"


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """-> (root, rows by student). Who never ends gets 3 s for a cell and 2 s for judged answers, who solved it what all get."""
    root = tmp_path_factory.mktemp("two")
    where = root / "grading"
    with planted(RIDGE, SCALED), pytest.MonkeyPatch.context() as patch:
        patch.delenv("COURSE_RUN_ID", raising=False)
        write_course(root, SETUP + FIRST + SECOND)
        hand_in(root, "hangs", source("ex-1-1", HANGS))
        hand_in(root, "sleeps-while-loading", source("ex-1-1", SLEEPS))
        with planted(RIDGE, SCALED, seconds=2.0), pytest.MonkeyPatch.context() as limit:
            limit.setattr(config, "CELL_SECONDS", 3)
            rows = grade(root, where, submissions(where))
        hand_in(root, "solved")
        rows += grade(root, where, [("solved", PHASE)])
        yield root, {row.student: row for row in rows}


# 1.1: 4 for its check, 1 waits for a GPU. 1.2: 2 for its table, 3 wait for a compiler's report.
EXPECTED = {
    "solved": (6.0, 4.0),
    "hangs": (2.0, 3.0),
    "sleeps-while-loading": (2.0, 3.0),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_an_answer_that_never_ends_costs_only_its_own_points(graded, name):
    row = graded[1][name]
    assert (row.score, row.waiting_points, row.max_score) == (*EXPECTED[name], 10.0)


def test_a_partly_blocked_cell_keeps_its_score_and_needs_a_manual_grade(graded):
    with open_gradebook(graded[0] / "grading") as gradebook:
        found = gradebook.find_grade("ex-1-2-check", PHASE, PHASE, "solved")
        assert (found.auto_score, found.max_score, found.needs_manual_grade) == (2.0, 5.0, True)
        comment = gradebook.find_comment("ex-1-2", PHASE, PHASE, "solved").comment
    assert comment == "3 points wait (compiles): no compiled evidence was gathered here"


@pytest.fixture(scope="module")
def again(graded):
    """The second round: a name that nbgrader cannot find, then the solved lab with a score given by hand."""
    root, where = graded[0], graded[0] / "grading"
    with open_gradebook(where) as gradebook:
        found = gradebook.find_grade("ex-1-1-timed", PHASE, PHASE, "solved")
        found.manual_score, found.needs_manual_grade = 0.75, False
        gradebook.db.commit()
    hand_in(root, "anna[1]", start="labs")
    return grade(root, where, [("anna[1]", PHASE), ("solved", PHASE)])


def test_a_manual_score_survives_grading_again_and_is_looked_at_again(graded, again):
    assert again[1].score == 6.75
    with open_gradebook(graded[0] / "grading") as gradebook:
        found = gradebook.find_grade("ex-1-1-timed", PHASE, PHASE, "solved")
        assert (found.manual_score, found.auto_score, found.needs_manual_grade) == (0.75, None, True)


def test_a_student_whom_nbgrader_cannot_grade_does_not_end_the_class(again):
    assert (again[0].student, again[0].score, again[0].status) == ("anna[1]", None, "malformed")
    assert again[0].sentence == "the name of the folder holds [ ]; rename it to the student's id"
    assert again[1].status == "graded, points waiting"
