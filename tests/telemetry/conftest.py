"""Tests of telemetry meet a fake driver."""

import sys

import pytest

from .fake_nvml import FakeNvml


@pytest.fixture
def driver(monkeypatch):
    """driver(**settings) -> a FakeNvml that `import pynvml` finds."""

    def install(**settings):
        fake = FakeNvml(**settings)
        monkeypatch.setitem(sys.modules, "pynvml", fake)
        monkeypatch.setattr("course_lib.telemetry.nvml._uuid_in_use", lambda: 0)
        return fake

    return install
