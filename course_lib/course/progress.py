"""Progress: every check and every grade is recorded, and what has been recorded is summed up.

What cannot be written to `<home>/.course/progress.db` now waits in a spool (progress_spool.py), or, when nothing on this
machine takes it, in this process. It counts in every summary, and is merged at the next opening that succeeds.
"""

import errno
import json
import os
import sqlite3
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ..exercises import PHASES, Phase, all_exercises
from ..grading.exercise import Exercise
from ..grading.verdict import Verdict
from . import progress_spool
from .home import state_dir
from .progress_event import checked_event, new_event
from .progress_repair import repair
from .progress_salvage import salvage
from .progress_store import BUSY_SECONDS, Damaged, EventLog, NewerSchema, open_log, primary_code
from .progress_summary import Summary, summarise

DATABASE = "progress.db"
SUMMARY_FILE = "progress.json"
Result = TypeVar("Result")
_TROUBLE = (NewerSchema, Damaged, sqlite3.Error, OSError)
_unsaved: list[dict[str, Any]] = []  # what neither the log nor a spool took; tried again with the next event
_saving = threading.Lock()


class Merged(int):
    """Number of events that were new; `skipped` rows made no sense, `message` tells what could not be saved yet."""

    skipped: int
    message: str


def record(verdict: Verdict, source: str) -> str:
    """Append one event; source is "live", "check", "judge" or "grade". -> "", or a sentence to show to the user.

    Never raises, prints or writes to stderr, and waits at most BUSY_SECONDS for another writer.
    """
    try:
        event = new_event(verdict, source)
    except Exception as error:
        return f"This result was not recorded: {error}"
    try:
        with _saving:
            _, message, saved = _save([event])
        if saved:  # else the same wait again
            _write_summary()
        return message
    except Exception as error:
        _unsaved.append(event)
        return f"This result is kept only until this session ends: {error}"


def summary(exercises: Sequence[Exercise] | None = None, phases: Sequence[Phase] | None = None) -> Summary:
    """Progress in `exercises` (default: all of the course), by phase. Creates nothing where nothing was recorded."""
    events, messages, _ = _everything(verdicts=False)
    chosen = all_exercises() if exercises is None else exercises
    return summarise(events, chosen, PHASES if phases is None else phases, messages)


def export_events() -> list[dict[str, Any]]:
    """All events with their verdicts, oldest first, as plain data for `merge_events` on another machine.

    Raises RuntimeError when the log cannot be read: an export must not leave results behind in silence.
    """
    events, messages, complete = _everything(verdicts=True)
    if not complete:
        raise RuntimeError(" ".join(messages))
    return sorted(events, key=lambda event: event["at"])


def merge_events(rows: Iterable[Mapping[str, Any]]) -> Merged:
    """Add the events that are not known yet, by uuid. Rows that are no events are skipped and counted."""
    events, skipped = [], 0
    for row in rows:
        try:
            events.append(checked_event(row))
        except ValueError:
            skipped += 1
    with _saving:
        added, message, saved = _save(events) if events else (0, "", False)
    if saved:
        _write_summary()
    merged = Merged(added)
    merged.skipped, merged.message = skipped, message
    return merged


def _save(events: list[dict[str, Any]]) -> tuple[int, str, bool]:
    """-> (how many were new, what to tell the user, whether they are in the log)."""
    messages: list[str] = []
    state = state_dir()

    def write(log: EventLog) -> int:
        log.append(_unsaved)
        _unsaved.clear()
        added = log.append(events)
        messages.extend(_take_in_pending(state, log))
        return added

    try:
        state.mkdir(parents=True, exist_ok=True)
        return _with_log(state, write, messages), " ".join(messages), True
    except _TROUBLE as error:
        trouble = f"Progress could not be saved in {state / DATABASE}: {_why(error)}."
    place = progress_spool.put(state, _unsaved + events)
    if place:
        _unsaved.clear()
        waits = f"It waits in {place} and is added by the next check that can save it."
    else:
        _unsaved.extend(events)
        waits = "It is kept only until this session ends: make room or set COURSE_HOME to another folder, and check again."
    return len(events), " ".join([*messages, trouble, waits]), False


def _everything(verdicts: bool) -> tuple[list[dict[str, Any]], list[str], bool]:
    """-> (events of log, spools and this process, each once; messages; whether the log could be read)."""
    messages: list[str] = []
    state = state_dir()
    events: list[dict] = []
    complete = True

    def read(log: EventLog) -> list[dict]:
        messages.extend(_take_in_pending(state, log))
        found, senseless = log.read(verdicts)
        if senseless:
            messages.append(f"{senseless} rows of {state / DATABASE} make no sense and are left out.")
        return found

    try:
        if progress_spool.pending(state):
            state.mkdir(parents=True, exist_ok=True)
            events = _with_log(state, read, messages)
        elif (state / DATABASE).exists():
            events = _with_log(state, read, messages)
    except _TROUBLE as error:
        events, complete = _read_anyway(state)
        messages.append(f"The progress file {state / DATABASE} cannot be opened: {_why(error)}.")
    for place, waiting in progress_spool.pending(state):
        events += waiting
        messages.append(f"{len(waiting)} results wait in {place}; they count, and are added when the log can be written.")
    if _unsaved:
        events += _unsaved
        messages.append(f"{len(_unsaved)} results are kept only until this session ends: no folder takes them.")
    return list({event["uuid"]: event for event in events}.values()), messages, complete


def _with_log(state: Path, work: Callable[[EventLog], Result], messages: list[str]) -> Result:
    """Do `work` with the log, repaired first if it is damaged."""
    try:
        with open_log(state / DATABASE) as log:
            return work(log)
    except Damaged:
        messages.extend(filter(None, [repair(state / DATABASE)]))
    with open_log(state / DATABASE) as log:
        return work(log)


def _take_in_pending(state: Path, log: EventLog) -> list[str]:
    try:
        return progress_spool.drain(state, log.append)
    except (sqlite3.Error, OSError):  # they go on waiting
        return []


def _read_anyway(state: Path) -> tuple[list[dict[str, Any]], bool]:
    """What a damaged file that cannot be repaired here still shows. -> (events, whether that is all there is)."""
    path = state / DATABASE
    try:
        with open_log(path):
            return [], False
    except Damaged:
        return salvage(path.read_bytes()), True
    except _TROUBLE:
        return [], not path.exists()


def _write_summary() -> None:
    """`progress.json` beside the log, for badges and scripts. That it cannot be written is no problem."""
    temporary = None
    try:
        target = state_dir() / SUMMARY_FILE
        temporary = target.with_name(f"{SUMMARY_FILE}.{uuid.uuid4().hex}.tmp")
        temporary.write_text(json.dumps(summary().to_json(), indent=1) + "\n", encoding="utf-8")
        os.replace(temporary, target)
    except Exception:
        if temporary:
            temporary.unlink(missing_ok=True)


def _why(error: Exception) -> str:
    """The cause in plain words, with the next step."""
    code = primary_code(error) if isinstance(error, sqlite3.Error) else None
    if code == sqlite3.SQLITE_FULL or getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full; free some space"
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return f"another program kept it locked for {BUSY_SECONDS:.0f} s"
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM) or isinstance(error, PermissionError):
        return f"it cannot be written ({error}); see who owns the folder, or set COURSE_HOME to one of yours"
    return str(error)
