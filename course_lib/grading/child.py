"""Make the attempts in a child process: a fresh tree, data across the border, a time limit, and the end of the whole group.

This is isolation from accidents (a crash, a hang, a flood), not from malice: the child has the rights of its parent.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from ..interpreter.entry import child_environment
from . import inside
from .exercise import Exercise
from .inside.attempt import MAX_OUTPUT_BYTES, empty_record
from .inside.border import BorderError, pack, unpack
from .judging import Job

KEEP_ERROR = 400
MAX_RECORD_BYTES = 80 * 2**20
MAX_RECORDED_BYTES = MAX_OUTPUT_BYTES + 16 * 2**20  # with launches in it
START_SECONDS = 120.0  # importing torch on a slow disk, before the exercise's own limit counts


@dataclass(frozen=True, slots=True)
class Cell:
    """A notebook cell that the child runs. One that is not required is left out when it fails."""

    name: str
    source: str
    required: bool


def attempts_in_child(
    exercise: Exercise, cell: str, jobs: Sequence[Job], cells: Sequence[Cell], files: Mapping[str, bytes],
    seconds: float | None = None,
) -> list[dict]:  # fmt: skip
    """-> one attempt for each job.

    files    path -> source of runner.py and of what it imports of the course (exercises/runners)
    cells    the notebook cells to run, in order; a required one of them defines the exercise's entry
    seconds  limit for all the jobs together (default: the exercise's)
    """
    limit = exercise.seconds if seconds is None else seconds
    with tempfile.TemporaryDirectory(prefix="course-judge-") as folder:
        root = Path(folder)
        _write_tree(root, files, cells)
        criteria = exercise.in_cell(cell)
        request = {
            "entry": exercise.entry,
            "params": list(exercise.params),
            "cells": [{"file": f"{c.name}.py", "required": c.required} for c in cells],
            "jobs": [job.request(criteria) for job in jobs],
        }
        (root / "request").write_bytes(pack(request))
        ended = _run(root, limit)
        records = _read(root / "results", MAX_RECORDED_BYTES if any(c.launches for c in criteria) else MAX_RECORD_BYTES)
    missing = len(jobs) - len(records)
    return records[: len(jobs)] + [ended] * max(missing, 0)


def _write_tree(root: Path, files: Mapping[str, bytes], cells: Sequence[Cell]) -> None:
    (root / "inside").mkdir()
    (root / "cells").mkdir()
    for file in resources.files(inside).iterdir():
        if file.name.endswith(".py"):
            (root / "inside" / file.name).write_bytes(file.read_bytes())
    for path, source in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(source)
    for cell in cells:
        (root / "cells" / f"{cell.name}.py").write_text(cell.source, encoding="utf-8", errors="replace")


def _run(root: Path, limit: float) -> dict:
    """Run the worker to its end or the limit -> the record for every job that it did not finish."""
    code = "import sys; sys.path.insert(0, sys.argv[1]); from inside.worker import main; main(*sys.argv[2:])"
    argv = [sys.executable, "-I", "-c", code, str(root), str(root / "request"), str(root / "results")]
    start = time.monotonic()
    with open(root / "stderr", "wb") as stderr:
        child = subprocess.Popen(
            argv, cwd=root, env=child_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr,
            start_new_session=True,
        )  # fmt: skip
        try:
            code = _wait(child, root / "results", limit)
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)  # whatever the answer started as well
            child.wait()
    seconds = time.monotonic() - start
    if code is None:
        return empty_record("timeout", f"{limit:g} s for all its cases", seconds)
    if code < 0:
        return empty_record("died", f"killed by {signal.Signals(-code).name}", seconds)
    tail = (root / "stderr").read_bytes()[-KEEP_ERROR:].decode("utf-8", "replace").strip().splitlines()
    return empty_record("died", f"exit code {code}" + (f" ({tail[-1]})" if tail and code else ""), seconds)


def _wait(child: subprocess.Popen, started: Path, limit: float) -> int | None:
    """Exit code, or None at the limit. The limit counts from when the worker has loaded torch and opened its results."""
    deadline, running = time.monotonic() + START_SECONDS, False
    while (code := child.poll()) is None:
        if not running and started.exists():
            deadline, running = time.monotonic() + limit, True
        if time.monotonic() > deadline:
            return None
        time.sleep(0.01)
    return code


_FIELDS = {"status": str, "message": str, "where": str, "changed": list, "aliases": list, "printed": str, "seconds": float}


def _read(path: Path, most: int = MAX_RECORD_BYTES) -> list[dict[str, Any]]:
    """The whole records at the start of the file; whatever is damaged ends the list."""
    records: list[dict] = []
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        while len(head := file.read(8)) == 8:
            length = int.from_bytes(head, "little")
            if length > most or len(data := file.read(length)) < length:
                break
            try:
                record = unpack(data)
            except BorderError:
                break
            if not isinstance(record, dict) or not {"output", "evidence", "launches"} <= record.keys():
                break
            if not all(isinstance(record.get(name), kind) for name, kind in _FIELDS.items()):
                break
            records.append(record)
    return records


