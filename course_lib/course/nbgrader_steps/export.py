"""`nbgrader export` for this course: nbgrader's columns, and with them what waits and how grading ended."""

import csv
import os
from pathlib import Path
from typing import Any

from nbgrader.api import MissingEntry
from nbgrader.plugins.export import ExportPlugin

from .status import FAILED, MALFORMED, MISSING, Status, read_statuses

COLUMNS = (
    "assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email", "raw_score",
    "late_submission_penalty", "score", "max_score", "waiting_points", "status", "status_sentence",
)  # fmt: skip
_FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")


class CourseExportPlugin(ExportPlugin):
    """CSV with `waiting_points`, `status` and `status_sentence`; a submission that was never graded says so."""

    def export(self, gradebook: Any) -> None:
        rows = export_rows(gradebook, set(map(str, self.assignment)), set(map(str, self.student)))
        target = Path(self.to or "grades.csv")
        self.log.info("Exporting grades to %s", target)
        write_csv(target, rows)


def export_rows(gradebook: Any, assignments: set[str] = frozenset(), students: set[str] = frozenset()) -> list[dict]:
    """One row for each assignment and student; the empty set means all of them."""
    statuses = read_statuses(gradebook)
    return [
        _row(gradebook, assignment, student, statuses)
        for assignment in gradebook.assignments
        if not assignments or assignment.name in assignments
        for student in gradebook.students
        if not students or student.id in students
    ]


def write_csv(target: Path, rows: list[dict]) -> None:
    """The whole file or none: a neighbour is written and renamed."""
    neighbour = target.with_name(f".{target.name}.{os.getpid()}")
    with open(neighbour, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    os.replace(neighbour, target)


def _row(gradebook: Any, assignment: Any, student: Any, statuses: dict[tuple[str, str], tuple[Status, float]]) -> dict:
    try:
        submission = gradebook.find_submission(assignment.name, student.id)
    except MissingEntry:
        submission, unknown = None, Status(MISSING, "nothing was handed in")
    else:
        unknown = Status("not graded", "run labs grade")
    status, waiting = statuses.get((assignment.name, student.id), (unknown, 0.0))
    if status.word in (FAILED, MALFORMED):
        submission = None  # what nbgrader holds is an earlier submission's grade
    penalty = (submission.late_submission_penalty or 0.0) if submission else 0.0
    raw = submission.score if submission else 0.0
    values = (
        assignment.name, assignment.duedate, submission.timestamp if submission else None, student.id,
        student.last_name, student.first_name, student.email, raw, penalty, max(0.0, raw - penalty),
        assignment.max_score, waiting, status.word, status.sentence,
    )  # fmt: skip
    return {name: _plain(value) for name, value in zip(COLUMNS, values, strict=True)}


def _plain(value: Any) -> Any:
    """A cell's value; text that a spreadsheet would run as a formula gets the ' that keeps it text."""
    if value is None:
        return ""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA_SIGNS) else value
