"""What we keep in nbgrader's grade book beside its own tables: how grading ended, and which version of a lab it knows."""

import os
import sys
from pathlib import Path

import pytest
from nbgrader.api import Gradebook

from course_lib.course.nbgrader_steps.lab_version import registered_version, save_version, version_of
from course_lib.course.nbgrader_steps.status import Status, add_to_sentence, read_statuses, save_status

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
