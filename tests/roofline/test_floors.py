"""Latency floors equal values worked out by hand, and every edge of the decision falls on the side that the text says."""

import math

import pytest
import torch

from course_lib.hardware import spec
from course_lib.roofline import LLAMA_3_8B, LLAMA_3_70B, decode_step, latency_floors, prefill_step, step_floor_ms

ALPHA_US = 5.0


def column(*values):
    return torch.tensor(values, dtype=torch.float64)


def floor_ms(step, model, gpu_key, precision="bf16", ranks=1, alpha_us=ALPHA_US):
    gpu = spec(gpu_key)
    table = {"flops": column(step.flops), "bytes": column(step.bytes_moved)}
    table["allreduce_bytes"] = column(step.allreduce_bytes)
    chip = {"peak_tflops": column(gpu.peak_tflops(precision)), "hbm_gb_per_s": column(gpu.hbm_gb_per_s)}
    chip |= {"link_gb_per_s": column(gpu.link_gb_per_s / 2), "alpha_us": column(alpha_us)}
    return float(step_floor_ms(table, column(model.layers), chip, column(ranks))[0])


@pytest.mark.parametrize(
    ("model", "batch", "context", "gpu", "milliseconds"),
    [
        (LLAMA_3_8B, 1, 1024, "h100-sxm", 4.52),
        (LLAMA_3_8B, 32, 2048, "h100-sxm", 7.05),
        (LLAMA_3_8B, 256, 2048, "h200-sxm", 17.45),
        (LLAMA_3_70B, 1, 1024, "b200-sxm", 17.42),
        (LLAMA_3_70B, 32, 2048, "h100-sxm", 47.91),
        (LLAMA_3_70B, 32, 2048, "h200-sxm", 33.44),
    ],
)
def test_decode_on_one_gpu(model, batch, context, gpu, milliseconds):
    assert round(floor_ms(decode_step(model, batch, context), model, gpu), 2) == milliseconds


@pytest.mark.parametrize(
    ("model", "tokens", "bf16", "fp8"),
    [(LLAMA_3_8B, 128, 4.5, 2.4), (LLAMA_3_8B, 2048, 30.0, 15.0), (LLAMA_3_70B, 2048, 288.9, 144.5)],
)
def test_prefill_on_one_h100(model, tokens, bf16, fp8):
    """At 128 tokens memory decides. FP8 there: 6.98 + 1.05 (bf16 head) + 0.02 + 0.13 = 8.18 GB, 2.4 ms."""
    assert round(floor_ms(prefill_step(model, tokens), model, "h100-sxm"), 1) == bf16
    fast = floor_ms(prefill_step(model, tokens, weight_bytes=1), model, "h100-sxm", "fp8")
    assert round(fast, 1) == fp8


def test_allreduces_of_70b_on_four_h100():
    """Batch 32: a message of 524,288 B takes 2 * 3/4 * 524,288 / 450e9 = 1.75 us beside 5 us; 160 of 6.75 us are 1.08 ms."""
    step = decode_step(LLAMA_3_70B, 32, 2048)
    with_them = floor_ms(step, LLAMA_3_70B, "h100-sxm", ranks=4)
    assert with_them == pytest.approx(47.91 / 4 + 1.08, abs=0.01)
    # prefill of 2048 tokens: 160 times (111.8 + 5) us
    prefill = prefill_step(LLAMA_3_70B, 2048)
    assert floor_ms(prefill, LLAMA_3_70B, "h100-sxm", ranks=4) == pytest.approx(288.9 / 4 + 18.69, abs=0.05)


def test_one_rank_waits_for_nobody():
    step = decode_step(LLAMA_3_8B, 1, 1024)
    assert floor_ms(step, LLAMA_3_8B, "h100-sxm", alpha_us=1e6) == floor_ms(step, LLAMA_3_8B, "h100-sxm", alpha_us=0)


def table(decode_gb, resident_gb, peak_tflops=1000.0, ranks=1):
    step = {"flops": column(1e9), "bytes": column(decode_gb * 1e9), "allreduce_bytes": column(0.0)}
    model = {"layers": column(1), "resident_bytes": column(resident_gb * 1e9), "prefill": step, "decode": step}
    gpu = {"peak_tflops": column(peak_tflops), "hbm_gb_per_s": column(2000.0), "hbm_gb": column(80.0)}
    gpu |= {"link_gb_per_s": column(450.0), "alpha_us": column(0.0)}
    return latency_floors(model, gpu, column(ranks), 40.0)


@pytest.mark.parametrize(
    ("decode_gb", "resident_gb", "ranks", "meets"),
    [
        (80.00, 1, 1, True),  # 80 GB at 2000 GB/s: 40.00 ms
        (80.02, 1, 1, False),  # 40.01 ms
        (1, 80.00, 1, True),
        (1, 80.01, 1, False),
        (160.00, 160.00, 2, True),
        (160.04, 160.00, 2, False),
        (160.00, 160.02, 2, False),
    ],
)
def test_equality_meets_the_target_and_fits(decode_gb, resident_gb, ranks, meets):
    assert table(decode_gb, resident_gb, ranks=ranks)["meets_itl"].tolist() == [meets]


def test_a_missing_precision_gives_nan_and_meets_nothing():
    floors = table(1, 1, peak_tflops=math.nan)
    assert floors["ttft_ms"].isnan().all()
    assert floors["tpot_ms"].isnan().all()
    assert floors["meets_itl"].tolist() == [False]
    assert floors["meets_itl"].dtype is torch.bool
