"""Every formula equals a golden value worked out elsewhere (data sheets: hardware/gpus.toml)."""

import pytest
import torch

from course_lib.hardware import spec
from course_lib.roofline.intensity import product_counts
from course_lib.roofline.kv import kv_bytes_per_layer, kv_saving
from course_lib.roofline.models import DEEPSEEK_67B, DEEPSEEK_V2, DEEPSEEK_V3, LLAMA_2_7B, LLAMA_3_8B, LLAMA_3_70B
from course_lib.roofline.ridge import ridge_points
from course_lib.roofline.speculation import expected_tokens
from course_lib.roofline.steps import decode_step
from course_lib.roofline.transfer import kv_transfer_seconds
from course_lib.roofline.weight_bits import bits_per_weight

H100, H200 = spec("h100-sxm"), spec("h200-sxm")


def ridge(gpu, precision):
    peak = torch.tensor([[gpu.peak_tflops(precision)]], dtype=torch.float64)
    return float(ridge_points(peak, torch.tensor([gpu.hbm_gb_per_s], dtype=torch.float64)))


def weights_only_ms(gpu):
    """A decode step without a KV cache: what is left are the weights that are streamed."""
    step = decode_step(LLAMA_3_8B, 1, 0, kv_bytes=0)
    return 1e3 * step.floor_seconds(gpu.bf16_tflops * 1e12, gpu.hbm_gb_per_s * 1e9)


def latent_saving(latent_bytes, head_bytes):
    """DeepSeek-V2's cache against that of DeepSeek-67B."""
    return kv_saving(DEEPSEEK_V2.kv_bytes_per_token(latent_bytes), DEEPSEEK_67B.kv_bytes_per_token(head_bytes))


def transfer_ms(gb_per_s):
    return 1e3 * kv_transfer_seconds(2048, LLAMA_3_70B.kv_bytes_per_token(), gb_per_s * 1e9)


GOLD = {
    "ridge_h100_bf16": 295.34, "ridge_h200_bf16": 206.13, "ridge_h100_fp8": 590.72, "ridge_h200_fp8": 412.27,
    "kv_llama2_7b": 524288, "kv_llama3_8b": 131072, "kv_llama3_70b": 327680, "kv_dsv3_bf16": 70272,
    "params_llama3_8b": 8030261248, "params_llama3_70b": 70553706496,
    "example_prefill_flops": 8589934592, "example_prefill_bytes": 37748736,
    "tpot_floor_8b_bf16_h100_ms": 4.48, "tpot_floor_8b_bf16_h200_ms": 3.13,
    "spec_E_0.7_4": 2.7731, "bits_g128_sym": 4.125, "bits_g128_zp4": 4.15625, "bits_g128_zp16": 4.25,
    "kv_xfer_70b_2048_nvlink4_ms": 1.491, "kv_xfer_70b_2048_400g_ms": 13.42,
    "mla_vs_gqa8_layer": 0.71875, "dsv2_vs_67b_6bit": 0.93339, "dsv2_vs_67b_equal_bits": 0.82237,
}  # fmt: skip
COMPUTED = {
    "ridge_h100_bf16": ridge(H100, "bf16"), "ridge_h200_bf16": ridge(H200, "bf16"),
    "ridge_h100_fp8": ridge(H100, "fp8"), "ridge_h200_fp8": ridge(H200, "fp8"),
    "kv_llama2_7b": LLAMA_2_7B.kv_bytes_per_token(), "kv_llama3_8b": LLAMA_3_8B.kv_bytes_per_token(),
    "kv_llama3_70b": LLAMA_3_70B.kv_bytes_per_token(), "kv_dsv3_bf16": DEEPSEEK_V3.kv_bytes_per_token(),
    "params_llama3_8b": LLAMA_3_8B.params, "params_llama3_70b": LLAMA_3_70B.params,
    "example_prefill_flops": product_counts(8 * 32, 4096, 4096)[0],
    "example_prefill_bytes": product_counts(8 * 32, 4096, 4096)[1],
    "tpot_floor_8b_bf16_h100_ms": weights_only_ms(H100), "tpot_floor_8b_bf16_h200_ms": weights_only_ms(H200),
    "spec_E_0.7_4": expected_tokens(0.7, 4),
    "bits_g128_sym": bits_per_weight(128), "bits_g128_zp4": bits_per_weight(128, zero_bits=4),
    "bits_g128_zp16": bits_per_weight(128, zero_bits=16),
    "kv_xfer_70b_2048_nvlink4_ms": transfer_ms(450), "kv_xfer_70b_2048_400g_ms": transfer_ms(50),
    "mla_vs_gqa8_layer": kv_saving(kv_bytes_per_layer(DEEPSEEK_V3), kv_bytes_per_layer(LLAMA_3_70B)),
    "dsv2_vs_67b_6bit": latent_saving(6 / 8, 2), "dsv2_vs_67b_equal_bits": latent_saving(2, 2),
}  # fmt: skip


@pytest.mark.parametrize("name", GOLD)
def test_a_formula_equals_its_golden_value_to_the_last_digit_printed(name):
    gold = GOLD[name]
    digits = len(str(gold).partition(".")[2])
    half_a_digit = 0.5 * 10.0**-digits if digits else 0.0  # a ridge of 206.125 may be printed as 206.13
    assert abs(COMPUTED[name] - gold) <= half_a_digit * (1 + 1e-6)


def test_every_formula_has_a_golden_value():
    assert COMPUTED.keys() == GOLD.keys()
