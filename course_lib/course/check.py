"""`labs check`: judge the exercises of a notebook file and record each verdict in the learner's progress."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..exercises import UnknownExercise, exercise
from ..grading.verdict import Verdict
from .environment import environment
from .home import found_home
from .intake import fault_of
from .judge import judge, judgeable
from .progress import record
from .submission import cells_for


class CheckError(RuntimeError):
    """Nothing can be judged; the message says why."""


def check_notebook(path: Path, exercises: Sequence[str]) -> Iterator[tuple[Verdict, str]]:
    """(verdict, message) for each grade cell of the notebook, or of the exercises named. Raises CheckError."""
    import nbformat

    try:
        notebook = nbformat.read(path, as_version=4)
    except FileNotFoundError as error:
        raise CheckError(f"there is no file {path}") from error
    except Exception as error:  # nbformat raises whatever the damage leads to
        raise CheckError(f"{path} cannot be read as a notebook: {type(error).__name__}: {str(error)[:200]}") from error
    for number, cell in enumerate(notebook.cells, start=1):
        if fault := fault_of(cell):
            raise CheckError(f"{path}: cell {number} {fault}; take a fresh copy of the lab and put your answers there")
    try:
        wanted = list(dict.fromkeys(exercise(name) for name in exercises))
    except UnknownExercise as error:
        raise CheckError(str(error)) from error
    # exercises that are named are judged from the answer's cell; their check cells need not be there
    found = [(e, cell) for e in wanted for cell in e.cells] if wanted else judgeable(notebook)
    here = {e.id for e, _ in judgeable(notebook)}
    if lacking := [e.id for e in wanted if e.id not in here and not cells_for(notebook, e)]:
        raise CheckError(f"{path} holds no cell of {', '.join(lacking)}; open a lab from labs start")
    if not found:
        raise CheckError(f"{path} holds no check that this course knows; open a lab from labs start")
    for known, cell in found:
        verdict = judge(notebook, known, cell)
        with environment(_home_of(path)):
            message = record(verdict, "check")
        yield verdict, message


def _home_of(notebook: Path) -> dict[str, str]:
    """The progress of the copy that the notebook lies in, wherever the command was called; $COURSE_HOME wins."""
    home = None if os.environ.get("COURSE_HOME", "").strip() else found_home(notebook.parent)
    return {"COURSE_HOME": str(home)} if home else {}
