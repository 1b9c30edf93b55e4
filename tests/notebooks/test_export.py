"""The table for the instructor: nbgrader's columns, what waits, and how grading ended, for every student."""

import csv

import pytest

from course_lib.course.nbgrader_steps.export import COLUMNS

from .the_class import STUDENTS


@pytest.fixture(scope="module")
def table(graded_class) -> dict[str, dict[str, str]]:
    with open(graded_class.csv, newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        rows = list(reader)
    assert tuple(reader.fieldnames) == COLUMNS
    assert len(rows) == len(STUDENTS)
    return {row["student_id"]: row for row in rows}


@pytest.mark.parametrize("name", STUDENTS)
def test_a_row_holds_score_waiting_points_and_status(table, name):
    expected, row = STUDENTS[name], table[name]
    assert row["assignment"] == "phase1_roofline"
    assert float(row["score"]) == float(row["raw_score"]) == (expected.score or 0.0)
    assert float(row["max_score"]) == 5.0
    assert float(row["waiting_points"]) == expected.waiting
    assert row["status"] == expected.status


def test_a_name_with_a_comma_is_one_name(table):
    assert table["Curie, Marie"]["score"] == "4.0"


def test_a_sentence_with_commas_stays_whole(table, graded_class):
    for name, row in table.items():
        assert row["status_sentence"] == graded_class.rows[name].sentence
