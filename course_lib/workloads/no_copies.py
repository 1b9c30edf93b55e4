"""Refuse host work on a kernel's inputs: the bytes of `scores.clone()` pass through no launch, and none is charged for them.

A copy holds the same bytes as its input, so that whoever runs recorded launches again cannot tell the two apart. So what reads an
input is refused where it happens, with the learner's own line in the message, save views and what takes its shape alone:
`x.contiguous()` of a contiguous x is no copy and passes. Watched are floating-point inputs; lengths, tables and slots may be
looked at. What leaves torch (`x.numpy()`, `x.tolist()`) cannot be seen here; what comes back from there is no input of a launch.
"""

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

__course_runner__ = True  # messages name the learner's line, not one of this file

WORDS = {"clone": "copies", "_to_copy": "converts", "copy_": "copies", "cat": "copies", "repeat": "copies"}
SHAPE_ONLY = {
    "detach", "empty_like", "full_like", "new_empty", "new_empty_strided", "new_full", "new_ones", "new_zeros", "ones_like",
    "zeros_like",
}  # fmt: skip
OURS = ("course_lib.", "triton.")


def without_copies(call: Callable[..., Any], *arguments: Any) -> Any:
    """call(*arguments). Raises ValueError when it reads a floating-point tensor of them outside of a launch."""
    with _NoCopies(arguments):
        return call(*arguments)


class _NoCopies(TorchDispatchMode):
    def __init__(self, arguments: tuple[Any, ...]) -> None:
        super().__init__()
        inputs = [x for x in arguments if isinstance(x, torch.Tensor) and x.is_floating_point()]
        self._memory = {_memory(x) for x in inputs} - {0}

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = operation.overloadpacket.__name__
        reads = any(_memory(leaf) in self._memory for leaf in tree_leaves((args, kwargs)))
        if reads and name not in SHAPE_ONLY and not _is_view(operation) and _by_the_learner():
            does = WORDS.get(name, f"reads ({name})")
            raise ValueError(
                f"this {does} an input outside of your launches, which is work as well: torch may allocate, fill with one value "
                "and make views; let the kernel read what it was given, by its strides and in its dtype"
            )
        return operation(*args, **(kwargs or {}))


def _is_view(operation: Any) -> bool:
    returns = operation._schema.returns
    return bool(returns) and all(r.alias_info is not None and not r.alias_info.is_write for r in returns)


def _memory(value: Any) -> int:
    return value.untyped_storage().data_ptr() if isinstance(value, torch.Tensor) else 0


def _by_the_learner() -> bool:
    """Whether the innermost code outside of torch is the learner's: an interpreter and a recorder copy tensors as well."""
    frame = sys._getframe(2)
    while frame is not None:
        name = str(frame.f_globals.get("__name__"))
        if not name.startswith("torch"):
            return not name.startswith(OURS)
        frame = frame.f_back
    return False
