"""Finds the Triton that the development set-up installs beside the main one: of the two that the course supports, the other."""

import importlib.metadata
import os
import sys
from pathlib import Path

import pytest

from course_lib.interpreter.versions import KNOWN_VERSIONS


def folder() -> Path:
    """$COURSE_TRITON_BESIDE, else .venv/triton-*. Skips where there is none, which CI counts as a failure of a `compile` test."""
    main = importlib.metadata.version("triton")
    wanted = [known for known in KNOWN_VERSIONS if not main.startswith(f"{known}.")]
    chosen = os.environ.get("COURSE_TRITON_BESIDE")
    for place in [Path(chosen)] if chosen else sorted(Path(sys.prefix).glob("triton-3.*")):
        there = next(iter(importlib.metadata.distributions(name="triton", path=[str(place)])), None)
        if there is not None and there.version.startswith(tuple(f"{known}." for known in wanted)):
            return place
    pytest.skip(
        f"needs Triton {' or '.join(wanted)} beside the installed {main}, and there is none in {chosen or sys.prefix}; "
        "`make test` (tools/setup_env.py dev) installs it, or put it into a folder and name that in COURSE_TRITON_BESIDE"
    )
