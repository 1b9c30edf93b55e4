"""What one access costs, kind by kind: gathers, broadcasts, scalars, atomics, descriptors, views that overlap, cast pointers."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from triton.tools.tensor_descriptor import TensorDescriptor

from course_lib.interpreter import LaunchLedger

from .kernels import traffic as k
from .ledger_helpers import QUICK, at, blocks, counted, line, rows, sectors


@QUICK
@given(data=st.data(), n=st.integers(1, 100), rows=st.integers(1, 60), start=st.integers(0, 9))
def test_a_gather_touches_the_sectors_of_the_elements_that_it_picks(data, n, rows, start):
    index = torch.tensor(data.draw(st.lists(st.integers(0, rows - 1), min_size=n, max_size=n)))
    x = at(start, (rows,), torch.float16)
    launch = counted(k.gather_kernel[(-(-n // 32),)], x, index, torch.empty(n, dtype=torch.float16), n, BLOCK=32)
    picked = launch.arguments["x_ptr"]
    parts = [index[part.start : part.stop].tolist() for part in blocks(n, 32)]
    assert picked.loaded_bytes == 2 * n
    assert picked.sectors_loaded == sum(sectors((x.data_ptr() + 2 * i, 2) for i in part) for part in parts)
    assert picked.useful_loaded_bytes == 2 * sum(len(set(part)) for part in parts)
    assert picked.distinct_loaded_bytes == 2 * len(set(index.tolist()))
    assert picked.coalescing == picked.useful_loaded_bytes / (32 * picked.sectors_loaded)
    assert launch.arguments["index_ptr"].loaded_bytes == 8 * n


def test_lanes_that_share_an_address_ask_for_it_each_and_move_one_sector():
    launch = counted(k.broadcast_kernel[(3,)], at(0, (1,)), at(0, (3 * 64,)), BLOCK=64)
    every, one = line(launch, "lanes * 0"), line(launch, "one =")
    assert (every.loaded_bytes, every.sectors_loaded, every.useful_loaded_bytes, every.loads) == (3 * 256, 3, 3 * 4, 3)
    assert (one.loaded_bytes, one.sectors_loaded, one.useful_loaded_bytes, one.loads) == (3 * 4, 3, 3 * 4, 3)
    assert launch.arguments["x_ptr"].distinct_loaded_bytes == 4
    assert every.coalescing == one.coalescing == 4 / 32


@QUICK
@given(keys=st.lists(st.integers(0, 6), min_size=1, max_size=80))
def test_atomics_are_counted_by_element_and_byte_and_add_no_sectors(keys):
    keys, counts = torch.tensor(keys, dtype=torch.int32), torch.zeros(7, dtype=torch.int32)
    launch = counted(k.histogram_kernel[(-(-len(keys) // 32),)], keys, counts, len(keys), BLOCK=32)
    assert torch.equal(counts.long(), torch.bincount(keys, minlength=7))
    updated = launch.arguments["count_ptr"]
    assert (updated.atomics, updated.atomic_bytes, updated.bytes) == (len(keys), 4 * len(keys), 4 * len(keys))
    assert updated.distinct_stored_bytes == updated.distinct_bytes == 4 * len(set(keys.tolist()))
    assert (updated.loads, updated.stores, updated.stored_bytes, updated.sectors_stored, updated.coalescing) == (0, 0, 0, 0, None)


def test_compare_and_swap_and_exchange_are_one_update_each():
    launch = counted(k.lock_kernel[(2,)], torch.zeros(1, dtype=torch.int32))
    assert (launch.total.atomics, launch.total.atomic_bytes, launch.total.distinct_bytes) == (4, 16, 4)


def through_block_pointers(src: torch.Tensor, out: torch.Tensor, grid: tuple[int, int]) -> LaunchLedger:
    return counted(k.block_pointer_kernel[grid], src, out, *src.shape, BM=8, BN=16)


def through_descriptors(src: torch.Tensor, out: torch.Tensor, grid: tuple[int, int]) -> LaunchLedger:
    made = [TensorDescriptor.from_tensor(tensor, [8, 16]) for tensor in (src, out)]
    return counted(k.descriptor_kernel[grid], *made, BM=8, BN=16)


@pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated")
@pytest.mark.parametrize(("copy", "names"), [
    (through_block_pointers, ("x_ptr", "out_ptr")), (through_descriptors, ("source", "target")),
])  # fmt: skip
@QUICK
@given(height=st.integers(1, 30), width=st.integers(1, 10).map(lambda n: 8 * n))
def test_block_pointers_and_descriptors_cost_what_lies_inside_the_shape(copy, names, height, width):
    src, out = at(0, (height, width), torch.float16), at(0, (height, width), torch.float16).zero_()
    tiles = [(r, c) for r in blocks(height, 8) for c in blocks(width, 16)]
    launch = copy(src, out, (-(-height // 8), -(-width // 16)))
    assert torch.equal(src, out)
    touched = sum(sectors(rows(src, r, c.start, c.stop)) for r, c in tiles)
    read, written = (launch.arguments[name] for name in names)
    assert (read.loads, read.loaded_bytes, read.distinct_loaded_bytes) == (len(tiles), src.nbytes, src.nbytes)
    assert (written.stores, written.stored_bytes, written.distinct_stored_bytes) == (len(tiles), src.nbytes, src.nbytes)
    assert (read.sectors_loaded, written.sectors_stored) == (touched, touched)


def test_in_place_counts_an_element_once_read_and_once_written():
    x = at(0, (100,))
    total = counted(k.add_one_kernel[(2,)], x, 100, BLOCK=64).total
    assert (total.loaded_bytes, total.stored_bytes, total.distinct_loaded_bytes, total.distinct_stored_bytes) == (400,) * 4
    assert total.distinct_bytes == 800


def test_a_tensor_passed_twice_is_one_tensor_for_the_launch():
    x = at(0, (100,))
    launch = counted(k.add_kernel[(2,)], x, x, torch.empty(100), 100, BLOCK=64)
    assert launch.arguments["x_ptr"] == launch.arguments["y_ptr"]
    assert (launch.total.loaded_bytes, launch.total.distinct_loaded_bytes, launch.total.rereads) == (800, 400, 2.0)
    both = line(launch, "total = tl.load(")
    assert (both.loads, both.loaded_bytes, both.distinct_loaded_bytes) == (4, 800, 400)
    assert len(launch.sites) == 3


@pytest.mark.parametrize("share", ["one storage", "two storages"])
def test_views_that_overlap_share_their_distinct_bytes(share):
    """torch.from_numpy makes a storage of its own for memory that another tensor has as well."""
    base = torch.ones(120)
    x, y = base[:80], base[30:110]
    if share == "two storages":
        x, y = torch.from_numpy(x.numpy()), torch.from_numpy(y.numpy())
    launch = counted(k.add_kernel[(1,)], x, y, torch.empty(80), 80, BLOCK=128)
    assert [launch.arguments[name].distinct_loaded_bytes for name in ("x_ptr", "y_ptr")] == [320, 320]
    assert launch.total.distinct_loaded_bytes == 110 * 4


def test_interleaved_views_share_nothing():
    base = torch.ones(64, 2)
    launch = counted(k.copy_2d_kernel[(1, 1)], base[:, :1], base[:, 1:], 64, 1, 2, 1, 2, 1, BM=64, BN=1)
    assert (launch.total.distinct_loaded_bytes, launch.total.distinct_stored_bytes) == (256, 256)
    assert (launch.total.sectors_loaded, launch.total.sectors_stored) == (16, 16)


@pytest.mark.parametrize(("dtype", "kernel"), [(torch.int8, k.words_kernel), (torch.int32, k.halves_kernel)])
def test_a_cast_pointer_counts_the_bytes_that_it_reads(dtype, kernel):
    x = torch.arange(64, dtype=dtype)
    many, out = (16, torch.empty(16, dtype=torch.int32)) if dtype == torch.int8 else (64, torch.empty(64, dtype=torch.int16))
    launch = counted(kernel[(1,)], x, out, many)
    read = launch.arguments[kernel.arg_names[0]]
    assert torch.equal(out.view(torch.int8) if dtype == torch.int8 else out.int(), x)
    assert read.loaded_bytes == read.distinct_loaded_bytes == read.useful_loaded_bytes == many * out.element_size()
    assert read.sectors_loaded == (2 if dtype == torch.int8 else 8)
    assert launch.touched[kernel.arg_names[0]].loads.tolist() == [1] * 64


@pytest.mark.parametrize("n", [4, 8])
def test_accesses_of_two_widths_are_laid_together_byte_by_byte(n):
    words = torch.ones(4 * n, dtype=torch.int32)
    launch = counted(k.both_widths_kernel[(1,)], words, torch.empty(n, dtype=torch.int32), N=n)
    late, early = line(launch, "late = "), line(launch, "early = ")
    assert (late.loaded_bytes, late.distinct_loaded_bytes) == (4 * n, 4 * n)
    assert early.loaded_bytes == 4 * n + 2 * n
    assert early.distinct_loaded_bytes == 4 * n + 2 * (n // 2)  # half of the low halves lie in the words 0..n-1
    assert launch.total.distinct_loaded_bytes == 4 * 2 * n  # and the other half in the words n..2n-1


@pytest.mark.parametrize("start", [0, 1, 4, 7])
def test_memory_of_numpy_may_start_within_a_sector(start):
    base = at(0, (80,))
    x = torch.from_numpy(base.numpy()[start : start + 64])
    assert x.untyped_storage().data_ptr() % 32 == 4 * start
    launch = counted(k.add_one_kernel[(2,)], x, 64, BLOCK=32)
    assert launch.total.sectors_loaded == launch.total.sectors_stored == (8 if start == 0 else 10)


@pytest.mark.parametrize("before", [6, 8, 12])
def test_an_access_across_two_tensors_of_one_storage_keeps_the_books_in_order(before):
    base = torch.arange(64, dtype=torch.float32)
    middle, others, out = base[16:26], base[:16], torch.empty(16)
    launch = counted(k.across_kernel[(1,)], middle, others, out, BEFORE=before, BLOCK=16)
    assert torch.equal(out, base[16 - before : 32 - before])
    read = launch.arguments["middle_ptr"]
    assert read.loaded_bytes == read.distinct_loaded_bytes == launch.total.distinct_loaded_bytes == 64
    assert read.sectors_loaded == sectors([(base.data_ptr() + (16 - before) * 4, 64)])
    assert launch.touched["middle_ptr"].loads.tolist() == [1] * (16 - before) + [0] * (before - 6)
    assert launch.touched["others_ptr"].loads.tolist() == [0] * (16 - before) + [1] * before


def test_an_access_without_an_active_lane_is_no_access():
    launch = counted(k.nothing_kernel[(5,)], at(0, (8,)), at(0, (8,)), 0, BLOCK=8)
    assert launch.total == type(launch.total)()
    assert (launch.programs, launch.arguments, launch.lines, launch.total.coalescing) == (5, {}, {}, None)


def test_a_helper_counts_on_its_own_line():
    launch = counted(k.helped_kernel[(1,)], at(0, (64,)), at(0, (32,)), BLOCK=32)
    helper = line(launch, "return tl.load(x_ptr + at) * 0.5")
    assert (helper.loads, helper.loaded_bytes, helper.distinct_loaded_bytes) == (2, 256, 256)
    assert {place.text.split("(")[0] for place in launch.lines} == {"return tl.load", "tl.store"}


def test_arithmetic_is_counted_as_documented():
    n = 64
    launch = counted(k.arithmetic_kernel[(2,)], at(0, (2 * n,)), at(0, (2 * n,)), BLOCK=n)
    assert launch.elementwise_flops == launch.flops == 2 * ((2 + 2 + 2 + 3 + 1 + 1) * n + 2 * (n - 1))
    assert launch.special_calls == dict.fromkeys(("divide", "exp2", "sqrt", "log"), 2 * n)


def test_pictures_show_who_touched_what():
    x, out = at(0, (10, 6)).T, torch.zeros(6, 10)
    launch = counted(k.copy_2d, x, out, bm=4, bn=8)
    program = np.add.outer(np.arange(6) // 4 * 2, np.arange(10) // 8)
    assert np.array_equal(launch.touched["src_ptr"].grid_of("loader"), program)
    assert np.array_equal(launch.touched["dst_ptr"].grid_of("writer"), program)
    assert launch.touched["src_ptr"].grid_of("loads").tolist() == np.ones((6, 10)).tolist()
    assert launch.touched["src_ptr"].grid_of("writer").max() == -1
