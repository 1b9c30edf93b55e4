"""A folder or a grade book that nbgrader cannot use is refused before anything is graded, with a way out."""

import sqlite3
from contextlib import closing

import pytest

from course_lib.course.grade import grade
from course_lib.course.gradebook import GradeError
from tests.notebooks.classroom import PHASE, folder_of
from tests.notebooks.small_course import planted, write_course


@pytest.fixture
def course(tmp_path):
    with planted():
        yield write_course(tmp_path)


@pytest.mark.parametrize("name", ["week?", "week[1]", "w{1}", "w#1", "two\nlines", "a+b", "(old)"])
def test_a_folder_that_nbgrader_takes_for_a_pattern_is_refused(course, tmp_path, name):
    with pytest.raises(GradeError, match=r"the path of --where .* holds .*, which nbgrader takes for a pattern; use a folder"):
        grade(course, tmp_path / name, [])
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("content", [b"garbage" * 1000, b"SQLite format 3\0" + b"x" * 5000])
def test_a_damaged_grade_book_is_named_with_a_way_out(course, tmp_path, content):
    folder_of(course, "anna")
    (tmp_path / "grading" / "gradebook.db").write_bytes(content)
    with pytest.raises(GradeError, match=r"the grade book .*gradebook.db cannot be used \(.*\); move it away and grade again"):
        grade(course, tmp_path / "grading", [("anna", PHASE)])
    assert (tmp_path / "grading" / "gradebook.db").read_bytes() == content


def test_a_grade_book_of_something_else_is_named(course, tmp_path):
    folder_of(course, "anna")
    with closing(sqlite3.connect(tmp_path / "grading" / "gradebook.db")) as book:
        book.execute("CREATE TABLE course_lab (x)")
    with pytest.raises(GradeError, match=r"gradebook.db cannot be used \(.*\); move it away"):
        grade(course, tmp_path / "grading", [("anna", PHASE)])
