"""Exercise 1.4: calls of the learner's copy kernel."""

from typing import Any

__course_runner__ = True  # messages name the learner's line, not one of this file


def copy_into(entry: Any, case: dict) -> Any:
    """The learner's copy kernel, into a buffer of the judge's."""
    return entry(case["x"], case["out"])
