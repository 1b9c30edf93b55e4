"""Grading a folder: what is found there, what the grade book knows of a lab, and when grading refuses to start."""

import shutil

import pytest

from course_lib.course import grade as grading
from course_lib.course.grade import GradeError, grade, open_gradebook, register, submissions
from course_lib.course.grade_command import grade_folder
from tests.notebooks.classroom import PHASE, folder_of
from tests.notebooks.small_course import FIRST, RIDGE, SCALED, SECOND, SETUP, planted, write_course


@pytest.fixture
def course(tmp_path):
    with planted():
        yield write_course(tmp_path)


def _max_score(where) -> float:
    with open_gradebook(where) as gradebook:
        return gradebook.find_assignment(PHASE).max_score


def test_submissions_are_the_folders_of_known_phases_and_nothing_else(tmp_path):
    for student, phase in (("b", PHASE), ("a", PHASE), ("a", "phase2_attention"), ("a", "notes")):
        (tmp_path / "submitted" / student / phase).mkdir(parents=True)
    (tmp_path / "submitted" / "a file").write_text("x")
    assert submissions(tmp_path) == [("a", PHASE), ("a", "phase2_attention"), ("b", PHASE)]
    assert submissions(tmp_path, student="b") == [("b", PHASE)]
    assert submissions(tmp_path, phase="phase2_attention") == [("a", "phase2_attention")]


def test_nothing_handed_in_is_said_with_the_place_where_it_belongs(course, tmp_path):
    with pytest.raises(GradeError, match=rf"no submission in .*/grading/submitted/\*/{PHASE}; put STUDENT/PHASE/"):
        grade_folder(course, tmp_path / "grading", 1, "*", False, None)


def test_a_folder_without_solutions_is_refused(tmp_path):
    with pytest.raises(GradeError, match="is missing or names no lab version; run labs build"):
        grade(tmp_path, tmp_path / "grading", [("anna", PHASE)])


def test_a_lab_is_entered_into_the_grade_book_once_for_each_version(course, tmp_path, monkeypatch):
    where = tmp_path / "grading"
    where.mkdir()
    calls = []
    from course_lib.course import build

    real = build.register_lab
    monkeypatch.setattr(build, "register_lab", lambda *args: calls.append(args) or real(*args))
    with grading._nbgrader(course, where):
        register(course, where, PHASE)
        register(course, where, PHASE)
    assert (len(calls), _max_score(where)) == (1, 5.0)
    with planted(RIDGE, SCALED):
        write_course(course, SETUP + FIRST + SECOND)
        with grading._nbgrader(course, where):
            register(course, where, PHASE)
    assert (len(calls), _max_score(where)) == (2, 10.0)


def test_a_lost_grade_book_is_made_again(course, tmp_path):
    where = tmp_path / "grading"
    where.mkdir()
    for _ in range(2):
        with grading._nbgrader(course, where):
            register(course, where, PHASE)
        assert _max_score(where) == 5.0
        (where / "gradebook.db").unlink()


def test_registering_leaves_the_released_lab_alone(course, tmp_path):
    lab = course / "labs" / PHASE / f"{PHASE}.ipynb"
    before = lab.read_bytes(), lab.stat().st_mtime_ns
    folder_of(course, "anna")
    (row,) = grade(course, tmp_path / "grading", [("anna", PHASE)])
    assert row.status == "malformed"
    assert (lab.read_bytes(), lab.stat().st_mtime_ns) == before


@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")  # of nbgrader's own, and of no meaning
def test_a_new_lab_that_the_grade_book_refuses_ends_grading_with_a_way_out(course, tmp_path):
    """nbgrader takes no new cells once submissions are recorded; it must say so and delete nothing."""
    where = tmp_path / "grading"
    folder_of(course, "anna")
    grade(course, where, [("anna", PHASE)])
    with open_gradebook(where) as gradebook:
        gradebook.add_submission(PHASE, "anna")
    with planted(RIDGE, SCALED):
        write_course(course, SETUP + FIRST + SECOND)
        with pytest.raises(GradeError, match=r"the grade book refuses .*; grade this version into a new --where folder"):
            grade(course, where, [("anna", PHASE)])
    assert _max_score(where) == 5.0
    assert (course / "labs" / PHASE / f"{PHASE}.ipynb").exists()


def test_whatever_happens_to_one_submission_the_next_is_graded(course, tmp_path, monkeypatch):
    from nbgrader.apps import NbGraderAPI

    def breaks(self, phase, student, force):
        if student == "anna":
            raise OSError("No space left on device")
        return {"success": False, "error": "Traceback", "log": "[ERROR] x\n    KeyError: 'ex-1-1'\n[ERROR] see above"}

    monkeypatch.setattr(NbGraderAPI, "autograde", breaks)
    for student in ("anna", "bert"):
        shutil.copy(course / "labs" / PHASE / f"{PHASE}.ipynb", folder_of(course, student))
    rows = grade(course, tmp_path / "grading", [("anna", PHASE), ("bert", PHASE)])
    assert [(row.status, row.score, row.sentence) for row in rows] == [
        ("failed", None, "OSError: No space left on device"),
        ("failed", None, "KeyError: 'ex-1-1'"),
    ]
