"""Where a learner's state lives: found from the environment or from where they stand, created only by whoever writes."""

import os
from pathlib import Path

from . import release

STATE_FOLDER = ".course"
FOLDER_WHEN_INSTALLED = "llm-inference-work"  # what `labs start` makes where there is no clone
DEFAULT_HOME = "~/.local/share/llm-inference-course"


def course_home() -> Path:
    """The learner's folder, absolute. It need not exist.

    1. $COURSE_HOME
    2. the copy around the working directory, or the clone's (`found_home`)
    3. ~/.local/share/llm-inference-course
    Raises RuntimeError, naming $COURSE_HOME, for a user without a home directory.
    """
    chosen = os.environ.get("COURSE_HOME", "").strip()
    if chosen:
        return Path(os.path.abspath(os.path.expanduser(chosen)))
    if found := found_home():
        return found
    default = os.path.expanduser(DEFAULT_HOME)
    if not os.path.isabs(default):
        raise RuntimeError("this user has no home directory; set COURSE_HOME to a folder for the course's state")
    return Path(default)


def found_home(start: Path | None = None) -> Path | None:
    """The folder with a learner's state, or None. Everything that looks for one asks here.

    Going up from `start` (default: the working directory), the first folder that holds `.course/`, or whose `work/` or
    `llm-inference-work/` does; then work/ of the clone that this package lies in.
    """
    for folder in _upwards(start):
        for home in (folder, folder / "work", folder / FOLDER_WHEN_INSTALLED):
            if has_state(home):
                return home
    root = release.repo_root()
    return root / "work" if root and has_state(root / "work") else None


def has_state(folder: Path) -> bool:
    """True when the folder is a learner's; False, not an error, where we may not look."""
    return os.path.isdir(folder / STATE_FOLDER)


def _upwards(start: Path | None) -> tuple[Path, ...]:
    try:
        here = Path(os.path.abspath(start or os.curdir))
    except OSError:  # the working directory was deleted
        return ()
    return (here, *here.parents)


def state_dir() -> Path:
    """Folder of the state files (progress and the like). It need not exist: whoever writes creates it."""
    return course_home() / STATE_FOLDER
