"""Finds the Triton that the development set-up installs beside the main one."""

import importlib.metadata
import os
import sys
from pathlib import Path

import pytest


def folder() -> Path:
    """$COURSE_TRITON_BESIDE, else .venv/triton-*. Skips where there is none, which CI counts as a failure of a `compile` test."""
    chosen = os.environ.get("COURSE_TRITON_BESIDE")
    for place in [Path(chosen)] if chosen else sorted(Path(sys.prefix).glob("triton-3.*")):
        if next(iter(importlib.metadata.distributions(name="triton", path=[str(place)])), None):
            return place
    pytest.skip(f"no second Triton in {chosen or sys.prefix}; `make test` (tools/setup_env.py dev) installs it")
