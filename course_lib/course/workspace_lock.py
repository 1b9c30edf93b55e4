"""One command at a time in a learner's copy.

Contract the lock ends with its process, so that a killed command leaves none behind. Files are safe without
         it too (workspace_files.py): it keeps two commands from doing the same work twice and meeting in git.
"""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from .workspace_files import NOT_THE_LEARNERS, PART, STATE
from .workspace_report import WorkspaceError

try:
    import fcntl
except ImportError:  # Windows: no lock
    fcntl = None

LOCK_SECONDS = 60.0


@contextlib.contextmanager
def locked(work: Path) -> Iterator[None]:
    """Waits for the lock, LOCK_SECONDS at most; then removes what a killed command left unfinished."""
    state = work / STATE
    state.mkdir(parents=True, exist_ok=True)
    with open(state / "lock", "ab") as file:
        give_up, held = time.monotonic() + LOCK_SECONDS, False
        while fcntl and not held:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                held = True
            except BlockingIOError:
                if time.monotonic() > give_up:
                    raise WorkspaceError(
                        f"another `labs` command has been busy in {work} for {LOCK_SECONDS:.0f} s; "
                        "let it end, then run this one again"
                    ) from None
                time.sleep(0.05)
            except OSError:
                break  # a network disk that knows no locks
        if held:
            _remove_parts(work)
        yield


def _remove_parts(work: Path) -> None:
    """Removes what a killed command left unfinished; with the lock held nobody else is writing one."""
    for folder, folders, names in os.walk(work):
        folders[:] = [name for name in folders if name == STATE or name not in NOT_THE_LEARNERS]
        for name in filter(PART.fullmatch, names):
            Path(folder, name).unlink(missing_ok=True)
