"""The progress log in SQLite: an append-only table that several processes may write at once.

Rollback journal, no WAL (which fails on network disks); short transactions; `PRAGMA user_version` is the schema number.
Not here: what to do when it cannot be opened or written (progress.py), and when it is damaged (progress_repair.py).
"""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .progress_event import COLUMNS, from_row, to_row

SCHEMA = 1
BUSY_SECONDS = 5.0  # how long to wait for another writer
PAGE_BYTES = 4096  # fixed, so that a file without a readable header can still be taken apart

_CREATE = (
    """CREATE TABLE events (
        uuid TEXT PRIMARY KEY NOT NULL, at TEXT NOT NULL, exercise TEXT NOT NULL, cell TEXT NOT NULL, source TEXT NOT NULL,
        score REAL NOT NULL, max_points REAL NOT NULL, waiting_points REAL NOT NULL, state TEXT NOT NULL,
        best_ratio REAL, device TEXT NOT NULL, course_version TEXT NOT NULL, verdict TEXT)""",
    "CREATE TRIGGER events_never_change BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'append-only'); END",
    "CREATE TRIGGER events_never_go BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'append-only'); END",
    f"PRAGMA user_version = {SCHEMA}",
)
_INSERT = (
    f"INSERT INTO events ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))}) ON CONFLICT (uuid) DO NOTHING"
)


class NewerSchema(Exception):
    """The log was written by a newer course; it was left untouched."""


class Damaged(Exception):
    """The file is no sound log; it was left untouched."""


class EventLog:
    """An open log. After an error it must be closed, which undoes whatever was not committed."""

    def __init__(self, connection: sqlite3.Connection):
        self._connection = connection

    def append(self, events: Iterable[dict[str, Any]]) -> int:
        """Add the events that are not there yet, all or none; -> how many were new."""
        before = self._connection.total_changes
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(_INSERT, [to_row(event) for event in events])
        self._connection.execute("COMMIT")
        return self._connection.total_changes - before

    def read(self, verdicts: bool = False) -> tuple[list[dict[str, Any]], int]:
        """-> (the events in the order they were added, number of rows that make no sense)."""
        columns = COLUMNS if verdicts else (*COLUMNS[:-1], "NULL")
        events, senseless = [], 0
        for row in self._connection.execute(f"SELECT {', '.join(columns)} FROM events ORDER BY rowid"):
            try:
                events.append(from_row(row))
            except ValueError:
                senseless += 1
        return events, senseless


@contextmanager
def open_log(path: Path) -> Iterator[EventLog]:
    """The log at `path`, created when there is none; its folder must exist.

    Raises NewerSchema, Damaged, or sqlite3.Error when it cannot be read, written or had within BUSY_SECONDS.
    """
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    try:
        _prepare(connection)
        yield EventLog(connection)
    except sqlite3.DatabaseError as error:
        if primary_code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise Damaged(str(error)) from error
        raise
    finally:
        connection.close()


def _prepare(connection: sqlite3.Connection) -> None:
    version = _schema(connection)
    if version > SCHEMA:
        raise NewerSchema(f"it has schema {version}, this course knows up to {SCHEMA}: update the course")
    if version < SCHEMA:
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        connection.execute("BEGIN IMMEDIATE")
        if _schema(connection) < SCHEMA:  # another process may just have created it
            for statement in _CREATE:
                connection.execute(statement)
        connection.execute("COMMIT")
    fault = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if fault != "ok":
        raise Damaged(" ".join(fault.split()))
    found = tuple(row[1] for row in connection.execute("PRAGMA table_info(events)"))
    if found != COLUMNS:
        raise Damaged(f"its table has the columns {found}")


def _schema(connection: sqlite3.Connection) -> int:
    return connection.execute("PRAGMA user_version").fetchone()[0]


def primary_code(error: sqlite3.Error) -> int | None:
    """SQLite's primary result code; None for an error that Python's module raised itself."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


@contextmanager
def locked(folder: Path, seconds: float = 1.0) -> Iterator[None]:
    """Hold the folder's lock: on any system, let go when the process dies. Raises sqlite3.OperationalError if it is taken."""
    lock = sqlite3.connect(folder / "progress.lock", timeout=seconds, isolation_level=None)  # stays an empty file
    try:
        lock.execute("BEGIN EXCLUSIVE")
        yield
    finally:
        lock.close()
