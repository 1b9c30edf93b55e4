"""Accesses outside the tensors of a launch: each kind is stopped before it happens, and told; what is inside is left alone."""

import numpy as np
import pytest
import torch

from .faults import bounds as k
from .faults.told import caught, checked, reads_well  # noqa: F401

FLOAT = torch.float32


def guarded(n, dtype=FLOAT):
    """A tensor between two others of the same numpy array: what lies beside it is memory of this process."""
    whole = torch.arange(3 * n, dtype=dtype)
    return whole, torch.from_numpy(whole.numpy()[n : 2 * n])


@pytest.mark.parametrize("start", [1, -1, 7, 2**30, 2**31 - 4, -(2**31)])
def test_a_load_outside_is_told_with_its_first_index(start):
    x, out = torch.arange(4.0), torch.empty(4)
    first = start if start < 0 else max(4, start)
    caught(
        "out of bounds", k.load_kernel, "tl.load", lambda: k.load_kernel[(1,)](x, out, start, BLOCK=4),
        argument="x_ptr", index=first, bounds=(0, 4), says=f"x_ptr[{first}]: x_ptr is float32 [4], offsets 0..3",
    )  # fmt: skip


@pytest.mark.parametrize("start", [1, -1, 4])
def test_a_store_outside_writes_nothing_at_all(start):
    whole, mine = guarded(4)
    before = whole.clone()
    caught(
        "out of bounds", k.store_kernel, "tl.store", lambda: k.store_kernel[(1,)](mine, start, BLOCK=4),
        argument="out_ptr", index=start if start < 0 else max(4, start), bounds=(0, 4),
    )  # fmt: skip
    assert torch.equal(whole, before)


def test_inside_is_left_alone_up_to_both_ends():
    x, out = torch.arange(8.0), torch.empty(4)
    for start in (0, 4):
        k.load_kernel[(1,)](x, out, start, BLOCK=4)
        assert torch.equal(out, x[start : start + 4])
    k.store_kernel[(1,)](x, 4, BLOCK=4)
    assert x.tolist() == [0, 1, 2, 3, 1, 1, 1, 1]


@pytest.mark.parametrize(("start", "told"), [
    (1, "1 of 4 active lanes is outside, the first is lane 3"), (3, "3 of 4 active lanes are outside, the first is lane 1"),
])  # fmt: skip
def test_the_number_of_lanes_outside_is_told_in_good_english(start, told):
    caught(
        "out of bounds", k.load_kernel, "tl.load", lambda: k.load_kernel[(1,)](torch.zeros(4), torch.empty(4), start, BLOCK=4),
        argument="x_ptr", index=4, bounds=(0, 4), says=told,
    )  # fmt: skip


def test_a_scalar_access_is_told_without_lanes():
    x, out = torch.zeros(3, 5), torch.empty(1)
    told = caught(
        "out of bounds", k.scalar_kernel, "tl.load", lambda: k.scalar_kernel[(1,)](x, out, 15),
        argument="x_ptr", index=15, bounds=(0, 15), says="x_ptr[15]: x_ptr is float32 [3, 5], offsets 0..14. Compare the index",
    )  # fmt: skip
    assert "lane" not in told.message
    k.scalar_kernel[(1,)](x, out, 14)


def test_masked_lanes_may_point_anywhere():
    for far in (10**3, 2**40, -(2**50), 2**62):
        x, out = torch.arange(5.0), torch.zeros(5)
        k.masked_kernel[(1,)](x, out, far, 5, BLOCK=16)
        assert torch.equal(out, x)
    caught(
        "out of bounds", k.masked_kernel, "tl.load", lambda: k.masked_kernel[(1,)](torch.arange(5.0), out, 0, 6, BLOCK=16),
        argument="x_ptr", index=5, bounds=(0, 5), says="1 of 6 active lanes is outside",
    )  # fmt: skip


def test_a_neighbour_of_the_same_launch_is_out_of_bounds_too_and_named():
    x, out = torch.arange(4.0), torch.arange(4.0)
    away = (out.data_ptr() - x.data_ptr()) // 4
    caught(
        "out of bounds", k.load_kernel, "tl.load", lambda: k.load_kernel[(1,)](x, out, away, BLOCK=4),
        argument="x_ptr", index=away, bounds=(0, 4), says="A GPU would touch out_ptr there",
    )  # fmt: skip


def test_the_rest_of_a_views_storage_is_out_of_bounds_unless_it_is_passed_too():
    whole = torch.arange(12.0)
    part, out = whole[2:6], torch.empty(4)
    caught(
        "out of bounds", k.load_kernel, "tl.load", lambda: k.load_kernel[(1,)](part, out, 1, BLOCK=4),
        argument="x_ptr", index=4, bounds=(0, 4), says="memory there that belongs to the storage of x_ptr, but to no argument",
    )  # fmt: skip
    k.load_kernel[(1,)](part, out, 0, BLOCK=4)
    assert out.tolist() == [2, 3, 4, 5]
    k.both_views_kernel[(1,)](part, whole, 4, BLOCK=4)  # elements 6..9 belong to the other view
    assert whole.tolist()[:4] == [6, 7, 8, 9]
    k.both_views_kernel[(1,)](part, whole, -2, BLOCK=4)
    caught(
        "out of bounds", k.both_views_kernel, "tl.store", lambda: k.both_views_kernel[(1,)](part, whole, 7, BLOCK=4),
        argument="a_ptr", index=10, bounds=(0, 4), says="1 of 4 active lanes is outside",
    )  # fmt: skip


def test_two_torch_storages_over_one_numpy_array_may_reach_each_other():
    array = np.arange(12, dtype=np.float32)
    short, whole = torch.from_numpy(array[:4]), torch.from_numpy(array)
    k.both_views_kernel[(1,)](short, whole, 8, BLOCK=4)
    assert array[:4].tolist() == [8, 9, 10, 11]
    k.both_views_kernel[(1,)](whole, short, 4, BLOCK=4)
    assert array[:4].tolist() == [4, 5, 6, 7]


@pytest.mark.parametrize("step", [2, 3])
def test_a_gap_of_a_strided_view_is_outside(step):
    whole = torch.arange(20.0)
    x, out = whole[::step][:4], torch.empty(4)
    k.strided_kernel[(1,)](x, out, 1, 4, 0, step, R=1, C=4)
    assert torch.equal(out, x)
    caught(
        "out of bounds", k.strided_kernel, "x = tl.load", lambda: k.strided_kernel[(1,)](x, out, 1, 4, 0, 1, R=1, C=4),
        argument="x_ptr", index=1, bounds=(0, 3 * step + 1), says=f"with strides ({step},), offsets 0..{3 * step} with gaps",
    )  # fmt: skip


def test_columns_beyond_a_narrow_view_are_outside_although_a_row_goes_on():
    whole = torch.arange(40.0).view(5, 8)
    x = whole[1:4, 2:7]
    out = torch.empty(3, 5)
    k.strided_kernel[(1,)](x, out, 3, 5, 8, 1, R=4, C=8)
    assert torch.equal(out, x)
    caught(
        "out of bounds", k.strided_kernel, "x = tl.load",
        lambda: k.strided_kernel[(1,)](x, torch.empty(3, 6), 3, 6, 8, 1, R=4, C=8),
        argument="x_ptr", index=5, bounds=(0, 21), says="3 of 18 active lanes are outside, the first is lane 5",
    )  # fmt: skip


EXPANDED = {
    "a row": lambda: torch.arange(4.0).expand(3, 4),
    "a column": lambda: torch.arange(3.0)[:, None].expand(3, 4),
    "a row of every second": lambda: torch.arange(8.0)[::2].expand(3, 4),
    "windows that overlap": lambda: torch.arange(6.0).unfold(0, 4, 1),
    "a transpose": lambda: torch.arange(12.0).view(4, 3).T,
    "every second column, transposed": lambda: torch.arange(24.0).view(4, 6)[:, ::2].T,
}


@pytest.mark.parametrize("name", EXPANDED)
def test_any_strides_are_read_as_torch_reads_them(name):
    x = EXPANDED[name]()
    out = torch.empty(3, 4)
    k.strided_kernel[(1,)](x, out, 3, 4, *x.stride(), R=4, C=4)
    assert torch.equal(out, x)


def test_an_expanded_row_with_gaps_has_gaps():
    x = EXPANDED["a row of every second"]()
    caught(
        "out of bounds", k.strided_kernel, "x = tl.load",
        lambda: k.strided_kernel[(1,)](x, torch.empty(3, 4), 3, 4, 0, 1, R=4, C=4),
        argument="x_ptr", index=1, bounds=(0, 7), says="with strides (0, 2)",
    )  # fmt: skip


@pytest.mark.parametrize("x", [torch.empty(0), torch.arange(5.0)[2:2], torch.empty(0, 3)], ids=["new", "a slice", "no rows"])
def test_an_empty_tensor_has_no_element(x):
    out = torch.zeros(4)
    k.masked_kernel[(1,)](x, out, 0, 0, BLOCK=4)
    caught(
        "out of bounds", k.load_kernel, "tl.load", lambda: k.load_kernel[(1,)](x, out, 0, BLOCK=4),
        argument="x_ptr", index=0, bounds=(0, 0), says="which is empty; 4 of 4 active lanes are outside",
    )  # fmt: skip


def test_a_tensor_without_dimensions_has_one_element():
    x, out = torch.tensor(3.0), torch.empty(1)
    k.scalar_kernel[(1,)](x, out, 0)
    assert out.item() == 3
    caught(
        "out of bounds", k.scalar_kernel, "tl.load", lambda: k.scalar_kernel[(1,)](x, out, 1),
        argument="x_ptr", index=1, bounds=(0, 1), says="x_ptr is one float32, offsets 0..0",
    )  # fmt: skip


def test_one_tensor_may_be_passed_twice():
    x, out = torch.arange(4.0), torch.empty(4)
    k.two_of_one_kernel[(1,)](x, x, out, BLOCK=4)
    assert torch.equal(out, x + x)
    k.two_of_one_kernel[(1,)](x, x, x, BLOCK=4)
    assert x.tolist() == [0, 2, 4, 6]


def test_a_pointer_that_was_cast_is_measured_in_its_new_size():
    x, out = torch.arange(16, dtype=torch.int8), torch.empty(4, dtype=torch.int32)
    k.cast_kernel[(1,)](x, out, 0, BLOCK=4)
    assert torch.equal(out.view(torch.int8), x)
    caught(
        "out of bounds", k.cast_kernel, "words = tl.load", lambda: k.cast_kernel[(1,)](x, out, 4, BLOCK=4),
        argument="x_ptr", index=16, bounds=(0, 16),
    )  # fmt: skip
    odd = torch.arange(15, dtype=torch.int8)  # the last word starts inside and ends outside
    caught(
        "out of bounds", k.cast_kernel, "words = tl.load", lambda: k.cast_kernel[(1,)](odd, out, 0, BLOCK=4),
        argument="x_ptr", index=12, bounds=(0, 15), says="1 of 4 active lanes is outside, the first is lane 3",
    )  # fmt: skip


@pytest.mark.parametrize(("start", "told"), [(1, "1 byte after one"), (2, "2 bytes after one"), (3, "3 bytes after one")])
def test_a_word_that_starts_between_words_is_misaligned(start, told):
    x, out = torch.arange(20, dtype=torch.int8), torch.empty(4, dtype=torch.int32)
    caught(
        "misaligned", k.cast_kernel, "words = tl.load", lambda: k.cast_kernel[(1,)](x, out, start, BLOCK=4),
        argument="x_ptr", index=start, bounds=(0, 20), says=told,
    )  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.int16, torch.bfloat16, torch.float64])
def test_an_index_is_counted_in_elements_of_the_argument(dtype):
    x, out = torch.zeros(5, dtype=dtype), torch.zeros(4, dtype=dtype)
    caught(
        "out of bounds", k.load_kernel, "tl.load", lambda: k.load_kernel[(1,)](x, out, 3, BLOCK=4),
        argument="x_ptr", index=5, bounds=(0, 5),
    )  # fmt: skip


def test_a_descriptor_that_says_more_than_the_tensor_has_is_told():
    x, out = torch.arange(32.0).view(8, 4), torch.empty(4, 4)
    k.descriptor_kernel[(1,)](x, out, 8, 4, 6, R=4, C=4)  # rows 8 and 9 are outside the shape, and padded
    assert torch.equal(out, torch.cat([x[6:], torch.zeros(2, 4)]))
    caught(
        "out of bounds", k.descriptor_kernel, "x.load", lambda: k.descriptor_kernel[(1,)](x, out, 9, 4, 6, R=4, C=4),
        argument="x_ptr", index=32, bounds=(0, 32), says="The descriptor's base, shape and strides reach beyond the tensor",
    )  # fmt: skip
    k.descriptor_store_kernel[(1,)](x, 8, 4, 6, R=4, C=4)
    caught(
        "out of bounds", k.descriptor_store_kernel, "x.store", lambda: k.descriptor_store_kernel[(1,)](x, 10, 4, 8, R=4, C=4),
        argument="x_ptr", index=32, bounds=(0, 32),
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated")
def test_a_block_pointer_is_told_which_axes_to_check():
    x, out = torch.arange(32.0).view(8, 4), torch.empty(4, 4)
    k.block_pointer_kernel[(1,)](x, out, 8, 4, 6, CHECK=True, R=4, C=4)
    assert torch.equal(out, torch.cat([x[6:], torch.zeros(2, 4)]))
    caught(
        "out of bounds", k.block_pointer_kernel, "block = tl.load",
        lambda: k.block_pointer_kernel[(1,)](x, out, 8, 4, 6, CHECK=False, R=4, C=4),
        argument="x_ptr", index=32, bounds=(0, 32), says="Pass boundary_check",
    )  # fmt: skip
    k.block_pointer_store_kernel[(1,)](x, 8, 4, 6, CHECK=True, R=4, C=4)
    caught(
        "out of bounds", k.block_pointer_store_kernel, "tl.store(x, ones)",
        lambda: k.block_pointer_store_kernel[(1,)](x, 8, 4, 6, CHECK=False, R=4, C=4),
        argument="x_ptr", index=32, bounds=(0, 32), says="Pass boundary_check",
    )  # fmt: skip


def test_a_table_of_addresses_leads_only_to_tensors_that_are_passed():
    a, b = torch.arange(5.0), torch.arange(5.0) * 10
    table, out = torch.tensor([a.data_ptr(), b.data_ptr()]), torch.empty(2, 5)
    told = caught(
        "out of bounds", k.pointer_table_kernel, "x = tl.load", lambda: k.pointer_table_kernel[(2,)](table, out, 5, BLOCK=8),
        index=a.data_ptr(), says=f"address {a.data_ptr():#x}",
    )  # fmt: skip
    assert told.message.endswith("pass the tensor that it points into to the launch as well, as one more argument")
    k.pointer_table_keeping_kernel[(2,)](table, out, 5, a, b, BLOCK=8)
    assert torch.equal(out, torch.stack([a, b]))
    caught(
        "out of bounds", k.pointer_table_keeping_kernel, "x = tl.load",
        lambda: k.pointer_table_keeping_kernel[(2,)](table, torch.empty(2, 6), 6, a, b, BLOCK=8),
        argument="a_ptr", index=5, bounds=(0, 5),
    )  # fmt: skip


def test_lanes_of_one_block_may_point_into_several_tensors():
    a, b, out = torch.arange(5.0), torch.arange(6.0) * 10, torch.zeros(11)
    k.chosen_pointer_kernel[(1,)](a, b, out, 5, 11, BLOCK=16)
    assert torch.equal(out, torch.cat([a, b]))
    told = caught(
        "out of bounds", k.chosen_pointer_kernel, "tl.load",
        lambda: k.chosen_pointer_kernel[(1,)](a, b, torch.zeros(12), 5, 12, BLOCK=16),
        argument="b_ptr", index=6, bounds=(0, 6),
    )  # fmt: skip
    reads_well(told.message)
    a, b = torch.empty(5, dtype=torch.int32), torch.empty(6, dtype=torch.int32)
    k.scattered_kernel[(1,)](a, b, 5, 11, BLOCK=16)
    assert torch.cat([a, b]).tolist() == [2 * i for i in range(11)]


def test_a_mistake_in_a_helper_names_the_helpers_line_and_the_kernel():
    x, out = torch.ones(3), torch.empty(1)
    k.helper_kernel[(1,)](x, out, 3)
    assert out.item() == 3
    caught(
        "out of bounds", k.helper_kernel, "return tl.load", lambda: k.helper_kernel[(1,)](x, out, 4),
        argument="x_ptr", index=3, bounds=(0, 3), place_of=k._read_one,
    )  # fmt: skip


def test_an_atomic_outside_updates_nothing():
    whole, mine = guarded(4)
    before = whole.clone()
    caught(
        "out of bounds", k.atomic_kernel, "tl.atomic_add", lambda: k.atomic_kernel[(1,)](mine, 5, BLOCK=8),
        argument="out_ptr", index=4, bounds=(0, 4), says="cannot update out_ptr[4]",
    )  # fmt: skip
    assert torch.equal(whole, before)
    k.atomic_kernel[(1,)](mine, 4, BLOCK=8)
    assert torch.equal(mine, before[4:8] + 1)


def test_the_program_that_goes_wrong_is_named_by_its_place_in_the_grid():
    out = torch.empty(2, 8, dtype=torch.int32)
    k.grid_kernel[(2, 2)](out, 8, BLOCK=4)
    short = torch.empty(15, dtype=torch.int32)
    caught(
        "out of bounds", k.grid_kernel, "tl.store", lambda: k.grid_kernel[(2, 2)](short, 8, BLOCK=4),
        program=(1, 1, 0), argument="out_ptr", index=15, bounds=(0, 15), says="program (1, 1, 0)",
    )  # fmt: skip


def test_rows_gathered_and_scattered_by_a_descriptor():
    x, out = torch.arange(160.0).view(10, 16), torch.empty(8, 16)
    index = torch.tensor([9, 0, 3, 3, 11, 2, 1, 4], dtype=torch.int32)  # row 11 is outside the shape, and padded
    k.gather_kernel[(1,)](x, index, out, 8, 10)
    expected = torch.cat([x, torch.zeros(2, 16)])[index.long()]
    assert torch.equal(out, expected)
    caught(
        "out of bounds", k.gather_kernel, "x.gather", lambda: k.gather_kernel[(1,)](x, index, out, 8, 12),
        argument="x_ptr", index=176, bounds=(0, 160), says="The descriptor's base, shape and strides reach beyond the tensor",
    )  # fmt: skip
    caught(
        "masked off", k.gather_kernel, "x.gather", lambda: k.gather_kernel[(1,)](x, index, out, 7, 10),
        argument="index_ptr", says="the coordinate of this block depends on lanes of index_ptr that this line",
    )  # fmt: skip
    new = torch.empty(10, 16)
    caught(
        "unwritten", k.gather_kernel, "tl.store", lambda: k.gather_kernel[(1,)](new, index, out, 8, 10),
        argument="x_ptr", index=144,
    )  # fmt: skip
    k.scatter_kernel[(1,)](new, torch.tensor([9, 0, 3, 5, 11, 2, 1, 4], dtype=torch.int32), 10)
    assert new[[9, 0, 3, 5, 2, 1, 4], 0].tolist() == [0, 1, 2, 3, 5, 6, 7]
    caught(
        "out of bounds", k.scatter_kernel, "x.scatter", lambda: k.scatter_kernel[(1,)](new, index, 12),
        argument="x_ptr", index=176, bounds=(0, 160),
    )  # fmt: skip
