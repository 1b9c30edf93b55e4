"""Steps: every row of the tables of prefill, decode and weight precision, to the digits printed; and steps of several tokens."""

import pytest

from course_lib.roofline.models import LLAMA_3_8B, LLAMA_3_70B
from course_lib.roofline.steps import attention_pairs, chunk_step, decode_step, prefill_step
from course_lib.roofline.weight_bits import bits_per_weight, weight_memory_bytes

B8, B70 = LLAMA_3_8B, LLAMA_3_70B
PEAK, FP8_PEAK = 989.4e12, 1978.9e12
H100, H200, B200 = 3.35e12, 4.8e12, 8e12

PREFILL = [  # model, tokens, FLOPs, attention %, GB, FLOP/byte, ms on one H100 in bf16, and with everything in FP8
    (B8, 128, "1.79e+12", 0.2, 15.2, 118, 4.5, 2.3),
    (B8, 512, "7.22e+12", 1.0, 15.6, 462, 7.3, 3.6),
    (B8, 2048, "2.97e+13", 3.7, 17.4, 1704, 30.0, 15.0),
    (B8, 8192, "1.32e+14", 13.3, 24.7, 5348, 133.4, 66.7),
    (B8, 32768, "7.39e+14", 38.1, 53.7, 13768, 746.8, 373.4),
    (B70, 128, "1.75e+13", 0.1, 139.7, 126, 41.7, 20.9),
    (B70, 512, "7.04e+13", 0.5, 141.9, 497, 71.2, 35.6),
    (B70, 2048, "2.86e+14", 1.9, 150.4, 1901, 288.9, 144.5),
    (B70, 8192, "1.21e+15", 7.3, 184.6, 6550, 1222.4, 611.2),
    (B70, 32768, "5.89e+15", 23.9, 321.5, 18329, 5956.5, 2978.1),
]
DECODE = [  # model, batch, context, FLOPs, GB, KV %, FLOP/byte, ms on H100, on H200, tokens/s at the H100's floor
    (B8, 1, 1024, "1.55e+10", 15.1, 1, 1.0, 4.52, 3.15, 221),
    (B8, 1, 32768, "3.22e+10", 19.3, 22, 1.7, 5.76, 4.02, 174),
    (B8, 8, 2048, "1.29e+11", 17.2, 13, 7.5, 5.12, 3.57, 1562),
    (B8, 32, 2048, "5.15e+11", 23.6, 36, 21.8, 7.05, 4.92, 4542),
    (B8, 64, 2048, "1.03e+12", 32.2, 53, 32.0, 9.61, 6.71, 6659),
    (B8, 128, 2048, "2.06e+12", 49.4, 70, 41.7, 14.74, 10.29, 8683),
    (B8, 256, 2048, "4.12e+12", 83.8, 82, 49.2, 25.00, 17.45, 10238),
    (B70, 1, 1024, "1.42e+11", 139.3, 0, 1.0, 41.59, 29.03, 24),
    (B70, 1, 32768, "2.25e+11", 149.7, 7, 1.5, 44.70, 31.20, 22),
    (B70, 8, 2048, "1.15e+12", 144.4, 4, 8.0, 43.10, 30.08, 186),
    (B70, 32, 2048, "4.62e+12", 160.5, 13, 28.8, 47.91, 33.44, 668),
    (B70, 64, 2048, "9.24e+12", 182.0, 24, 50.8, 54.32, 37.91, 1178),
    (B70, 128, 2048, "1.85e+13", 224.9, 38, 82.2, 67.15, 46.86, 1906),
    (B70, 256, 2048, "3.70e+13", 310.9, 55, 118.9, 92.80, 64.77, 2759),
]
SYMMETRIC, WITH_ZEROS = bits_per_weight(128) / 8, bits_per_weight(128, zero_bits=4) / 8
PRECISION = [  # model, bytes of a weight, of the head's, GB, ms on H100, H200, B200; batch 1, context 1024, bf16 KV
    (B8, 2, 2, 15.14, 4.52, 3.15, 1.89),
    (B8, 1, 2, 8.16, 2.44, 1.70, 1.02),
    (B8, 1, 1, 7.64, 2.28, 1.59, 0.95),
    (B8, SYMMETRIC, 2, 4.78, 1.43, 1.00, 0.60),
    (B8, WITH_ZEROS, 2, 4.81, 1.44, 1.00, 0.60),
    (B70, 2, 2, 139.34, 41.59, 29.03, 17.42),
    (B70, 1, 2, 70.89, 21.16, 14.77, 8.86),
    (B70, 1, 1, 69.84, 20.85, 14.55, 8.73),
    (B70, SYMMETRIC, 2, 37.73, 11.26, 7.86, 4.72),
    (B70, WITH_ZEROS, 2, 38.00, 11.34, 7.92, 4.75),
]
RANKS = [  # bytes of a weight, ranks, bandwidth, ms of the 70B model's weights
    (2, 4, H100, 10.37), (2, 8, H100, 5.19), (1, 4, H100, 5.19), (1, 4, H200, 3.62), (1, 8, H200, 1.81),
]  # fmt: skip


@pytest.mark.parametrize(("model", "tokens", "flops", "share", "gb", "intensity", "bf16_ms", "fp8_ms"), PREFILL)
def test_prefill(model, tokens, flops, share, gb, intensity, bf16_ms, fp8_ms):
    step = prefill_step(model, tokens)
    fp8 = prefill_step(model, tokens, 1, kv_bytes=1, head_bytes=1, activation_bytes=1)
    attention = step.flops - 2 * model.linear_params * tokens - 2 * model.head_params
    assert f"{step.flops:.2e}" == flops
    assert round(100 * attention / step.flops, 1) == share
    assert round(step.bytes_moved / 1e9, 1) == gb
    assert round(step.flops_per_byte) == intensity
    assert round(1e3 * step.floor_seconds(PEAK, H100), 1) == bf16_ms
    assert round(1e3 * fp8.floor_seconds(FP8_PEAK, H100), 1) == fp8_ms


@pytest.mark.parametrize(("model", "batch", "context", "flops", "gb", "kv_share", "intensity", "h100", "h200", "rate"), DECODE)
def test_decode(model, batch, context, flops, gb, kv_share, intensity, h100, h200, rate):
    step = decode_step(model, batch, context)
    kv = batch * (context + 1) * model.kv_bytes_per_token()
    assert f"{step.flops:.2e}" == flops
    assert round(step.bytes_moved / 1e9, 1) == gb
    assert round(100 * kv / step.bytes_moved) == kv_share
    assert round(step.flops_per_byte, 1) == intensity
    assert round(1e3 * step.floor_seconds(PEAK, H100), 2) == h100
    assert round(1e3 * step.floor_seconds(PEAK, H200), 2) == h200
    assert round(batch / step.floor_seconds(PEAK, H100)) == rate


@pytest.mark.parametrize(("model", "weight_bytes", "head_bytes", "gb", "h100", "h200", "b200"), PRECISION)
def test_decode_with_smaller_weights(model, weight_bytes, head_bytes, gb, h100, h200, b200):
    step = decode_step(model, 1, 1024, weight_bytes, head_bytes=head_bytes)
    assert round(step.bytes_moved / 1e9, 2) == gb
    for bandwidth, milliseconds in ((H100, h100), (H200, h200), (B200, b200)):
        assert round(1e3 * step.floor_seconds(PEAK, bandwidth), 2) == milliseconds


@pytest.mark.parametrize(("weight_bytes", "ranks", "bandwidth", "milliseconds"), RANKS)
def test_weights_of_70b_on_several_ranks(weight_bytes, ranks, bandwidth, milliseconds):
    step = decode_step(B70, 1, 0, weight_bytes, head_bytes=weight_bytes, kv_bytes=0)
    assert round(1e3 * step.floor_seconds(PEAK, bandwidth, ranks), 2) == milliseconds


@pytest.mark.parametrize(("new", "context"), [(1, 0), (3, 4), (1, 2048), (7, 0), (64, 1000)])
def test_pairs_are_those_of_the_mask(new, context):
    """Query i stands at position context + i and sees every key up to there."""
    mask = [[key <= context + query for key in range(context + new)] for query in range(new)]
    assert attention_pairs(new, context) == sum(map(sum, mask))


def test_a_chunk_of_one_token_is_a_decode_step_and_its_own_key():
    chunk, decode = chunk_step(B8, 1, 2048, batch=32), decode_step(B8, 32, 2048)
    assert chunk.flops - decode.flops == 32 * 4 * 32 * 4096  # the pair of a token with itself
    assert chunk.bytes_moved - decode.bytes_moved == 32 * 8 * 32 * 4096  # the residual stream, which a decode step leaves out
    assert chunk.allreduce_bytes == decode.allreduce_bytes


def test_a_chunk_without_context_is_a_prefill_and_half_a_diagonal():
    chunk, prefill = chunk_step(B8, 2048, 0), prefill_step(B8, 2048)
    assert chunk.flops - prefill.flops == 2 * 32 * 4096 * 2048
    assert chunk.bytes_moved == prefill.bytes_moved


@pytest.mark.parametrize("size", [1, 7, 64, 100])
def test_chunks_do_the_arithmetic_of_the_whole_prompt_and_read_the_weights_again(size):
    """Each chunk but one also runs the head in vain; apart from that, no FLOP is added and none is saved."""
    prompt = 700
    chunks = [chunk_step(B8, min(size, prompt - done), done) for done in range(0, prompt, size)]
    whole, again = chunk_step(B8, prompt, 0), len(chunks) - 1
    assert sum(c.flops for c in chunks) == whole.flops + again * 2 * B8.head_params
    weights = 2 * (B8.linear_params + B8.head_params)
    cache_again = sum(done * B8.kv_bytes_per_token() for done in range(0, prompt, size))
    assert sum(c.bytes_moved for c in chunks) == whole.bytes_moved + again * weights + cache_again


def test_kv_of_one_byte_halves_the_cache_alone():
    wide, narrow = (decode_step(B8, 8, 2047, kv_bytes=kv) for kv in (2, 1))
    assert wide.bytes_moved - narrow.bytes_moved == 8 * 2048 * 131_072 / 2
    assert wide.flops == narrow.flops


MEMORY = [  # GB: bf16, FP8 all, FP8 with bf16 embeddings and head, INT4 of 4.125, 4.156 and 4.25 bits
    (B8, 16.06, 8.03, 9.08, 5.70, 5.73, 5.81),
    (B70, 141.11, 70.55, 72.66, 39.50, 39.77, 40.57),
]  # fmt: skip


@pytest.mark.parametrize(("model", "bf16", "fp8_all", "fp8", *("symmetric", "zeros4", "zeros16")), MEMORY)
def test_memory_of_quantised_weights(model, bf16, fp8_all, fp8, symmetric, zeros4, zeros16):
    kinds = [(16, 16), (8, 8), (8, 16), *((bits_per_weight(128, zero_bits=z), 16) for z in (0, 4, 16))]
    gb = [round(weight_memory_bytes(model, linear, other) / 1e9, 2) for linear, other in kinds]
    assert gb == [bf16, fp8_all, fp8, symmetric, zeros4, zeros16]
