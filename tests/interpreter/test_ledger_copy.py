"""A copy's ledger equals what follows from its definition: n elements of s bytes in, n out, in sectors of 32 bytes."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from course_lib.interpreter import ledger

from .kernels.copy import copy
from .kernels.traffic import copy_2d
from .ledger_helpers import QUICK, address, at, blocks, counted, line, rows, sectors

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.int8, torch.int64]


def strided_sectors(tensor: torch.Tensor, block: int) -> int:
    """Closed form: apart by a sector or more, each element has its own; closer, none between the first and last is left out."""
    size, step = tensor.element_size(), tensor.stride(0) * tensor.element_size()
    total = 0
    for part in blocks(len(tensor), block):
        first, last = (address(tensor) + i * step for i in (part[0], part[-1]))
        total += len(part) if step >= 32 else (last + size - 1) // 32 - first // 32 + 1
    return total


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@QUICK
@given(
    n=st.integers(1, 700), block=st.sampled_from([16, 64, 256]), src_step=st.sampled_from([1, 2, 3, 8, 17, 64]),
    dst_step=st.sampled_from([1, 5, 32]), src_start=st.integers(0, 40), dst_start=st.integers(0, 40),
)  # fmt: skip
def test_a_copy_costs_n_elements_each_way_and_the_sectors_between_them(dtype, n, block, src_step, dst_step, src_start, dst_start):
    size, programs = dtype.itemsize, -(-n // block)
    src, dst = at(src_start, (n * src_step,), dtype)[::src_step], at(dst_start, (n * dst_step,), dtype)[::dst_step]
    launch = counted(copy, src, dst, block=block)
    read, written, total = launch.arguments["src_ptr"], launch.arguments["dst_ptr"], launch.total
    assert launch.programs == programs
    assert (read.loads, read.stores, written.loads, written.stores) == (programs, 0, 0, programs)
    assert read.loaded_bytes == read.distinct_loaded_bytes == read.useful_loaded_bytes == read.bytes == n * size
    assert written.stored_bytes == written.distinct_stored_bytes == written.useful_stored_bytes == written.bytes == n * size
    assert total.bytes == total.distinct_bytes == 2 * n * size
    assert read.sectors_loaded == strided_sectors(src, block)
    assert written.sectors_stored == strided_sectors(dst, block)
    assert read.coalescing == n * size / (32 * read.sectors_loaded)
    assert total.coalescing == 2 * n * size / (32 * (read.sectors_loaded + written.sectors_stored))
    assert read.rereads == total.rereads == 1
    assert written.rereads is None
    assert line(launch, "tl.load(") == read
    assert line(launch, "tl.store(") == written
    assert (launch.flops, launch.elementwise_flops, launch.intensity, launch.requested_intensity) == (0, 0, 0.0, 0.0)
    assert (launch.special_calls, launch.dot_flops, total.atomics) == ({}, {}, 0)


def test_the_copy_of_exercise_1_4_in_numbers():
    """1000 floats in blocks of 256, aligned: 4 programs, 4000 bytes each way in 125 sectors; one element later, 129."""
    launch = counted(copy, at(0, (1000,)), block=256)
    assert (launch.programs, launch.total.bytes, launch.total.sectors_loaded, launch.total.sectors_stored) == (4, 8000, 125, 125)
    assert launch.total.coalescing == 1.0
    later = counted(copy, at(1, (1000,)), block=256)
    assert (later.total.sectors_loaded, later.total.sectors_stored) == (126 + 3, 125)


@QUICK
@given(
    height=st.integers(1, 40), width=st.integers(1, 40), extra=st.integers(0, 9), start=st.integers(0, 17), turned=st.booleans(),
    dtype=st.sampled_from(DTYPES),
)  # fmt: skip
def test_a_tile_touches_the_sectors_under_its_rows(height, width, extra, start, turned, dtype):
    src = at(start, (height, width), dtype, pitch=width + extra)
    dst = torch.zeros(height, width, dtype=dtype)
    if turned:
        src, dst = src.T, dst.T
    launch = counted(copy_2d, src, dst, bm=16, bn=8)
    tiles = [(r, c) for r in blocks(src.shape[0], 16) for c in blocks(src.shape[1], 8)]
    assert torch.equal(src, dst)
    assert launch.programs == launch.total.loads == launch.total.stores == len(tiles)
    assert launch.total.loaded_bytes == launch.total.distinct_loaded_bytes == height * width * dtype.itemsize
    assert launch.total.stored_bytes == launch.total.distinct_stored_bytes == height * width * dtype.itemsize
    assert launch.total.sectors_loaded == sum(sectors(rows(src, r, c.start, c.stop)) for r, c in tiles)
    assert launch.total.sectors_stored == sum(sectors(rows(dst, r, c.start, c.stop)) for r, c in tiles)


def test_a_copy_of_nothing_launches_nothing():
    with ledger() as book:
        copy(torch.empty(0))
    assert book.launches == []
