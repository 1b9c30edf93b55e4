"""Grading a folder: what is found there, what the grade book knows of a lab, and when grading refuses to start."""

import json
import re
import shutil

import pytest

from course_lib.course import grade as grading
from course_lib.course.grade import GradeError, grade, open_gradebook, register, submissions
from course_lib.course.grade_command import grade_folder
from tests.notebooks.classroom import PHASE, folder_of, read
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
    assert submissions(tmp_path, student="[ac]") == [("a", PHASE), ("a", "phase2_attention")]
    for nobody in ("", "/etc", "..", "A"):
        assert submissions(tmp_path, student=nobody) == []


def test_a_student_is_found_by_a_name_that_looks_like_a_pattern(tmp_path):
    (tmp_path / "submitted" / "a[1]" / PHASE).mkdir(parents=True)
    assert submissions(tmp_path, student="a[1]") == [("a[1]", PHASE)]


def test_nothing_handed_in_is_said_with_the_place_where_it_belongs(course, tmp_path):
    with pytest.raises(GradeError, match=rf"no submission in .*/grading/submitted/\*/{PHASE}; put STUDENT/PHASE/"):
        grade_folder(course, tmp_path / "grading", 1, "*", False, None)


@pytest.mark.parametrize("name", ["", "/etc", "ann?y"])
def test_a_student_who_is_not_there_is_answered_with_those_who_are(course, tmp_path, name):
    folder_of(course, "anna")
    with pytest.raises(GradeError, match=rf"--student {re.escape(repr(name))} is none of anna; "):
        grade_folder(course, tmp_path / "grading", 1, name, False, None)


def test_a_table_that_cannot_be_written_is_refused_before_anything_is_graded(course, tmp_path):
    folder_of(course, "anna")
    with pytest.raises(GradeError, match=r"--export .*no/x.csv cannot be written: there is no folder .*; nothing was graded"):
        grade_folder(course, tmp_path / "grading", 1, "*", False, tmp_path / "no" / "x.csv")
    with pytest.raises(GradeError, match="it is a folder; add a file name"):
        grade_folder(course, tmp_path / "grading", 1, "*", False, tmp_path)
    assert not (tmp_path / "grading" / "gradebook.db").exists()


def test_a_name_that_is_no_utf_8_costs_nobody_else_the_grading(course, tmp_path):
    folder_of(course, "caf\udce9")
    folder_of(course, "new\nline")
    folder_of(course, "zoe")
    where, csv = tmp_path / "grading", tmp_path / "g.csv"
    rows = grade_folder(course, where, 1, "*", False, csv)
    assert [(row.student, row.status) for row in rows] == [
        ("caf\\xe9", "malformed"), ("new\\nline", "malformed"), ("zoe", "malformed"),
    ]  # fmt: skip
    assert rows[0].sentence == "the name of the folder holds \\xe9; rename it to the student's id"
    assert "caf\\xe9" in csv.read_text(encoding="utf-8")


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


def _handed_in(course, *students):
    for student in students:
        shutil.copy(course / "labs" / PHASE / f"{PHASE}.ipynb", folder_of(course, student))


def test_ctrl_c_ends_the_class_though_nbgrader_reports_it_as_a_failure(course, tmp_path, monkeypatch):
    from nbgrader.converters import Autograde

    graded = []

    def stopped(self):
        graded.append(self.coursedir.student_id)
        raise KeyboardInterrupt

    monkeypatch.setattr(Autograde, "start", stopped)
    _handed_in(course, "anna", "bert")
    with pytest.raises(KeyboardInterrupt):
        grade(course, tmp_path / "grading", [("anna", PHASE), ("bert", PHASE)])
    assert graded == ["anna"]


@pytest.fixture
def quick(monkeypatch):
    """nbgrader's autograde, as if it had graded."""
    from nbgrader.apps import NbGraderAPI

    from course_lib.course.nbgrader_steps.status import Status, save_status

    def graded(self, phase, student, force):
        with self.gradebook as book:
            book.update_or_create_student(student)
            book.add_submission(phase, student)
            save_status(book, phase, student, Status("graded", "every point was judged"), 0.0, "")
        return {"success": True}

    monkeypatch.setattr(NbGraderAPI, "autograde", graded)


@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
def test_feedback_that_was_not_written_is_told_with_its_reason(course, tmp_path, monkeypatch, quick):
    from nbgrader.converters import GenerateFeedback

    def breaks(self):
        raise ValueError("No template sub-directory with name 'classic' found in the following paths:\n\t/x")

    monkeypatch.setattr(GenerateFeedback, "start", breaks)
    _handed_in(course, "anna")
    (row,) = grade(course, tmp_path / "grading", [("anna", PHASE)], feedback=True)
    told = "no feedback was written: ValueError: No template sub-directory with name 'classic' found in the following paths"
    assert row.status == "graded"
    assert row.sentence.endswith(f"; {told}")


@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
def test_a_version_that_a_submission_names_is_cut_and_is_no_markup(course, tmp_path, quick):
    from rich.console import Console

    from course_lib.display.grade_table import rich_table

    folder_of(course, "[ß]")
    notebook = read(course / "labs" / PHASE / f"{PHASE}.ipynb")
    notebook.metadata["course"]["lab_version"] = "[red]\n" + "x" * 1000
    (folder_of(course, "anna") / f"{PHASE}.ipynb").write_text(json.dumps(notebook))
    rows = grade(course, tmp_path / "grading", [("anna", PHASE), ("[ß]", PHASE)])
    assert f"made from version [red]\\n{'x' * 34} of the lab, graded as " in rows[0].sentence
    console = Console(width=200)
    with console.capture() as shown:
        console.print(rich_table(rows))
    assert "[ß]" in shown.get()
    assert "[red]" in shown.get()
