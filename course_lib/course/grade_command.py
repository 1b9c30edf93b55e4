"""`labs grade`: which submissions, in which order, and what is written besides the grades."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from ..exercises import phase
from .grade import Row, grade, students, submissions
from .gradebook import GradeError, open_gradebook
from .nbgrader_steps.status import printable

SHOWN_STUDENTS = 20


def grade_folder(
    root: Path, where: Path, phase_number: int | None, student: str, feedback: bool, export: Path | None,
    step: Callable[[int, Row | None], None] = lambda *_: None,
) -> list[Row]:  # fmt: skip
    """Grade what is in `where`; -> one row each. `step(total, row)` is called at the start (row None) and after each."""
    name = phase(phase_number).name if phase_number else "*"
    if export and (fault := _unwritable(export)):
        raise GradeError(f"--export {export} cannot be written: {fault}; nothing was graded")
    todo = submissions(where, name, student)
    if not todo:
        _nothing_to_grade(where, name, student)
    step(len(todo), None)
    rows = grade(root, where, todo, feedback=feedback, done=lambda row: step(len(todo), row))
    if export:
        from .nbgrader_steps.export import export_rows, write_csv

        with open_gradebook(where) as gradebook:
            write_csv(export, export_rows(gradebook, {p for _, p in todo}))
    return rows


def _nothing_to_grade(where: Path, name: str, student: str) -> NoReturn:
    known = [printable(one) for one in students(where)]
    if known and student != "*" and not submissions(where, "*", student):
        others = f" and {len(known) - SHOWN_STUDENTS} more" if len(known) > SHOWN_STUDENTS else ""
        raise GradeError(f"--student {student!r} is none of {', '.join(known[:SHOWN_STUDENTS])}{others}; * and ? match")
    raise GradeError(f"no submission in {where}/submitted/{student}/{name}; put STUDENT/PHASE/PHASE.ipynb there")


def _unwritable(target: Path) -> str:
    """Why a file cannot be written there, or ""."""
    if target.is_dir():
        return "it is a folder; add a file name"
    if not target.parent.is_dir():
        return f"there is no folder {target.parent}; make it"
    return "" if os.access(target.parent, os.W_OK) else f"the folder {target.parent} is not writable; choose another"
