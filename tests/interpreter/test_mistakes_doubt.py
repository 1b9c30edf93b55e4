"""Doubt goes exactly where a doubtful value goes, through every operation of the language.

The oracle needs no table: an element of a result is doubtful if, and only if, some value in the masked lanes would change it.
"""

import numpy as np
import pytest
import torch

from course_lib.interpreter.mistakes import tell
from course_lib.interpreter.values import MASKED_OFF

from .faults import doubts
from .faults.told import checked  # noqa: F401

HOLES = (37, 170)
GARBAGE = [0.0, 1.0, 6.0, 15.0, -0.3, -2.5, 0.5, 1e30, -1e30, float("nan")]
EVERY_BIN = [float(number) for number in range(16)]


def blocks():
    generator = torch.Generator().manual_seed(11)
    x = torch.randn(16, 16, generator=generator) * 4
    y = torch.randn(16, 16, generator=generator) * 4
    y[:, 0] = torch.arange(16) * 0.9 + 0.1  # indices of all columns
    return x, y


def result(operation, size, x, y, holes):
    dtype = {"to_float64": torch.float64, "to_int64": torch.int64}.get(operation.fn.__name__)
    if dtype is None:
        dtype = torch.int32 if "int" in operation.fn.__name__ or operation.fn.__name__ in INTEGERS else torch.float32
    out = torch.zeros(max(1, size), dtype=dtype)
    doubts.probe_kernel[(1,)](x, y, out, OP=operation, SIZE=size, HOLES=holes)
    return out.numpy().view(f"u{dtype.itemsize}")


INTEGERS = (
    "invert", "equal", "less", "cdiv", "bit_and", "bit_or", "bit_xor", "shift_left", "shift_right", "umulhi", "xor_sum",
    "bitcast", "unsigned_divide", "compare_all",
)  # fmt: skip


def doubtful(operation, size, monkeypatch):
    """Elements of the stored result that carry doubt."""
    found = [np.zeros(max(1, size), bool)]

    def record(_launch, doubt, _lanes, what, _kinds):
        if doubt is None:
            return
        assert what == "value stored here"
        assert set(doubt.origins) == {MASKED_OFF} or not doubt.kinds.any()
        found.append(np.broadcast_to(doubt.kinds, found[0].shape) != 0)

    with monkeypatch.context() as patch:
        patch.setattr(tell, "refuse_doubt", record)
        result(operation, size, *blocks(), holes=True)
    return found[-1]


def changeable(operation, size):
    """Elements of the result that some value in the masked lanes changes."""
    x, y = blocks()
    results = []
    for number in EVERY_BIN if "histogram" in operation.fn.__name__ else GARBAGE:
        x.view(-1)[list(HOLES)] = number
        results.append(result(operation, size, x, y, holes=False))
    return np.array([r != results[0] for r in results]).any(0)


@pytest.mark.parametrize("name", doubts.OPERATIONS)
def test_an_element_is_doubtful_exactly_where_a_masked_lane_can_change_it(name, monkeypatch):
    operation, size = doubts.OPERATIONS[name]
    ours, true = doubtful(operation, size, monkeypatch), changeable(operation, size)
    lost, eager = np.flatnonzero(true & ~ours), np.flatnonzero(ours & ~true)
    assert not lost.size, f"{name}: no doubt at {lost}, where the masked lanes do count"
    assert not eager.size, f"{name}: doubt at {eager}, where the masked lanes cannot count"
    assert true.any() is not np.True_ if operation in doubts.CLEAN else true.any(), "the operation shows nothing"


NOT_OF_VALUES = {
    # what touches memory, and what takes no block: planted in the other files
    "load", "masked_load", "store", "masked_store", "tensor_pointer_load", "tensor_pointer_store", "make_tensor_descriptor",
    "descriptor_load", "descriptor_store", "descriptor_reduce", "descriptor_gather", "descriptor_scatter", "make_block_ptr",
    "advance", "atomic_rmw", "atomic_cas", "addptr", "make_range", "get_program_id", "get_num_programs",
    # what has no result, and what is refused
    "assert", "assume", "barrier", "gather_barrier", "print", "inline_asm", "dot_scaled", "extern_elementwise", "map_elementwise",
    # ways to the same method that this frontend does not take
    "int_to_ptr", "ptr_to_int", "unsplat", "precise_divf", "precise_sqrt", "fp_to_fp", "frem",
    "fcmpONE", "fcmpUEQ", "fcmpUGE", "fcmpUGT", "fcmpULE", "fcmpULT",
}  # fmt: skip


def test_no_operation_of_the_builder_is_left_out(monkeypatch):
    from course_lib.interpreter.numbers.builder import CourseBuilder

    asked = set()

    def recorded(self, name):
        asked.add(name)
        return object.__getattribute__(self, name)

    monkeypatch.setattr(CourseBuilder, "__getattribute__", recorded, raising=False)
    for operation, size in doubts.OPERATIONS.values():
        result(operation, size, *blocks(), holes=False)
    ours = {name for owner in CourseBuilder.__mro__ if owner.__module__.startswith("course_lib") for name in vars(owner)}
    left_out = {name.removeprefix("create_") for name in ours - asked if name.startswith("create_")}
    assert left_out - NOT_OF_VALUES == set()
