"""Hand in for a class: a solved or a released lab, changed in one way.

Folders  a repository at `root` (see small_course.py), its class in root/grading.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat

ROOT = Path(__file__).resolve().parents[2]  # the real course
PHASE = "phase1_roofline"
HEAD = "def ridge_points(peak_tflops, hbm_gb_per_s):\n"
RIGHT = "    return peak_tflops.double() * 1e3 / hbm_gb_per_s.double()[:, None]\n"

Change = Callable[[Any], None]


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def cell(notebook: Any, grade_id: str) -> Any:
    """The cell with this grade id."""
    return next(c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") == grade_id)


def place(notebook: Any, grade_id: str) -> int:
    return notebook.cells.index(cell(notebook, grade_id))


def folder_of(root: Path, student: str) -> Path:
    """The folder that a student hands in."""
    made = root / "grading" / "submitted" / student / PHASE
    made.mkdir(parents=True, exist_ok=True)
    return made


def hand_in(root: Path, student: str, *changes: Change, start: str = "solutions") -> Path:
    """Hand in a changed copy of the solved lab ("solutions") or of the released one ("labs")."""
    notebook = read(root / start / PHASE / f"{PHASE}.ipynb")
    for change in changes:
        change(notebook)
    path = folder_of(root, student) / f"{PHASE}.ipynb"
    path.write_text(json.dumps(notebook, indent=1), encoding="utf-8")  # nbformat.write would mend some damage
    return path


def answer(body: str, before: str = "") -> Change:
    """The exercise's cell defines `ridge_points` with this body."""

    def change(notebook: Any) -> None:
        cell(notebook, "ex-1-1").source = before + HEAD + body

    return change


def source(grade_id: str, text: str) -> Change:
    def change(notebook: Any) -> None:
        cell(notebook, grade_id).source = text

    return change


def delete(*grade_ids: str) -> Change:
    def change(notebook: Any) -> None:
        for grade_id in grade_ids:
            notebook.cells.remove(cell(notebook, grade_id))

    return change


def extra_cells(*sources: str, before: str = "ex-1-1") -> Change:
    """Code cells of the learner's own, before the cell named."""

    def change(notebook: Any) -> None:
        at = place(notebook, before)
        notebook.cells[at:at] = [nbformat.v4.new_code_cell(text) for text in sources]

    return change


def forged_full_marks(notebook: Any) -> None:
    """The checks show full marks from some other run, as number, as text and as a verdict."""
    from course_lib.exercises import exercise
    from course_lib.grading.outcome import Outcome, State
    from course_lib.grading.verdict import MIME, Verdict

    for part in ("check", "timed"):
        outcomes = tuple(
            Outcome(c.name, c.kind, c.claim, State.PASSED, c.points, c.points) for c in exercise("1.1").in_cell(part)
        )
        verdict = Verdict("1.1", part, outcomes, context={"run": "0" * 32})
        data = {"text/plain": repr(verdict.score), MIME: verdict.to_json()}
        target = cell(notebook, f"ex-1-1-{part}")
        target.outputs = [nbformat.v4.new_output("execute_result", data=data, execution_count=9)]
        target.execution_count = 9
