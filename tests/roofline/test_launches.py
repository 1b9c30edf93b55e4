"""The third regime in numbers that can be redone on paper."""

import random

import pytest

from course_lib.roofline import decode_step
from course_lib.roofline.launches import (
    QWEN3_0_6B,
    Launched,
    eager_limit_seconds,
    eager_seconds,
    graph_seconds,
    hiding_bytes,
    launch_bound,
    queue,
    tokens_per_second_lost,
)


def test_a_queue_worked_out_by_hand():
    assert queue([2.0, 9.0, 1.0, 1.0], 5.0) == [
        Launched(5.0, 5.0, 7.0),
        Launched(10.0, 10.0, 19.0),
        Launched(15.0, 19.0, 20.0),  # its launch was hidden behind the long kernel
        Launched(20.0, 20.0, 21.0),
    ]
    assert eager_seconds([2.0, 9.0, 1.0, 1.0], 5.0) == 21.0
    assert eager_limit_seconds([2.0, 9.0, 1.0, 1.0], 5.0) == 20.0
    assert eager_seconds([], 5.0) == 0.0


@pytest.mark.parametrize(("kernel", "exact"), [(3.0, 100 * 4.0 + 3.0), (4.0, 404.0), (5.0, 4.0 + 100 * 5.0)])
def test_equal_kernels_are_one_launch_or_one_kernel_above_the_limit(kernel, exact):
    kernels = [kernel] * 100
    assert eager_seconds(kernels, 4.0) == exact
    assert exact - eager_limit_seconds(kernels, 4.0) == min(kernel, 4.0)


def test_the_queue_is_the_longest_way_through_it():
    """The largest, over k, of: launch k + 1 kernels, then run kernel k and all that follow."""
    draw = random.Random(0)
    for _ in range(50):
        kernels = [draw.randrange(0, 12) for _ in range(draw.randrange(1, 9))]
        ways = [(k + 1) * 5 + sum(kernels[k:]) for k in range(len(kernels))]
        assert eager_seconds(kernels, 5) == max(ways)
        assert eager_limit_seconds(kernels, 5) <= max(ways)


def test_who_is_launch_bound():
    assert launch_bound([3.0] * 100, 4.0)
    assert not launch_bound([4.0] * 100, 4.0)
    assert not launch_bound([5.0] * 100, 4.0)


def test_a_graph_pays_one_launch_and_the_gaps():
    assert graph_seconds([2.0, 2.0, 2.0], 10.0) == 16.0
    assert graph_seconds([2.0, 2.0, 2.0], 10.0, gap_seconds=0.5) == 17.0
    assert graph_seconds([], 10.0, gap_seconds=0.5) == 10.0


def test_bytes_that_hide_a_launch():
    assert hiding_bytes(5e-6, 3350) == pytest.approx(16.75e6)
    assert hiding_bytes(4e-6, 4800) == pytest.approx(19.2e6)


def test_tokens_lost():
    assert tokens_per_second_lost(1, 4e-3, 1e-3) == pytest.approx(750)
    assert tokens_per_second_lost(8, 4e-3, 1e-3) == pytest.approx(6000)
    assert tokens_per_second_lost(1, 1e-3, 1e-3) == 0


def test_the_small_model_by_hand():
    layer = 1024 * 4096 + 2048 * 1024 + 3 * 1024 * 3072
    assert QWEN3_0_6B.linear_params == 28 * layer == 440_401_920
    step = decode_step(QWEN3_0_6B, batch=1, context=1024)
    assert step.bytes_moved == 2 * (440_401_920 + 151936 * 1024) + 1025 * 2 * 28 * 8 * 128 * 2 == 1_309_523_968
    assert step.bytes_moved / 3350e9 == pytest.approx(0.391e-3, rel=1e-3)
