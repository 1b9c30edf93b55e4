"""int32 arithmetic that wraps on its way to an address: caught with the number that did not fit; other wrapping is left alone.

The tensors are really as large as their strides say: memory that nobody touches is promised by the system and costs nothing.
"""

import mmap

import numpy as np
import pytest
import torch

from .faults import overflow as k
from .faults.told import caught, checked, checks_on  # noqa: F401

GI = 2**30


def large(elements, dtype=torch.int8):
    """Zeros whose pages come into being when they are touched."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)  # Linux; Python names it from 3.13 on
    memory = mmap.mmap(-1, elements * dtype.itemsize, flags=flags)
    return torch.frombuffer(memory, dtype=dtype)


def on(kernel, *arguments, size=4 * GI, dtype=torch.int8, grid=1, **constants):
    def run(wide):
        x = large(size, dtype)
        outputs = [torch.zeros(8)] if "out_ptr" in kernel.arg_names[1:] else []
        kernel[(grid,)](x, *outputs, *arguments, WIDE=wide, **constants)

    return kernel, run


X = "the address to load from depends on "
PRODUCT = "2,147,483,648 does not fit in int32 and wraps around"
# (kernel, run(wide)), the line of the access, its program, what is said
MISTAKES = {
    "program times stride": (on(k.program_kernel, GI, 1, grid=4, BLOCK=2), "x = tl.load", 2, X, PRODUCT),
    "arange times stride": (on(k.arange_kernel, GI - 1, BLOCK=4), "tl.store", 0, X, "3,221,225,469 does not fit"),
    "loop variable times stride": (on(k.loop_kernel, GI + 5, 3), "total += tl.load", 0, X, "2,147,483,658 does not fit"),
    "shift": (on(k.shift_kernel, 30, grid=4), "tl.store", 2, X, PRODUCT),
    "sum": (on(k.sum_kernel, 2 * GI - 1, 2), "tl.store", 0, X, "2,147,483,649 does not fit"),
    "int64 too late": (on(k.too_late_kernel, GI, grid=4), "tl.store(out_ptr + row, tl.load", 2, X, PRODUCT),
    "store": (on(k.store_kernel, GI, grid=4), "tl.store", 2, X.replace("load from", "store to"), PRODUCT),
    "atomic": (
        on(k.atomic_kernel, GI, size=3 * GI + 1, dtype=torch.float32, grid=4), "tl.atomic_add", 2,
        X.replace("load from", "update"), PRODUCT,
    ),
    "coordinate of a descriptor": (
        on(k.descriptor_kernel, 16, GI, size=16 * 16, grid=4), "block = x.load", 2,
        "the coordinate of this block depends on ", PRODUCT,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_an_address_that_wrapped_is_caught_and_int64_in_time_is_left_alone(name):
    (kernel, run), text, program, what, number = MISTAKES[name]
    with checks_on(races=False):  # which would keep a word for each of the elements up to the one written
        told = caught("overflow", kernel, text, lambda: run(False), program=(program, 0, 0), says=what)
        assert number in told.message
        assert told.message.endswith("Make one operand int64 first, as in tl.program_id(0).to(tl.int64)")
        run(True)


def test_the_line_that_wrapped_is_told_beside_the_line_that_uses_it():
    (kernel, run), *_ = MISTAKES["int64 too late"]
    told = caught("overflow", kernel, "tl.store(out_ptr + row, tl.load", lambda: run(False), program=(2, 0, 0))
    assert "`place = row.to(tl.int64) * stride if WIDE else (row * stride).to(tl.int64)`, where 2,147,483,648" in told.message


def test_below_zero_it_is_the_same():
    x, out = torch.zeros(1), torch.zeros(1)
    caught(
        "overflow", k.negative_kernel, "tl.store", lambda: k.negative_kernel[(1,)](x, out, -2 * GI + 3, 7, WIDE=False),
        says="-2,147,483,652 does not fit in int32",
    )  # fmt: skip
    caught(
        "out of bounds", k.negative_kernel, "tl.store", lambda: k.negative_kernel[(1,)](x, out, -2 * GI + 3, 7, WIDE=True),
        argument="x_ptr", index=-2 * GI - 4, bounds=(0, 1),
    )  # fmt: skip


def test_the_last_number_that_fits_is_left_alone():
    k.sum_kernel[(1,)](large(2 * GI), torch.zeros(1), 2 * GI - 3, 2, WIDE=False)
    k.program_kernel[(2,)](large(2 * GI), torch.zeros(2), 2 * GI - 1, 1, WIDE=False, BLOCK=2)


def test_masked_off_lanes_may_wrap():
    x, out = large(2 * GI), torch.ones(4, dtype=torch.int8)
    k.masked_kernel[(1,)](x, out, GI, 2, BLOCK=4)
    assert out.tolist() == [0, 0, 1, 1]
    caught("overflow", k.masked_kernel, "x = tl.load", lambda: k.masked_kernel[(1,)](x, out, GI, 3, BLOCK=4), says=PRODUCT)


def test_generators_and_hashes_wrap_on_purpose():
    k.random_kernel[(1,)](torch.ones(256), torch.empty(256), 1234567, BLOCK=256)
    key, table, out = torch.arange(512, dtype=torch.int32) * 7919, torch.arange(64.0), torch.empty(512)
    k.hash_kernel[(1,)](key, table, out, BLOCK=512, SIZE=64)
    wide = key.numpy().astype(np.int64)
    product = (wide * 73856093).astype(np.int32)
    slot, unsigned = (wide * 73856093 + 19349663) % 64, (wide * 2654435761) % 2**32 % 64
    np.testing.assert_array_equal(out.numpy(), slot + unsigned + np.where(product > 0, slot, unsigned))


def test_the_check_can_be_left_out():
    x = torch.zeros(4)
    with checks_on(overflow=False):
        k.sum_kernel[(1,)](x, torch.zeros(1), 2 * GI - 1, -2 * GI + 2, WIDE=False)
        caught(
            "out of bounds", k.sum_kernel, "tl.store", lambda: k.sum_kernel[(1,)](x, x, 2 * GI - 1, 2, WIDE=False),
            argument="x_ptr", index=-2 * GI + 1, bounds=(0, 4),
        )  # fmt: skip
