"""Verdicts in the outputs of a notebook's cells: find them, trust them only for one run, and put one there."""

from typing import Any

import nbformat

from ...exercises import all_exercises
from ...grading.exercise import Exercise
from ...grading.verdict import MIME, Verdict


def grade_cells() -> dict[str, tuple[Exercise, str]]:
    """grade id -> (exercise, cell) for every grade cell of the course."""
    return {e.grade_id(cell): (e, cell) for e in all_exercises() for cell in e.cells}


def verdict_in(cell: Any, run: str | None = None) -> Verdict | None:
    """The last verdict among a cell's outputs that reads well and, when `run` is given, belongs to that run."""
    for output in reversed(cell.get("outputs", [])):
        data = output.get("data", {}).get(MIME)
        if not isinstance(data, dict):
            continue
        try:
            verdict = Verdict.from_json(data)
        except ValueError:
            continue
        if run is None or verdict.context.get("run") == run:
            return verdict
    return None


def verdict_for(cell: Any, run: str) -> Verdict | None:
    """The verdict of this run for the exercise that the grade cell belongs to; None for any other."""
    known, verdict = grade_cells().get(_grade_id(cell)), verdict_in(cell, run)
    if known is None or verdict is None:
        return None
    exercise, part = known
    same = verdict.exercise == exercise.id and verdict.cell == part and verdict.max_points == exercise.points(part)
    return verdict if same else None


def put_verdict(cell: Any, verdict: Verdict) -> None:
    """Append a verdict as an output, as `lab.check` would have shown it."""
    from ..shown import Shown

    bundle = Shown(verdict)._repr_mimebundle_()
    cell.outputs.append(nbformat.v4.new_output("display_data", data=bundle))


def verdicts_of(notebook: Any) -> list[Verdict]:
    """The verdict of every grade cell that has one, in order."""
    return [v for cell in notebook.cells if _grade_id(cell) in grade_cells() and (v := verdict_in(cell))]


def _grade_id(cell: Any) -> str:
    return cell.get("metadata", {}).get("nbgrader", {}).get("grade_id", "")
