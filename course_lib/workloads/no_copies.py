"""Refuse host copies of a kernel's inputs: the bytes of `scores.clone()` pass through no launch, and none is charged for them.

A copy holds the same bytes as its input, so that whoever runs recorded launches again cannot tell the two apart. It is refused
where it happens, with the learner's own line in the message. `x.contiguous()` of a contiguous x is no copy and passes.
"""

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

__course_runner__ = True  # messages name the learner's line, not one of this file

COPIES = {"clone": "copies", "_to_copy": "converts", "copy_": "copies", "cat": "copies", "repeat": "copies"}
OURS = ("course_lib.", "triton.")


def without_copies(call: Callable[..., Any], *inputs: torch.Tensor) -> Any:
    """call(*inputs). Raises ValueError when it copies or converts one of them outside of a launch."""
    with _NoCopies(inputs):
        return call(*inputs)


class _NoCopies(TorchDispatchMode):
    def __init__(self, inputs: tuple[torch.Tensor, ...]) -> None:
        super().__init__()
        self._memory = {_memory(tensor) for tensor in inputs} - {0}

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        does = COPIES.get(operation.overloadpacket.__name__)
        if does and any(_memory(leaf) in self._memory for leaf in tree_leaves(args)) and _by_the_learner():
            raise ValueError(
                f"this {does} an input outside of your launches, which is work as well: torch may allocate, fill with one value "
                "and make views; let the kernel read what it was given, by its strides and in its dtype"
            )
        return operation(*args, **(kwargs or {}))


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
