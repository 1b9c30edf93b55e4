"""The plain step computes what the stack computes, and a trace of kernels is counted right."""

import pytest
import torch

from course_lib.workloads.decode_stack import DecodeStack
from course_lib.workloads.kernel_trace import (
    KernelRun,
    breakdown,
    decode_stack_names,
    host_operations,
    in_order,
    kernel_trace,
)
from course_lib.workloads.plain_step import PlainStep

from .test_decode_stack import TINY, reference


@pytest.mark.parametrize(("batch", "context"), [(1, 5), (3, 40)])
def test_a_plain_step_equals_the_same_layers_in_float64(batch, context):
    torch.manual_seed(batch)
    stack = DecodeStack(TINY, 2, batch, context, device="cpu")
    for k_cache, v_cache in stack.caches:
        k_cache[:, :, context:], v_cache[:, :, context:] = float("nan"), float("nan")
    logits, expected = PlainStep(stack).step().double(), reference(stack)
    assert (logits - expected).norm() / expected.norm() < 0.02  # bf16 rounds at 4e-3, some ten times along the way


def test_runs_are_put_in_order_and_start_at_zero():
    assert in_order([("b", 107.0, 109.0), ("a", 100.0, 103.0)]) == [KernelRun("a", 0.0, 3.0), KernelRun("b", 7.0, 9.0)]


def test_a_breakdown_worked_out_by_hand():
    """Two kernels of kind a (3 and 5 us), one of kind b; idle from 3 to 4 and from 6 to 10; b overlaps with nothing."""
    runs = [KernelRun("a", 0.0, 3.0), KernelRun("b", 4.0, 6.0), KernelRun("a", 10.0, 15.0)]
    a, b = breakdown(runs)
    assert (a.name, a.count, a.mean_us, a.gap_us, a.total_us) == ("a", 2, 4.0, 2.0, 8.0)
    assert (b.name, b.count, b.mean_us, b.gap_us) == ("b", 1, 2.0, 1.0)
    assert [g.name for g in breakdown(runs, lambda place, name: "bcc"[place])] == ["c", "b"]
    overlapping = [KernelRun("a", 0.0, 10.0), KernelRun("b", 1.0, 2.0), KernelRun("c", 11.0, 12.0)]
    assert {g.name: g.gap_us for g in breakdown(overlapping)} == {"a": 0.0, "b": 0.0, "c": 1.0}


def test_products_of_a_step_are_named_by_their_place():
    layer = ["add_rms_norm_kernel", "skinny_product_kernel", "rope_append_kernel", "flash", "combine", "skinny_product_kernel",
             "add_rms_norm_kernel", "skinny_product_kernel", "silu_product_kernel", "skinny_product_kernel"]  # fmt: skip
    order = ["Memcpy DtoD", "fill", *layer, *layer, "add_rms_norm_kernel", "skinny_product_kernel"]
    names = decode_stack_names([KernelRun(name, i, i + 1) for i, name in enumerate(order)], layers=2)
    of_a_layer = ["add and norm", "q, k, v", "RoPE and append", "attention", "attention", "output", "add and norm", "gate and up",
                  "SwiGLU", "down"]  # fmt: skip
    assert names == ["copy in", "copy in", *of_a_layer, *of_a_layer, "add and norm", "head"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="says so only without a GPU")
def test_without_a_device_there_is_no_trace():
    with pytest.raises(RuntimeError, match="needs a CUDA device"):
        kernel_trace(lambda: None)


def test_operations_of_the_host_are_counted_and_nothing_reaches_stderr(capfd):
    a = torch.ones(8, 8)
    groups = {group.name: group for group in host_operations(lambda: [torch.mm(a, a) for _ in range(3)])}
    assert groups["aten::mm"].count == 3
    assert groups["aten::mm"].mean_us > 0
    assert capfd.readouterr().err == ""
