"""The folder that a class is graded in, and nbgrader's grade book there: refused, with a way out, when they cannot be used."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from .nbgrader_steps.status import printable

PATTERN_CHARACTERS = frozenset("*?[]{}#")  # nbgrader takes a path for a pattern, and a database's address ends at a ?
_REGEX_CHARACTERS = frozenset("()+^$|\\")  # of the way from the clone to the folder it makes a regular expression


class GradeError(RuntimeError):
    """Grading cannot start or go on; the message says what is missing."""


def database_of(where: Path) -> str:
    """The grade book's address for SQLAlchemy."""
    return f"sqlite:///{(where / 'gradebook.db').resolve()}"


def open_gradebook(where: Path) -> Any:
    """nbgrader's grade book of this folder, as a context manager."""
    from nbgrader.api import Gradebook

    return Gradebook(database_of(where))


def step_folder(root: Path, where: Path, name: str) -> str:
    """WHERE/name as nbgrader wants it: relative to the root."""
    return os.path.relpath(where.resolve() / name, root.resolve())


def check_folder(root: Path, where: Path) -> None:
    """Raises GradeError for a path that nbgrader would misread, and for a grade book that is damaged."""
    way = step_folder(root, where, "")
    for path, what, refused in (
        (str(root.resolve()), "the path of the clone", PATTERN_CHARACTERS),
        (str(where.resolve()), f"the path of --where {where}", PATTERN_CHARACTERS),
        (way, f"the path of --where {where}", _REGEX_CHARACTERS),
    ):
        if odd := odd_characters(path, refused):
            raise GradeError(f"{printable(what)} holds {odd}, which nbgrader takes for a pattern; use a folder without it")
    if where.exists() and not where.is_dir():
        raise GradeError(f"--where {where} is no folder; name the one that holds submitted/STUDENT/PHASE/")
    _check_database(where)


def odd_characters(path: str, refused: frozenset[str] = PATTERN_CHARACTERS) -> str:
    """Those of a path's characters that nbgrader, or the grade book, cannot take, as text; "" when there are none."""
    return " ".join(sorted({printable(c) for c in path if c in refused or printable(c) != c}))


def _check_database(where: Path) -> None:
    path = where / "gradebook.db"
    if not path.exists():
        return
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path.resolve()))}?mode=ro", uri=True)) as book:
            found = book.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.Error as error:
        found = str(error)
    if found != "ok":
        raise _unusable(where, found)


@contextmanager
def gradebook_errors(where: Path) -> Iterator[None]:
    """What the grade book refuses while a class is graded ends as a GradeError that names it."""
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except SQLAlchemyError as error:
        raise _unusable(where, str(getattr(error, "orig", None) or error).splitlines()[0]) from error


def _unusable(where: Path, reason: str) -> GradeError:
    cure = "move it away and grade again: only scores given by hand are lost with it"
    if "locked" in reason:
        cure = "another program uses it; end that one and grade again"
    return GradeError(f"the grade book {where / 'gradebook.db'} cannot be used ({reason:.200}); {cure}")
