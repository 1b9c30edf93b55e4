"""Which program had loaded an element before: the running one itself, or another. The display says with it why bytes repeat."""

import pytest
import torch
import triton
import triton.language as tl

from course_lib.interpreter import ledger

from .kernels import traffic as k
from .kernels.copy import copy
from .kernels.matmul import matmul
from .ledger_helpers import at, counted


def repeated(launch, name):
    """(bytes repeated inside a program, bytes repeated across programs) of an argument that one line loads."""
    ((_, repeats),) = [(site, repeats) for site, repeats in launch.repeats.items() if site[0] == name]
    return repeats.inside, repeats.across


@triton.jit
def window_kernel(x_ptr, out_ptr, STEPS: tl.constexpr, W: tl.constexpr):
    for i in range(STEPS):
        at = tl.program_id(0) * STEPS + i
        tl.store(out_ptr + at, tl.sum(tl.load(x_ptr + at + tl.arange(0, W)), axis=0))


@pytest.mark.parametrize(("programs", "steps", "width"), [(1, 5, 4), (3, 5, 4), (3, 1, 8), (2, 7, 1)])
def test_a_window_in_a_loop_repeats_inside_its_program_and_meets_the_next_one_at_its_end(programs, steps, width):
    size = programs * steps + width - 1
    launch = counted(window_kernel[(programs,)], at(0, (size,)), at(0, (programs * steps,)), STEPS=steps, W=width)
    own = steps + width - 1  # elements that one program touches
    assert repeated(launch, "x_ptr") == (4 * programs * (steps * width - own), 4 * (programs * own - size))


def test_tiles_of_a_matrix_product_are_repeated_by_other_programs_only():
    launch = counted(matmul, at(0, (48, 40), torch.float16), at(0, (40, 64), torch.float16), bm=16, bn=16, bk=16)
    assert repeated(launch, "a_ptr") == (0, 3 * 48 * 40 * 2)  # 4 tiles of columns read each row tile
    assert repeated(launch, "b_ptr") == (0, 2 * 40 * 64 * 2)


@triton.jit
def row_again_kernel(x_ptr, out_ptr, TIMES: tl.constexpr, N: tl.constexpr):
    at, total = tl.arange(0, N), tl.zeros((N,), tl.float32)
    for _ in range(TIMES):
        total += tl.load(x_ptr + tl.program_id(0) * N + at)
    tl.store(out_ptr + tl.program_id(0) * N + at, total)


def test_a_row_that_its_program_reads_again_is_repeated_inside_only():
    launch = counted(row_again_kernel[(3,)], at(0, (3, 16)), at(0, (3, 16)), TIMES=5, N=16)
    assert repeated(launch, "x_ptr") == (4 * 3 * 16 * 4, 0)


def test_lanes_that_share_an_element_and_widths_that_differ_are_counted_once_for_an_access():
    launch = counted(k.broadcast_kernel[(3,)], at(0, (1,)), at(0, (48,)), BLOCK=16)
    assert [(one.inside, one.across) for one in launch.repeats.values()] == [(0, 8), (0, 8)]  # two lines, one element each
    words = torch.arange(32, dtype=torch.int32)
    launch = counted(k.both_widths_kernel[(1,)], words, torch.empty(16, dtype=torch.int32), N=16)
    inside = {site[1].text.split(" =")[0]: one.inside for site, one in launch.repeats.items()}
    assert inside == {"late": 0, "early": 2 * 8}  # the low halves of words 8..15, which that line has loaded whole


def test_repeats_are_kept_with_pictures_only():
    with ledger() as book:
        copy(at(0, (100,)))
    assert book.launches[0].repeats == {}
