"""Measured roofs are kept in a file per device, driver, torch and Triton: another of these, and they are measured anew."""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .roofs import Roofs, roofs_as_data, roofs_from_data

KEYS = ("device", "driver", "torch", "triton")


def default_folder() -> Path:
    """.course/roofs of $COURSE_HOME; without it the user's cache folder, as roofs belong to the machine, not to a learner."""
    chosen = os.environ.get("COURSE_HOME", "").strip()
    if chosen:
        return Path(os.path.abspath(os.path.expanduser(chosen))) / ".course" / "roofs"
    caches = os.environ.get("XDG_CACHE_HOME", "").strip() or os.path.expanduser("~/.cache")
    return Path(caches) / "llm-inference-course" / "roofs"


def path_for(setting: Mapping[str, Any], folder: Path | None = None) -> Path:
    """The file for a device with this software: its name, readable, and a hash of all four."""
    exact = json.dumps([setting[key] for key in KEYS])
    name = re.sub(r"[^a-z0-9]+", "-", str(setting["device"]).lower()).strip("-")
    return (folder or default_folder()) / f"{name}-{hashlib.sha256(exact.encode()).hexdigest()[:12]}.json"


def load(setting: Mapping[str, Any], folder: Path | None = None) -> Roofs | None:
    """What was kept for this device and software; None where nothing was, or where the file is damaged."""
    try:
        roofs = roofs_from_data(json.loads(path_for(setting, folder).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
    return roofs if all(getattr(roofs, key) == setting[key] for key in KEYS) else None


def save(roofs: Roofs, folder: Path | None = None) -> Path | None:
    """Write the file whole or not at all -> its path; None, and a line that says so, where nothing can be written."""
    path = path_for({key: getattr(roofs, key) for key in KEYS}, folder)
    beside = path.with_suffix(f".{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(json.dumps(roofs_as_data(roofs), indent=1) + "\n", encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        print(f"the roofs could not be kept in {path.parent} ({error.strerror}); set COURSE_HOME to a folder of yours")
        return None
    return path
