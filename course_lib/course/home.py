"""Where a learner's state lives: found from the environment or from where they stand, created only by whoever writes."""

import os
from pathlib import Path

STATE_FOLDER = ".course"
DEFAULT_HOME = "~/.local/share/llm-inference-course"


def course_home() -> Path:
    """The learner's folder, absolute. It need not exist.

    1. $COURSE_HOME
    2. going up from the working directory: the first folder that holds `.course/`, or whose `work/` does
    3. ~/.local/share/llm-inference-course
    Raises RuntimeError, naming $COURSE_HOME, for a user without a home directory.
    """
    chosen = os.environ.get("COURSE_HOME", "").strip()
    if chosen:
        return Path(os.path.abspath(os.path.expanduser(chosen)))
    try:
        here = Path.cwd()
    except OSError:  # the working directory was deleted
        here = None
    for folder in (here, *here.parents) if here else ():
        for home in (folder, folder / "work"):
            if os.path.isdir(home / STATE_FOLDER):  # os.path: False, not an error, where we may not look
                return home
    default = os.path.expanduser(DEFAULT_HOME)
    if not os.path.isabs(default):
        raise RuntimeError("this user has no home directory; set COURSE_HOME to a folder for the course's state")
    return Path(default)


def state_dir() -> Path:
    """Folder of the state files (progress and the like). It need not exist: whoever writes creates it."""
    return course_home() / STATE_FOLDER
