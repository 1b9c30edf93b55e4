"""Events that could not be written to the log wait here, as JSON lines, until it can be written again.

They wait beside the log; where that folder cannot be written, in a folder of this user's own under the temporary one.
Writers and whoever empties a spool hold its folder's lock, so no line is added to a file that is just being removed.
"""

import errno
import hashlib
import json
import os
import sqlite3
import stat
import tempfile
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .progress_event import checked_event
from .progress_store import locked

PENDING = "progress-pending.jsonl"
_OPEN_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)


def put(state: Path, events: Iterable[dict[str, Any]]) -> Path | None:
    """Append the events to the first place that takes them all -> that file, or None when none does."""
    lines = "".join("\n" + json.dumps(event) + "\n" for event in events).encode()  # a torn line ends at the next "\n"
    for place in _places(state, create=True):
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            with locked(place.parent):
                _append(place, lines)
            return place
        except (OSError, sqlite3.Error):
            continue
    return None


def pending(state: Path) -> list[tuple[Path, list[dict[str, Any]]]]:
    """The spool files that exist, each with its readable events. Nothing is changed."""
    return [(place, _read(place)[0]) for place in _places(state, create=False) if place.is_file()]


def drain(state: Path, take: Callable[[list[dict[str, Any]]], Any]) -> list[str]:
    """Hand each file's events to `take`, then remove the file. -> sentences about lines that made no sense.

    A file stays when `take` raises or its folder cannot be locked or written: its events are then still pending.
    """
    messages = []
    for place in _places(state, create=False):
        if not place.is_file():
            continue
        with locked(place.parent):
            events, senseless = _read(place)
            take(events)
            if senseless:
                kept = place.with_name(f"{place.stem}.unreadable-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}.jsonl")
                place.rename(kept)
                messages.append(f"{senseless} unreadable lines of waiting results are kept in {kept}.")
            else:
                place.unlink(missing_ok=True)
    return messages


def _append(place: Path, lines: bytes) -> None:
    file = os.open(place, _OPEN_FLAGS, 0o600)
    try:
        if os.write(file, lines) < len(lines):
            raise OSError(errno.ENOSPC, "only a part of the lines could be written", str(place))
        os.fsync(file)
    finally:
        os.close(file)


def _read(place: Path) -> tuple[list[dict[str, Any]], int]:
    """-> (events, number of lines that are none); both empty for a file that has just gone."""
    events, senseless = [], 0
    try:
        lines = place.read_bytes().splitlines()
    except OSError:
        return [], 0
    for line in lines:
        if not line.strip():
            continue
        try:
            events.append(checked_event(json.loads(line)))
        except (ValueError, RecursionError):
            senseless += 1
    return events, senseless


def _places(state: Path, create: bool) -> list[Path]:
    """The spool files in order of preference. The temporary folder serves all homes, so the file is named after this one."""
    name = hashlib.sha256(os.fsencode(os.path.abspath(state))).hexdigest()[:16]
    return [state / PENDING, *(folder / f"{name}-{PENDING}" for folder in _private_folders(create))]


def _private_folders(create: bool) -> list[Path]:
    """Folders under the temporary one that are this user's alone; further names serve when somebody else took the first."""
    try:
        base = Path(tempfile.gettempdir())
    except OSError:
        return []
    user = os.getuid() if hasattr(os, "getuid") else "user"  # Windows: the temporary folder is the user's own
    found = []
    for suffix in ("", "-2", "-3", "-4"):
        folder = base / f"llm-inference-course-{user}{suffix}"
        try:
            if create and not found:
                folder.mkdir(mode=0o700, exist_ok=True)
            if _is_private(folder.lstat()):
                found.append(folder)
        except OSError:
            continue
    return found


def _is_private(status: os.stat_result) -> bool:
    """A real folder (no link to one), ours, closed to everybody else."""
    if not stat.S_ISDIR(status.st_mode):
        return False
    return not hasattr(os, "getuid") or (status.st_uid == os.getuid() and not status.st_mode & 0o077)
