"""Exercise 1.2: calls of the learner's count of a step."""

from typing import Any

__course_runner__ = True  # messages name the learner's line, not one of this file


def count_step(entry: Any, case: dict) -> Any:
    """The learner's counts of one step."""
    return entry(case["shape"], case["new_tokens"], case["context"], case["batch"], case["weight_bytes"], case["kv_bytes"])
