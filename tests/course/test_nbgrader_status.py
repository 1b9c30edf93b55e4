"""What we keep in nbgrader's grade book beside its own tables: how grading ended, and which version of a lab it knows."""

import os
import sys
from pathlib import Path

import pytest
from nbgrader.api import Gradebook

from course_lib.course.nbgrader_steps.export import export_rows
from course_lib.course.nbgrader_steps.lab_version import registered_version, save_version, version_of
from course_lib.course.nbgrader_steps.status import Status, add_to_sentence, printable, read_statuses, save_status

RUN = "a" * 32


@pytest.fixture
def gradebook(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")  # it calls alembic
    with Gradebook(f"sqlite:///{tmp_path}/gradebook.db") as book:
        yield book


def test_a_status_is_replaced_and_told_more_and_others_stay(gradebook):
    save_status(gradebook, "lab", "a", Status("failed", "it's; \"odd\", é"), 0.0, "")
    save_status(gradebook, "lab", "b", Status("graded"), 2.5, RUN)
    save_status(gradebook, "lab", "a", Status("graded", "first"), 1.0, RUN)
    add_to_sentence(gradebook, "lab", "a", "second")
    add_to_sentence(gradebook, "lab", "b", "only")
    assert read_statuses(gradebook) == {
        ("lab", "a"): (Status("graded", "first; second"), 1.0),
        ("lab", "b"): (Status("graded", "only"), 2.5),
    }


@pytest.mark.parametrize(("arguments", "word"), [
    ((0, "", []), "graded"),
    ((2, "", []), "graded, points waiting"),
    ((2, "the kernel ended", []), "graded, kernel died"),
    ((2, "the kernel ended", ["ex-1-1-check"]), "needs a look"),
])  # fmt: skip
def test_what_needs_a_person_wins_over_what_is_told_for_information(arguments, word):
    assert Status.of(*arguments).word == word


def test_the_grade_book_remembers_a_lab_s_version(gradebook, tmp_path):
    assert registered_version(gradebook, "lab") == ""
    save_version(gradebook, "lab", "0.1+a")
    save_version(gradebook, "lab", "0.1+b")
    assert registered_version(gradebook, "lab") == "0.1+b"
    for text in ("", "[]", "{}", '{"metadata": {"course": 3}}'):
        (tmp_path / "lab.ipynb").write_text(text)
        assert version_of(tmp_path / "lab.ipynb") == ""


def test_what_a_grade_book_cannot_hold_is_saved_as_an_escape(gradebook):
    assert printable("caf\udce9 \n\ud800 é 山　[x]") == "caf\\xe9 \\n\\ud800 é 山　[x]"
    save_status(gradebook, "lab", "a", Status("malformed", "found caf\udce9"), 0.0, "")
    add_to_sentence(gradebook, "lab", "a", "two\nlines")
    assert read_statuses(gradebook)["lab", "a"][0].sentence == "found caf\\xe9; two\\nlines"


def _row(gradebook, student):
    (row,) = export_rows(gradebook, students={student})
    return row


@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
@pytest.mark.parametrize("word", ["malformed", "failed"])
def test_an_earlier_score_is_not_exported_for_a_submission_that_has_none(gradebook, word):
    gradebook.add_assignment("lab")
    gradebook.add_notebook("nb", "lab")
    gradebook.add_grade_cell("check", "nb", "lab", max_score=5.0, cell_type="code")
    gradebook.add_student("anna")
    gradebook.add_submission("lab", "anna")
    gradebook.find_grade("check", "nb", "lab", "anna").auto_score = 4.0
    gradebook.db.commit()
    save_status(gradebook, "lab", "anna", Status("graded", "x"), 0.0, RUN)
    assert (_row(gradebook, "anna")["raw_score"], _row(gradebook, "anna")["score"]) == (4.0, 4.0)
    save_status(gradebook, "lab", "anna", Status(word, "the file is cut off"), 0.0, "")
    row = _row(gradebook, "anna")
    assert (row["raw_score"], row["score"], row["status"]) == (0.0, 0.0, word)


def test_no_text_of_a_student_is_a_formula_in_a_spreadsheet(gradebook):
    gradebook.add_assignment("lab")
    for student, last_name in (("=HYPERLINK(1)", "@SUM"), ("-1", "+2"), ("O'Brien", "a=b")):
        gradebook.add_student(student, last_name=last_name)
        save_status(gradebook, "lab", student, Status("malformed", f"{student} said"), 0.0, "")
    rows = [(row["student_id"], row["last_name"], row["status_sentence"]) for row in export_rows(gradebook)]
    assert sorted(rows) == [
        ("'-1", "'+2", "'-1 said"), ("'=HYPERLINK(1)", "'@SUM", "'=HYPERLINK(1) said"), ("O'Brien", "a=b", "O'Brien said"),
    ]  # fmt: skip
