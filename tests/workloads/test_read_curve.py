"""The read curve's host logic, its kernel in the interpreter, and its numbers on a device."""

import pytest
import torch

from course_lib import interpreter
from course_lib.workloads import read_curve
from course_lib.workloads.read_curve import block_for, plan_reads, read_sizes


def test_sizes_run_from_a_page_to_a_gigabyte():
    sizes = read_sizes()
    assert (sizes[0], sizes[-1], len(sizes)) == (4096, 2**30, 19)
    assert read_sizes(2**20)[-1] == 2**20


@pytest.mark.parametrize("size", [4096, 2**20, 3 * 4096, 2**28])
def test_reads_stay_in_the_pool_and_meet_no_place_again_before_all_are_read(size):
    pool = 2**31
    reads = plan_reads(size, pool)
    assert all(start >= 0 and start + size <= pool for start in reads.starts)
    first = reads.starts[: min(len(reads.starts), pool // size)]
    assert len(set(first)) == len(first)
    assert len(reads.starts) >= 8


def test_the_largest_read_takes_turns_between_two_halves():
    assert set(plan_reads(2**30, 2**31).starts) == {0, 2**30}
    with pytest.raises(ValueError, match="two are needed"):
        plan_reads(2**30, 2**30)


@pytest.mark.parametrize(("free", "largest", "pool"), [(80e9, 2**30, 2**31), (3e9, 2**30, 2**29), (80e9, 2**31, 2**32)])
def test_the_pool_fits_into_a_quarter_of_the_free_memory(free, largest, pool):
    assert read_curve._pool_bytes(int(free), largest) == pool
    assert pool <= free / 4


@pytest.mark.skipif(torch.cuda.is_available(), reason="says so only without a GPU")
def test_without_a_device_it_says_so():
    with pytest.raises(RuntimeError, match="measured on a CUDA device"):
        read_curve.measure_read_curve()


@pytest.mark.parametrize("count", [1024, 5 * 1024 + 7])
def test_the_kernel_reads_each_byte_once_and_adds_them_up(count):
    pytest.importorskip("triton")
    from course_lib.workloads.read_curve_kernel import read_kernel

    block = block_for(4 * count)
    x, programs = torch.arange(count, dtype=torch.int32), -(-count // block)
    sums = torch.full((programs,), -1, dtype=torch.int32)
    with interpreter.ledger() as book:
        read_kernel[(programs,)](x, sums, count, BLOCK=block, num_warps=4)
    assert sums.sum() == x.sum()
    counts = book.counts()
    assert counts["loaded_bytes"] == 4 * count
    assert counts["stored_bytes"] == 4 * programs


@pytest.mark.gpu
def test_on_a_device_large_reads_are_fast_and_small_ones_have_a_floor():
    curve = read_curve.measure_read_curve([2**12, 2**14, 2**20, 2**24, 2**28])
    seconds, rates = curve["seconds"], curve["gb_per_s"]
    assert rates == sorted(rates)
    assert seconds[1] < 2 * seconds[0]  # four times the bytes, and still mostly the start of a kernel
    assert all(low <= middle <= high for middle, (low, high) in zip(seconds, curve["spread"], strict=True))
