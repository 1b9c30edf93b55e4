"""The third regime on a device: plain torch does the same work, a trace names its kernels, a small model is launch-bound."""

import time

import pytest
import torch

from course_lib.roofline.launches import QWEN3_0_6B
from course_lib.workloads.decode_stack import DecodeStack
from course_lib.workloads.kernel_trace import breakdown, decode_stack_names, kernel_trace
from course_lib.workloads.plain_step import PlainStep

pytestmark = pytest.mark.gpu
LAYERS = 6
SMALL = QWEN3_0_6B.numbers() | {"vocab": 4096}


@pytest.fixture(scope="module")
def stack():
    return DecodeStack(SMALL, LAYERS, 1, 1024)


def test_plain_torch_gives_the_stacks_logits(stack):
    ours, plain = stack.step().double(), PlainStep(stack).step().double()
    assert (ours - plain).norm() / ours.norm() < 0.03  # bf16 rounds at 4e-3, in other places


def test_a_trace_has_every_kernel_of_the_step(stack):
    runs = kernel_trace(stack.step)
    groups = {group.name: group for group in breakdown(runs, lambda place, _: decode_stack_names(runs, LAYERS)[place])}
    for name in ("q, k, v", "output", "gate and up", "down", "RoPE and append", "SwiGLU"):
        assert groups[name].count == LAYERS
    assert groups["add and norm"].count == 2 * LAYERS + 1
    assert groups["head"].count == 1
    assert groups["attention"].count % LAYERS == 0


def test_a_graph_has_the_same_kernels_and_waits_less_between_them(stack):
    eager, graph = kernel_trace(stack.step), kernel_trace(stack.graph())
    assert len(eager) == len(graph)

    def waits(runs):
        return sum(group.gap_us * group.count for group in breakdown(runs))

    assert waits(graph) < waits(eager) / 2


def test_a_small_model_is_launch_bound(stack):
    def milliseconds(call):
        call()
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(20):
            call()
        torch.cuda.synchronize()
        return (time.perf_counter() - start) / 20 * 1e3

    assert milliseconds(stack.step) > 1.5 * milliseconds(stack.graph())
