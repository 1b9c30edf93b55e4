"""Two programs that store to one address without atomics: caught at the second one, and nothing else is."""

import pytest
import torch

from .faults import races as k
from .faults.told import caught, checked, checks_on  # noqa: F401

DTYPES = (torch.int8, torch.float16, torch.int32, torch.float64)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("n", [13, 16, 17])
def test_tiles_side_by_side_are_left_alone_and_tiles_that_overlap_are_caught(dtype, n):
    out = torch.full((n,), 77, dtype=dtype)
    programs = -(-n // 8)
    k.tiles_kernel[(programs,)](out, 8, n, BLOCK=8)
    assert out.tolist() == list(range(n))
    caught(
        "race", k.tiles_kernel, "tl.store", lambda: k.tiles_kernel[(programs,)](out, 7, n, BLOCK=8),
        program=(1, 0, 0), argument="out_ptr", index=7, bounds=(0, n),
        says="stores to out_ptr[7], where program (0, 0, 0) has stored as well",
    )  # fmt: skip


def test_the_last_tile_shifted_back_into_the_tensor_is_a_race_at_ragged_ends_only():
    k.shifted_kernel[(3,)](torch.empty(24), 24, BLOCK=8)
    caught(
        "race", k.shifted_kernel, "tl.store", lambda: k.shifted_kernel[(3,)](torch.empty(21), 21, BLOCK=8),
        program=(2, 0, 0), argument="out_ptr", index=13, bounds=(0, 21), says="where program (1, 0, 0) has stored",
    )  # fmt: skip


def test_a_grid_of_tiles_is_caught_only_where_tiles_overlap():
    out = torch.empty(8, 12, dtype=torch.int16)
    k.grid_kernel[(2, 3)](out, 12, 1, R=4, C=4)
    assert torch.equal(out, (torch.arange(8)[:, None] + torch.arange(12)).to(torch.int16))
    k.grid_kernel[(2, 3)](out.view(12, 8), 1, 8, R=4, C=4)  # the transpose
    caught(
        "race", k.grid_kernel, "tl.store", lambda: k.grid_kernel[(2, 3)](out, 8, 1, R=4, C=4),
        program=(0, 2, 0), argument="out_ptr", index=8, bounds=(0, 96), says="out_ptr[8] = [0, 8], where program (0, 0, 0) has",
    )  # fmt: skip


def test_one_program_and_two_launches_may_write_a_place_again():
    out = torch.empty(12, dtype=torch.int32)
    for _ in range(2):
        k.twice_kernel[(3,)](out, BLOCK=4)
    assert out.tolist() == [i + 2 for i in range(12)]


def test_a_sum_in_one_place_needs_atomics_or_a_lock():
    x, out, lock = torch.arange(13.0), torch.zeros(1), torch.zeros(1, dtype=torch.int32)
    k.total_kernel[(4,)](x, out, 13, ATOMIC=True, BLOCK=4)
    k.locked_kernel[(4,)](x, out, lock, 13, BLOCK=4)
    assert (out.item(), lock.item()) == (2 * 78, 0)
    caught(
        "race", k.total_kernel, "tl.store", lambda: k.total_kernel[(4,)](x, out, 13, ATOMIC=False, BLOCK=4),
        program=(1, 0, 0), argument="out_ptr", index=0, bounds=(0, 1), says="or use tl.atomic_add",
    )  # fmt: skip
    k.total_kernel[(1,)](x, out, 4, ATOMIC=False, BLOCK=4)


def test_the_last_program_to_arrive_may_read_what_all_have_written():
    out = torch.empty(1)
    k.last_kernel[(3,)](torch.arange(12.0), torch.empty(3), torch.zeros(1, dtype=torch.int32), out, BLOCK=4)
    assert out.item() == 66


def test_two_views_of_one_storage_and_two_sizes_of_element():
    words = torch.zeros(8, dtype=torch.int32)
    halves = words.view(torch.int16)
    k.two_views_kernel[(2,)](words, halves, SAME=False)
    caught(
        "race", k.two_views_kernel, "tl.store(halves_ptr", lambda: k.two_views_kernel[(2,)](words, halves, SAME=True),
        program=(1, 0, 0), argument="halves_ptr", index=7, bounds=(0, 16), says="stores to halves_ptr[7], where",
    )  # fmt: skip


@pytest.mark.parametrize(("start", "safe"), [(8, True), (7, False), (0, False), (12, True)])
def test_wide_stores_over_narrow_ones(start, safe):
    words = torch.zeros(8, dtype=torch.int32)
    run = lambda: k.halves_then_words_kernel[(2,)](words, words.view(torch.int16), start)  # noqa: E731
    if safe:
        run()
    else:
        caught(
            "race", k.halves_then_words_kernel, "tl.store(words_ptr", run,
            program=(1, 0, 0), argument="words_ptr", index=start // 2, bounds=(0, 8),
        )  # fmt: skip


@pytest.mark.parametrize("start", [0, 15, 16, 19])
def test_a_byte_in_a_word_of_another_program(start):
    out = torch.zeros(5, dtype=torch.int32)
    run = lambda: k.cast_kernel[(2,)](out, start, BLOCK=4)  # noqa: E731
    if start >= 16:
        run()
    else:
        caught(
            "race",
            k.cast_kernel,
            "tl.store(out_ptr.to",
            run,
            program=(1, 0, 0),
            argument="out_ptr",
            index=start // 4,
            bounds=(0, 5),
        )


def test_the_check_can_be_left_out():
    with checks_on(races=False):
        k.tiles_kernel[(2,)](torch.empty(13), 7, 13, BLOCK=8)
