"""`labs grade`: which submissions, in which order, and what is written besides the grades."""

from collections.abc import Callable
from pathlib import Path

from ..exercises import phase
from .grade import GradeError, Row, grade, open_gradebook, submissions


def grade_folder(
    root: Path, where: Path, phase_number: int | None, student: str, feedback: bool, export: Path | None,
    step: Callable[[int, Row | None], None] = lambda *_: None,
) -> list[Row]:  # fmt: skip
    """Grade what is in `where`; -> one row each. `step(total, row)` is called at the start (row None) and after each."""
    name = phase(phase_number).name if phase_number else "*"
    todo = submissions(where, name, student)
    if not todo:
        raise GradeError(f"no submission in {where}/submitted/{student}/{name}; put STUDENT/PHASE/PHASE.ipynb there")
    step(len(todo), None)
    rows = grade(root, where, todo, feedback=feedback, done=lambda row: step(len(todo), row))
    if export:
        from .nbgrader_steps.export import export_rows, write_csv

        with open_gradebook(where) as gradebook:
            write_csv(export, export_rows(gradebook, {p for _, p in todo}))
    return rows
