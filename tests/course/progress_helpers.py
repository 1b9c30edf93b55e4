"""What the progress tests build on: exercises and verdicts made to measure, and child processes that can be broken."""

import os
import subprocess
import sys
from pathlib import Path

from course_lib.exercises.phases import Phase
from course_lib.grading.criteria import Correct, Timed
from course_lib.grading.exercise import Exercise
from course_lib.grading.outcome import Kind, Outcome, State
from course_lib.grading.verdict import Verdict

ROOT = Path(__file__).parents[2]
PHASES = tuple(Phase(n, f"phase{n}", f"Phase {n}", "", "", False) for n in (1, 2, 3, 4))


def exercise(id: str, check: float = 2, timed: float = 0) -> Exercise:
    same = {"name": "c", "claim": "", "cases": lambda seed: [], "check": lambda case, output: None, "run": "call"}
    criteria = [Correct(points=check, **same)]
    if timed:
        criteria.append(Timed(points=timed, bar=1.0, **same))
    return Exercise(
        id=id, title=f"Exercise {id}", entry="f", params=("x",), returns="a number", runner="phase1_ridge", criteria=criteria
    )


def verdict(
    id: str, score: float, most: float = 2, *, waiting: float = 0, cell: str = "check", attempted: bool = True,
    ratio: float | None = None, device: str = "", **context,
) -> Verdict:  # fmt: skip
    """`score` points passed, `waiting` blocked, the rest failed."""
    parts = ((State.PASSED, score), (State.BLOCKED, waiting), (State.FAILED, most - score - waiting))
    outcomes = tuple(
        Outcome(str(state), Kind.CORRECT, "", state, points if state is State.PASSED else 0.0, points,
                evidence={} if ratio is None else {"ratio": ratio})
        for state, points in parts if points
    )  # fmt: skip
    return Verdict(id, cell, outcomes, attempted, context={"device": device, **context})


CHILD = """
import os, signal, sys
sys.path[:0] = [{root!r}, {here!r}]
from course_lib.course import progress
from course_lib.exercises import all_exercises
from progress_helpers import exercise, verdict
all_exercises()
EXERCISES = [exercise("1.1")]
"""


def child(code: str, home: Path, tmp: Path, *, wrap: tuple[str, ...] = (), wait: bool = True):
    """Run `code` after CHILD in a process of its own whose home and temporary folder are these."""
    source = CHILD.format(root=str(ROOT), here=str(Path(__file__).parent)) + code
    environment = os.environ | {"COURSE_HOME": str(home), "TMPDIR": str(tmp)}
    process = subprocess.Popen(
        [*wrap, sys.executable, "-B", "-c", source], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    if not wait:
        return process
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert err == ""
    return out
