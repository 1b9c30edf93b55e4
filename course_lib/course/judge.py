"""Judge a notebook's exercises out of process: the notebook is read, never run; its exercise cells run in a child."""

import secrets
from typing import Any

from .. import __version__
from ..exercises import all_exercises, runners
from ..grading.child import attempts_in_child
from ..grading.exercise import Exercise
from ..grading.judging import conclude, plan, refused
from ..grading.launches import wants_launches, with_launch_evidence
from ..grading.verdict import Verdict
from .submission import cells_for, grade_id, only_definitions


def judge(notebook: Any, known: Exercise, cell: str = "check", seed: int | None = None, run: str = "") -> Verdict:
    """The verdict on one grade cell of a notebook. Never raises for what the notebook holds.

    run  id of the grading run, written into the verdict
    """
    seed = secrets.randbits(62) if seed is None else seed
    context = {"course_version": __version__, "seed": str(seed), "judged": "in a child process"}
    if run:
        context["run"] = run
    cells = cells_for(notebook, known)
    if not cells:
        cure = "rename it, run labs start, and copy your answers into the fresh one"
        return refused(known, cell, f"the notebook has no code cell {known.cell_id}; {cure}", context)
    jobs, files = plan(known, cell, seed), runners.files(known.runner)
    attempts = attempts_in_child(known, cell, jobs, cells, files)
    harmless = [c for c in cells if c.required or c.name.endswith("-setup") or only_definitions(c.source)]
    if len(harmless) < len(cells) and all(a["status"] in ("timeout", "died") for a in attempts):
        attempts = attempts_in_child(known, cell, jobs, harmless, files)  # perhaps an earlier answer hung or died
    if wants_launches(known, cell):
        attempts = with_launch_evidence(known, cell, jobs, attempts, runners.load(known.runner), cached=False)
    return conclude(known, cell, jobs, attempts, context)


def judgeable(notebook: Any) -> list[tuple[Exercise, str]]:
    """(exercise, cell) of every grade cell in the notebook that this course knows, in the notebook's order."""
    places = {e.grade_id(cell): (e, cell) for e in all_exercises() for cell in e.cells}
    found = [places[name] for c in notebook.cells if (name := grade_id(c)) in places]
    return list(dict.fromkeys(found))


