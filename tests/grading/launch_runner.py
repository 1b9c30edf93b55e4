"""The runner of the exercises in launch_exercises.py."""

from typing import Any

import torch
import triton  # noqa: F401 - as the runners of exercises with kernels do

__course_runner__ = True


def matmul(entry: Any, case: dict) -> Any:
    """The learner's product. In a "strided" case a is a view with gaps that belong to others."""
    if case["strided"]:
        wide = torch.full((*case["a"].shape, 2), float("nan"), dtype=case["a"].dtype)
        wide[..., 0] = case["a"]
        case["a"] = wide[..., 0]
    return entry(case["a"], case["b"])


def copy_into(entry: Any, case: dict) -> Any:
    """The learner's copy into a buffer of ours."""
    return entry(case["x"], case["out"])
