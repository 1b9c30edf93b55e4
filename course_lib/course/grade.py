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
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from ..exercises import PHASES
from .environment import environment
from .gradebook import GradeError, check_folder, database_of, gradebook_errors, open_gradebook, step_folder
from .intake import fault_of_name, inspect_submission
from .nbgrader_steps.lab_version import registered_version, save_version, version_of
from .nbgrader_steps.status import FAILED, MALFORMED, Status, add_to_sentence, printable, read_statuses, save_status

SHOWN_CHARACTERS = 40  # of a version that a submission names


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
    """(student, phase) of every folder handed in, sorted. `student` is a name, or a pattern with * and ?."""
    names = [p.name for p in PHASES if phase in ("*", p.name)]
    found = [name for name in students(where) if name == student or fnmatchcase(name, student)]
    return [(one, name) for one in found for name in sorted(names) if (where / "submitted" / one / name).is_dir()]


def students(where: Path) -> list[str]:
    """The names of the folders in WHERE/submitted, sorted."""
    submitted = where / "submitted"
    return sorted(f.name for f in submitted.iterdir() if f.is_dir()) if submitted.is_dir() else []


def grade(
    root: Path, where: Path, todo: list[tuple[str, str]], *, feedback: bool = False,
    done: Callable[[Row], None] = lambda _: None,
) -> list[Row]:  # fmt: skip
    """Grade the submissions in `todo` -> a row for each, in order. `root` holds solutions/; `done` is called after each."""
    rows = []
    check_folder(root, where)
    with gradebook_errors(where), _nbgrader(root, where) as api:
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

    if log := register_lab(source, phase, database_of(where)):
        raise GradeError(f"the grade book refuses {phase} {version}: {log}; grade this version into a new --where folder")
    with open_gradebook(where) as gradebook:
        save_version(gradebook, phase, version)


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
    config.CourseDirectory.db_url = database_of(where)
    for name in ("submitted", "autograded", "feedback"):
        setattr(config.CourseDirectory, f"{name}_directory", step_folder(root, where, name))
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    with environment({"PATH": programs}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="nbgrader")  # three SAWarnings for each new submission, of no meaning
        warnings.filterwarnings("ignore", module="nbformat")
        api = NbGraderAPI(config=config)
        api.log.setLevel("ERROR")
        yield api


def _grade_one(api: Any, where: Path, student: str, phase: str, feedback: bool) -> Row:
    folder = where / "submitted" / student / phase
    if problem := fault_of_name(student) or inspect_submission(folder, phase):
        return _without_grade(api, phase, student, Status(MALFORMED, problem))
    result = _report(api.autograde, phase, student)
    if not result["success"]:
        return _without_grade(api, phase, student, Status(FAILED, _why(result)))
    _name_old_version(api, folder / f"{phase}.ipynb", student, phase)
    if feedback and not (result := _report(api.generate_feedback, phase, student))["success"]:
        with api.gradebook as gradebook:
            add_to_sentence(gradebook, phase, student, f"no feedback was written: {_why(result)}")
    return _row(api, student, phase)


def _report(step: Callable[..., dict], phase: str, student: str) -> dict:
    """nbgrader's report of one of its steps. It reports a Ctrl-C as one student's failure; here that is raised again."""
    try:
        result = step(phase, student, force=True)
    except Exception as error:  # one submission's trouble, whatever it is, must not end the class
        result = {"success": False, "error": f"{type(error).__name__}: {error}"}
    if (result.get("error") or "").rstrip().endswith("\nKeyboardInterrupt"):
        raise KeyboardInterrupt
    return result


def _name_old_version(api: Any, notebook: Path, student: str, phase: str) -> None:
    """Say so when a submission was made from another version of the lab than the one it is graded as."""
    with api.gradebook as gradebook:
        theirs, ours = version_of(notebook), registered_version(gradebook, phase)
        if theirs != ours:
            made = f"made from version {theirs:.{SHOWN_CHARACTERS}} of the lab" if theirs else "names no version of the lab"
            add_to_sentence(gradebook, phase, student, f"{made}, graded as {ours}")


def _why(result: dict) -> str:
    """The exception that nbgrader's report ends in: its log holds the cause, its error often only says "see the log"."""
    for text in (result.get("log") or "", result.get("error") or ""):
        for line in reversed(text.splitlines()):
            if re.match(r"[\w.]+(Error|Exception|NotFound|Entry): .", line.strip()):
                return line.strip()[:300].rstrip(":")
    return "nbgrader gave no reason"


def _without_grade(api: Any, phase: str, student: str, status: Status) -> Row:
    name = printable(student)
    with api.gradebook as gradebook:
        gradebook.update_or_create_student(name)
        save_status(gradebook, phase, name, status, 0.0, "")
    return _row(api, name, phase)


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
