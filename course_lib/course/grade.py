"""Grade a folder of submissions with nbgrader, one after another: each ends with a status, and none harms another.

Folders  WHERE/submitted/STUDENT/PHASE/PHASE.ipynb in, WHERE/autograded and WHERE/feedback out, grades in WHERE/gradebook.db.
"""

import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..exercises import PHASES
from .environment import environment
from .intake import inspect_submission
from .nbgrader_steps.lab_version import registered_version, save_version, version_of
from .nbgrader_steps.status import FAILED, MALFORMED, Status, add_to_sentence, read_statuses, save_status


class GradeError(RuntimeError):
    """Grading cannot start; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Row:
    """How one submission ended."""

    student: str
    phase: str
    status: str
    sentence: str
    score: float | None
    max_score: float
    waiting_points: float

    def to_json(self) -> dict:
        return asdict(self)


def submissions(where: Path, phase: str = "*", student: str = "*") -> list[tuple[str, str]]:
    """(student, phase) of every folder handed in, sorted."""
    names = {p.name for p in PHASES}
    folders = (where / "submitted").glob(f"{student}/{phase}")
    return sorted((f.parent.name, f.name) for f in folders if f.is_dir() and f.name in names)


def grade(
    root: Path, where: Path, todo: list[tuple[str, str]], *, feedback: bool = False,
    done: Callable[[Row], None] = lambda _: None,
) -> list[Row]:  # fmt: skip
    """Grade the submissions in `todo` -> a row for each, in order. `root` holds solutions/; `done` is called after each."""
    rows = []
    with _nbgrader(root, where) as api:
        for phase in dict.fromkeys(phase for _, phase in todo):
            register(root, where, phase)
        for student, phase in todo:
            rows.append(_grade_one(api, where, student, phase, feedback))
            done(rows[-1])
    return rows


def register(root: Path, where: Path, phase: str) -> None:
    """Tell the grade book about the lab, once for each version. Raises GradeError when it refuses the change."""
    source = root / "solutions" / phase / f"{phase}.ipynb"
    version = version_of(source)
    if not version:
        raise GradeError(f"{source} is missing or names no lab version; run labs build, or grade in a clone of the repository")
    with open_gradebook(where) as gradebook:
        if registered_version(gradebook, phase) == version:
            return
    from .build import register_lab

    if log := register_lab(source, phase, _database(where)):
        raise GradeError(f"the grade book refuses {phase} {version}: {log}; grade this version into a new --where folder")
    with open_gradebook(where) as gradebook:
        save_version(gradebook, phase, version)


def _database(where: Path) -> str:
    return f"sqlite:///{(where / 'gradebook.db').resolve()}"


@contextmanager
def _nbgrader(root: Path, where: Path) -> Iterator[Any]:
    """nbgrader's API on these folders, with its helper programs on PATH."""
    from nbgrader.apps import NbGraderAPI
    from traitlets.config import Config

    from .nbgrader_steps.config import configure

    where.mkdir(parents=True, exist_ok=True)
    config = Config()
    configure(config)
    config.CourseDirectory.root = str(root.resolve())
    config.CourseDirectory.db_url = _database(where)
    for name in ("submitted", "autograded", "feedback"):
        setattr(config.CourseDirectory, f"{name}_directory", os.path.relpath(where / name, root))
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    with environment({"PATH": programs}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="nbgrader")  # three SAWarnings for each new submission, of no meaning
        warnings.filterwarnings("ignore", module="nbformat")
        api = NbGraderAPI(config=config)
        api.log.setLevel("ERROR")
        yield api


def _grade_one(api: Any, where: Path, student: str, phase: str, feedback: bool) -> Row:
    folder = where / "submitted" / student / phase
    problem = inspect_submission(folder, phase)
    if problem:
        _set_status(api, phase, student, Status(MALFORMED, problem))
        return _row(api, student, phase)
    try:
        result = api.autograde(phase, student, force=True)
    except Exception as error:  # one submission's trouble, whatever it is, must not end the class
        result = {"success": False, "error": f"{type(error).__name__}: {error}"}
    if not result["success"]:
        _set_status(api, phase, student, Status(FAILED, _why(result)))
        return _row(api, student, phase)
    _name_old_version(api, folder / f"{phase}.ipynb", student, phase)
    if feedback:
        api.generate_feedback(phase, student, force=True)
    return _row(api, student, phase)


def _name_old_version(api: Any, notebook: Path, student: str, phase: str) -> None:
    """Say so when a submission was made from another version of the lab than the one it is graded as."""
    with api.gradebook as gradebook:
        theirs, ours = version_of(notebook), registered_version(gradebook, phase)
        if theirs != ours:
            made = f"made from version {theirs} of the lab" if theirs else "names no version of the lab"
            add_to_sentence(gradebook, phase, student, f"{made}, graded as {ours}")


def _why(result: dict) -> str:
    """The exception that nbgrader's report ends in: its log holds the cause, its error often only says "see the log"."""
    for text in (result.get("log") or "", result.get("error") or ""):
        for line in reversed(text.splitlines()):
            if re.match(r"[\w.]+(Error|Exception): .", line.strip()):
                return line.strip()[:300]
    return "nbgrader gave no reason"


def _set_status(api: Any, phase: str, student: str, status: Status) -> None:
    with api.gradebook as gradebook:
        gradebook.update_or_create_student(student)
        save_status(gradebook, phase, student, status, 0.0, "")


def _row(api: Any, student: str, phase: str) -> Row:
    from nbgrader.api import MissingEntry

    with api.gradebook as gradebook:
        status, waiting = read_statuses(gradebook).get((phase, student), (Status(FAILED, "no status was saved"), 0.0))
        max_score = gradebook.find_assignment(phase).max_score
        try:
            score = gradebook.find_submission(phase, student).score
        except MissingEntry:
            score = None
    graded = status.word not in (FAILED, MALFORMED)
    return Row(student, phase, status.word, status.sentence, score if graded else None, max_score, waiting)


def open_gradebook(where: Path) -> Any:
    """nbgrader's grade book of this folder, as a context manager."""
    from nbgrader.api import Gradebook

    return Gradebook(_database(where))
