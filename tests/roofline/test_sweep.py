"""Sweep predictions against values that can be worked out on paper, and against the library's kernel-by-kernel prediction."""

import math

import pytest
import torch

from course_lib.hardware import spec
from course_lib.roofline import LLAMA_3_8B, LLAMA_3_70B, context_limit
from course_lib.roofline.sweep import context_limits, curve_seconds, predict_sweep


def f64(*values):
    return torch.tensor(values, dtype=torch.float64)


CURVE = {"bytes": f64(1e4, 1e6, 1e8), "seconds": f64(2e-6, 4e-6, 40e-6)}


@pytest.mark.parametrize(("size", "seconds"), [
    (0, 2e-6), (1, 2e-6), (1e4, 2e-6),  # nothing is faster than the first point
    (1e5, math.sqrt(2e-6 * 4e-6)), (1e7, math.sqrt(4e-6 * 40e-6)),  # half way on log axes is the geometric mean
    (1e6, 4e-6), (1e8, 40e-6),
    (1e9, 400e-6),  # the last rate, 2500 GB/s, holds
])  # fmt: skip
def test_a_size_is_looked_up_on_the_curve(size, seconds):
    assert float(curve_seconds(CURVE, f64(size))[0]) == pytest.approx(seconds, rel=1e-12)


def test_a_curve_of_one_point_is_a_start_and_a_rate():
    single = {"bytes": f64(1e6), "seconds": f64(1e-6)}
    assert curve_seconds(single, f64(0, 1e6, 3e6)).tolist() == pytest.approx([1e-6, 1e-6, 3e-6])


def test_a_step_worked_out_on_paper():
    """One kernel waits for memory (40 us, twice), one for arithmetic (1e9 FLOPs at 10 TFLOP/s: 100 us, three times)."""
    kernels = {"batch": f64(8), "flops": f64(1e6, 1e9)[None], "bytes": f64(1e8, 1e4)[None], "count": f64(2, 3)[None]}
    limits = {"weights": f64(7504658432), "kv_bytes": f64(131072), "group": f64(4), "ridge": f64(295.34)}
    got = predict_sweep(kernels, CURVE, 10.0, limits)
    assert float(got["step_seconds"]) == pytest.approx(380e-6)
    assert float(got["floor_seconds"]) == pytest.approx(max(3.002e9 / 1e13, 2.0003e8 / 2.5e12))
    assert float(got["gap"]) == pytest.approx(380e-6 / 300.2e-6)
    assert float(got["tokens_per_second"]) == pytest.approx(8 / 380e-6)
    assert float(got["tokens_per_second_per_user"]) == pytest.approx(1 / 380e-6)


@pytest.mark.parametrize(("model", "gpu", "tokens"), [
    (LLAMA_3_8B, "h100-sxm", 393), (LLAMA_3_8B, "h200-sxm", 567),
    (LLAMA_3_70B, "h100-sxm", 1476), (LLAMA_3_70B, "h200-sxm", 2141),
])  # fmt: skip
def test_context_limits_are_the_golden_ones(model, gpu, tokens):
    sheet = spec(gpu)
    limit = context_limits(
        f64(model.linear_params + model.head_params), f64(model.kv_bytes_per_token()), f64(model.heads / model.kv_heads),
        f64(sheet.bf16_tflops * 1e3 / sheet.hbm_gb_per_s),
    )  # fmt: skip
    assert round(float(limit)) == tokens
    assert float(limit) == pytest.approx(context_limit(model, sheet.ridge_flops_per_byte()))  # the same, of plain numbers


@pytest.mark.parametrize(("group", "ridge", "finite"), [(8.0, 8.0, False), (8.0, 8.01, True), (242.0, 206.1, False)])
def test_attention_that_reaches_the_ridge_alone_has_no_limit(group, ridge, finite):
    assert math.isfinite(float(context_limits(f64(1e9), f64(1e5), f64(group), f64(ridge)))) is finite


def test_tables_of_a_stack_say_what_its_kernels_say_one_by_one():
    from course_lib.exercises.phase1.sweep_cases import stack_kernels
    from course_lib.roofline.kernels import decode_kernels

    batches, context = (1, 8, 64), 1000
    limits = {name: f64(1.0) for name in ("weights", "kv_bytes", "group", "ridge")}
    tables = predict_sweep(stack_kernels(LLAMA_3_8B, batches, context), CURVE, 800.0, limits)["step_seconds"]
    for batch, seconds in zip(batches, tables.tolist(), strict=True):
        each = [(k.count, k.flops / 800e12, float(curve_seconds(CURVE, f64(k.bytes_moved))))
                for k in decode_kernels(LLAMA_3_8B, batch, context)]  # fmt: skip
        assert seconds == pytest.approx(sum(count * max(compute, memory) for count, compute, memory in each), rel=1e-9)
