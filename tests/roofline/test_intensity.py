"""Intensity against batch: every row of the table, the thresholds, and the limits that batching tends to."""

import pytest

from course_lib.roofline.intensity import (
    attention_intensity_limit,
    context_limit,
    decode_intensity,
    intensity_limit,
    product_counts,
    product_intensity,
    square_token_threshold,
    token_threshold,
    usable_peak_share,
    weights_intensity,
)
from course_lib.roofline.models import LLAMA_2_7B, LLAMA_3_8B, LLAMA_3_70B
from course_lib.roofline.steps import decode_step

H100, H200 = 989.4e12 / 3.35e12, 989.4e12 / 4.8e12
FP8_H100, FP8_H200 = 1978.9e12 / 3.35e12, 1978.9e12 / 4.8e12
BATCH = [  # batch; FLOP/byte of 8B at 1k and 8k, of 70B at 1k and 8k; usable % of the H100's bf16 peak, weights only
    (1, 1.0, 1.2, 1.0, 1.1, 0.3),
    (4, 4.0, 4.0, 4.0, 4.3, 1.4),
    (16, 14.5, 9.6, 15.7, 14.1, 5.4),
    (32, 25.8, 12.5, 30.3, 22.8, 10.8),
    (64, 42.2, 14.8, 56.5, 33.0, 21.7),
    (128, 61.8, 16.2, 99.7, 42.6, 43.3),
    (256, 80.6, 17.0, 161.3, 49.7, 86.7),
    (512, 95.1, 17.5, 233.4, 54.3, 100.0),
]


@pytest.mark.parametrize(("batch", "small_1k", "small_8k", "large_1k", "large_8k", "share"), BATCH)
def test_intensity_against_batch(batch, small_1k, small_8k, large_1k, large_8k, share):
    values = [decode_intensity(model, batch, context) for model in (LLAMA_3_8B, LLAMA_3_70B) for context in (1024, 8192)]
    assert [round(value, 1) for value in values] == [small_1k, small_8k, large_1k, large_8k]
    assert weights_intensity(batch) == batch
    assert round(100 * usable_peak_share(weights_intensity(batch), H100), 1) == share


def test_the_example_of_256_tokens_lies_between_two_ridges():
    assert product_counts(8 * 32, 4096, 4096) == (8_589_934_592, 37_748_736)
    assert round(product_intensity(256, 4096, 4096), 1) == 227.6
    assert H200 < product_intensity(256, 4096, 4096) < H100
    flops, moved = product_counts(256, 4096, 4096)
    assert [round(1e6 * t, 2) for t in (flops / 989.4e12, moved / 3.35e12, moved / 4.8e12)] == [8.68, 11.27, 7.86]


@pytest.mark.parametrize(
    ("ridge", "weight_bytes", "tokens"),
    [(H100, 2, 295), (H200, 2, 206), (FP8_H100, 1, 295), (FP8_H200, 1, 206), (H100, 4.125 / 8, 76), (H200, 4.125 / 8, 53)],
)
def test_token_threshold(ridge, weight_bytes, tokens):
    threshold = token_threshold(ridge, weight_bytes)
    assert round(threshold) == tokens
    assert weights_intensity(threshold, weight_bytes) == pytest.approx(ridge)


@pytest.mark.parametrize(
    ("ridge", "hidden", "tokens"), [(H100, 4096, 345), (H100, 8192, 318), (H200, 4096, 229), (H200, 8192, 217)]
)
def test_token_threshold_with_activations(ridge, hidden, tokens):
    threshold = square_token_threshold(ridge, hidden)
    assert round(threshold) == tokens
    assert product_intensity(threshold, hidden, hidden) == pytest.approx(ridge)
    assert product_intensity(threshold - 1, hidden, hidden) < ridge < product_intensity(threshold + 1, hidden, hidden)


def test_a_narrow_product_never_reaches_the_ridge():
    assert product_intensity(10**9, 590, 590) < H100
    with pytest.raises(ValueError, match=r"stays below 295 FLOP/byte, the ridge is 295\.3; use a width above 591"):
        square_token_threshold(H100, 590)
    assert square_token_threshold(H100, 591) > 1e5


@pytest.mark.parametrize(
    ("model", "ridge", "tokens"),
    [(LLAMA_3_8B, H100, 393), (LLAMA_3_70B, H100, 1476), (LLAMA_3_8B, H200, 567), (LLAMA_3_70B, H200, 2141)],
)
def test_context_limit(model, ridge, tokens):
    assert round(context_limit(model, ridge)) == tokens


@pytest.mark.parametrize("model", [LLAMA_3_8B, LLAMA_3_70B, LLAMA_2_7B])
@pytest.mark.parametrize("ridge", [H100, H200])
def test_at_the_context_limit_batching_meets_the_ridge_and_beyond_it_never(model, ridge):
    limit = context_limit(model, ridge)
    assert intensity_limit(model, limit) == pytest.approx(ridge)
    assert decode_intensity(model, 10**12, limit - 0.01) > ridge > decode_intensity(model, 10**12, limit)
    assert decode_step(model, 10**12, int(limit) + 1).flops_per_byte < ridge


def test_fp8_keys_and_values_about_double_the_context_limit():
    assert context_limit(LLAMA_3_8B, H100, 1) / context_limit(LLAMA_3_8B, H100) == pytest.approx(2, rel=0.03)


@pytest.mark.parametrize(("context", "kv_bytes"), [(1024, 2), (8192, 2), (8192, 1)])
def test_intensity_grows_with_the_batch_towards_its_limit(context, kv_bytes):
    values = [decode_intensity(LLAMA_3_8B, 2**n, context, kv_bytes=kv_bytes) for n in range(40)]
    limit = intensity_limit(LLAMA_3_8B, context, kv_bytes)
    assert values == sorted(values)
    assert values[-1] < limit
    assert values[-1] == pytest.approx(limit, rel=1e-8)


def test_intensity_falls_with_the_context_once_keys_and_values_do_less_with_a_byte():
    values = [decode_intensity(LLAMA_3_8B, 64, 2**n) for n in range(18)]
    assert values == sorted(values, reverse=True)
    assert values[-1] > attention_intensity_limit(LLAMA_3_8B) == 4


def test_no_context_is_too_long_where_attention_alone_reaches_the_ridge():
    assert context_limit(LLAMA_3_70B, 8.0) == float("inf")
    assert context_limit(LLAMA_3_70B, 8.1) < float("inf")


def test_one_token_uses_a_third_of_a_percent_of_the_peak():
    assert round(100 * usable_peak_share(1, H100), 4) == 0.3386
    assert usable_peak_share(1000, H100) == 1
