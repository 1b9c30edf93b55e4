"""Finished reports on disk: the same text with the same arguments for the same target compiles to the same code.

A learner can write into this folder, so a grade never reads from it (`cached=False`). An unwritable folder costs time only.
"""

import contextlib
import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

FORMAT = 1  # raise when the meaning of a stored report changes


def folder() -> Path:
    """$COURSE_COMPILE_CACHE, else a folder in the user's cache."""
    chosen = os.environ.get("COURSE_COMPILE_CACHE", "").strip()
    base = os.environ.get("XDG_CACHE_HOME", "").strip() or "~/.cache"
    return Path(os.path.expanduser(chosen or os.path.join(base, "llm-inference-course", "compiled")))


def key(parts: Any) -> str:
    """A name for plain data."""
    return hashlib.sha256(json.dumps([FORMAT, parts], sort_keys=True).encode()).hexdigest()


def load(name: str) -> dict[str, Any] | None:
    try:
        data = json.loads((folder() / f"{name}.json").read_text())
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None


def store(name: str, data: dict[str, Any]) -> None:
    """Written beside and renamed, so that a reader never sees half of it."""
    with contextlib.suppress(OSError):
        folder().mkdir(parents=True, exist_ok=True)
        handle, part = tempfile.mkstemp(dir=folder(), suffix=".part")
        with open(handle, "w") as file:
            json.dump(data, file)
        os.replace(part, folder() / f"{name}.json")
