"""FLOPs and bytes of Llama-3 steps equal values worked out by hand."""

import pytest

from course_lib.roofline import LLAMA_3_8B, LLAMA_3_70B, decode_step, prefill_step, resident_bytes

# printed digits: 3 significant figures of FLOPs, one decimal of GB
PREFILL = [
    (LLAMA_3_8B, 128, 1.79e12, 15.2),
    (LLAMA_3_8B, 2048, 2.97e13, 17.4),
    (LLAMA_3_8B, 32768, 7.39e14, 53.7),
    (LLAMA_3_70B, 512, 7.04e13, 141.9),
    (LLAMA_3_70B, 2048, 2.86e14, 150.4),
    (LLAMA_3_70B, 32768, 5.89e15, 321.5),
]
DECODE = [
    (LLAMA_3_8B, 1, 1024, 1.55e10, 15.1),
    (LLAMA_3_8B, 32, 2048, 5.15e11, 23.6),
    (LLAMA_3_8B, 256, 2048, 4.12e12, 83.8),
    (LLAMA_3_70B, 1, 32768, 2.25e11, 149.7),
    (LLAMA_3_70B, 32, 2048, 4.62e12, 160.5),
    (LLAMA_3_70B, 128, 2048, 1.85e13, 224.9),
]


def test_parameters_add_up_to_the_published_counts():
    assert LLAMA_3_8B.linear_params == 6_979_321_856
    assert LLAMA_3_70B.linear_params == 68_451_041_280
    assert LLAMA_3_8B.head_params == 525_336_576
    assert LLAMA_3_70B.head_params == 1_050_673_152
    assert LLAMA_3_8B.params == 8_030_261_248
    assert LLAMA_3_70B.params == 70_553_706_496


def test_kv_bytes_per_token():
    assert LLAMA_3_8B.kv_bytes_per_token() == 131_072
    assert LLAMA_3_70B.kv_bytes_per_token() == 327_680
    assert LLAMA_3_70B.kv_bytes_per_token(1) == 163_840


@pytest.mark.parametrize(("model", "tokens", "flops", "gigabytes"), PREFILL)
def test_prefill(model, tokens, flops, gigabytes):
    step = prefill_step(model, tokens)
    assert float(f"{step.flops:.2e}") == flops
    assert round(step.bytes_moved / 1e9, 1) == gigabytes
    assert step.allreduce_bytes == tokens * model.hidden * 2


@pytest.mark.parametrize(("model", "batch", "context", "flops", "gigabytes"), DECODE)
def test_decode(model, batch, context, flops, gigabytes):
    step = decode_step(model, batch, context)
    assert float(f"{step.flops:.2e}") == flops
    assert round(step.bytes_moved / 1e9, 1) == gigabytes
    assert step.allreduce_bytes == batch * model.hidden * 2


def test_fp8_halves_the_layers_and_leaves_the_head_and_the_cache():
    assert round(decode_step(LLAMA_3_8B, 1, 1024, weight_bytes=1).bytes_moved / 1e9, 2) == 8.16
    assert round(decode_step(LLAMA_3_70B, 1, 1024, weight_bytes=1).bytes_moved / 1e9, 2) == 70.89


def test_resident_bytes_are_the_weights_and_the_cache():
    assert round(resident_bytes(LLAMA_3_8B, 0) / 1e9, 2) == 16.06
    assert round(resident_bytes(LLAMA_3_70B, 0) / 1e9, 1) == 141.1
    assert round(resident_bytes(LLAMA_3_70B, 0, weight_bytes=1) / 1e9, 2) == 72.66  # norms stay bf16
    assert resident_bytes(LLAMA_3_8B, 3) - resident_bytes(LLAMA_3_8B, 0) == 3 * 131_072
