"""A masked-off lane of a load without other= holds anything: caught where it reaches a result, and nowhere else."""

import pytest
import torch

from .faults import masked as k
from .faults.told import caught, checked, checks_on  # noqa: F401

N, BLOCK = 11, 16


def floats(size=BLOCK):
    return torch.randn(size, generator=torch.Generator().manual_seed(size))


def on_block(*inputs):
    return lambda kernel, safe: kernel[(1,)](*inputs, torch.zeros(2 * BLOCK), N, SAFE=safe, BLOCK=BLOCK)


def on_scalar(kernel, safe):
    kernel[(1,)](torch.zeros(1, dtype=torch.int32), torch.zeros(1), 0, SAFE=safe)


def on_matrix(kernel, safe):
    x, w, out = floats(256).view(16, 16), floats(256).view(16, 16), torch.zeros(16, 16)
    kernel[(1,)](x, w, out, N, SAFE=safe, B=16)


INDEX = torch.arange(BLOCK, dtype=torch.int32)
STORED, USED = "the value stored here depends on lanes of", "depends on lanes of"
# kernel: (how to run it, line that must be named, argument, what is said)
MISTAKES = {
    k.arithmetic_kernel: (on_block(floats()), "tl.store(out_ptr + lanes, y)", "x_ptr", STORED),
    k.sum_kernel: (on_block(floats()), "tl.store", "x_ptr", STORED),
    k.max_kernel: (on_block(floats()), "tl.store", "x_ptr", STORED),
    k.cumsum_kernel: (on_block(floats()), "tl.store", "x_ptr", STORED),
    k.dot_kernel: (on_matrix, "tl.store", "x_ptr", STORED),
    k.sort_kernel: (on_block(floats()), "tl.store", "x_ptr", STORED),
    k.join_kernel: (on_block(floats()), "tl.store", "x_ptr", "(1 of 23 lanes is affected)"),
    k.atomic_kernel: (on_block(floats()), "tl.atomic_add", "x_ptr", "the value that this atomic uses depends on lanes of"),
    k.atomic_result_kernel: (on_block(floats()), "tl.store", "x_ptr", "depends on lanes of an atomic on x_ptr that line"),
    k.address_kernel: (
        on_block(INDEX, floats()),
        "x = tl.load(x_ptr",
        "index_ptr",
        "the address to load from depends on",
    ),
    k.mask_kernel: (on_block(INDEX, floats()), "tl.store", "index_ptr", "the mask, which decides whether a lane is active,"),
    k.branch_kernel: (on_scalar, "if flag", "flag_ptr", "the condition of this branch depends on"),
    k.bound_kernel: (on_scalar, "for _", "count_ptr", "the loop's bound depends on"),
    k.while_kernel: (on_scalar, "while left", "count_ptr", "the condition of this branch depends on"),
    k.block_pointer_kernel: (on_block(floats()), "tl.store(out_ptr, tl.sum", "x_ptr", STORED),
    k.other_kernel: (on_block(floats(), floats()), "tl.store", "y_ptr", "(5 of 16 lanes are affected)"),
}


@pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated")
@pytest.mark.parametrize("kernel", MISTAKES, ids=lambda kernel: kernel.fn.__name__)
def test_a_masked_lane_that_reaches_a_result_is_caught_and_its_twin_is_left_alone(kernel):
    run, text, argument, says = MISTAKES[kernel]
    told = caught("masked off", kernel, text, lambda: run(kernel, False), argument=argument, says=says)
    cure = "Mask this use as well" if kernel is k.atomic_result_kernel else "Give that load an other=, or mask this use as well"
    assert told.message.endswith(f". {cure}")
    run(kernel, True)


def test_both_lines_are_told_the_load_and_the_use():
    told = caught(
        "masked off", k.sum_kernel, "tl.store", lambda: MISTAKES[k.sum_kernel][0](k.sum_kernel, False), argument="x_ptr"
    )
    assert (
        "`x = tl.load(x_ptr + lanes, mask=lanes < n)` masked off without other=; what is there" in told.message
    )


def test_what_is_not_used_is_left_alone():
    x, out = floats(), torch.zeros(BLOCK)
    k.unused_kernel[(1,)](x, out, N, BLOCK=BLOCK)
    assert torch.equal(out[:N], x[:N])


def test_nothing_is_doubtful_where_no_lane_is_masked_off():
    for kernel in (k.arithmetic_kernel, k.sum_kernel, k.sort_kernel, k.cumsum_kernel):
        kernel[(1,)](floats(), torch.zeros(2 * BLOCK), BLOCK, SAFE=False, BLOCK=BLOCK)


@pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated")
def test_the_check_can_be_left_out():
    with checks_on(masked=False):
        for kernel, (run, *_) in MISTAKES.items():
            run(kernel, False)
