"""Puts a sound log in the place of a damaged one and keeps the damaged file beside it.

The new log is complete before it takes the old one's name, so a kill at any moment leaves one or the other.
"""

import os
import shutil
import uuid
from datetime import UTC, datetime
from pathlib import Path

from .progress_salvage import salvage
from .progress_store import Damaged, locked, open_log


def repair(path: Path) -> str:
    """-> a sentence about what was found and saved; "" when another process had already repaired it.

    Raises OSError or sqlite3.Error when it cannot (full disk, read-only folder); the damaged file is then untouched.
    """
    with locked(path.parent, seconds=5.0):
        try:
            with open_log(path):
                return ""
        except Damaged as error:
            fault = str(error)
        events = salvage(path.read_bytes())
        fresh = path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp")
        try:
            with open_log(fresh) as log:
                log.append(events)
            backup = _keep(path)
            os.replace(fresh, path)
        finally:
            fresh.unlink(missing_ok=True)
            Path(f"{fresh}-journal").unlink(missing_ok=True)
    return (
        f"The progress file was damaged ({fault:.100}). {len(events)} results were read out of it into a new one; "
        f"the damaged file is kept as {backup}."
    )


def _keep(path: Path) -> Path:
    """Give the file a second name with a time stamp. (A journal of its own was used up when it was opened.)"""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    backup = path.with_name(f"{path.name}.damaged-{stamp}")
    try:
        os.link(path, backup)  # takes no room on a full disk
    except OSError:
        shutil.copyfile(path, backup)
    return backup
