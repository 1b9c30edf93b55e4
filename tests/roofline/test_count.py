"""The count of a step in parts, by hand and against the whole step. What torch counts: tests/workloads/test_meta_decoder.py."""

import pytest

from course_lib.roofline import LLAMA_3_8B, LLAMA_3_70B, chunk_step, count_step

TINY = {"layers": 2, "hidden": 8, "mlp_hidden": 10, "heads": 3, "kv_heads": 1, "head_dim": 4, "vocab": 5}


def test_a_tiny_chunk_by_hand():
    """A layer: q 8 x 12, k and v 8 x 4 each, out 12 x 8, MLP 3 x 8 x 10: 496 weights. Two of them 992, the head 40.

    2 sequences, 3 new tokens after 4: 6 tokens; pairs 5 + 6 + 7 = 18. KV of a token: 2 * 2 * 4 values.
    """
    counts = count_step(TINY, new_tokens=3, context=4, batch=2, weight_bytes=1, kv_bytes=2)
    assert counts["linear_flops"] == 2 * 992 * 6 + 2 * 40 * 2
    assert counts["attention_flops"] == 2 * 4 * 2 * 12 * 18
    assert counts["bytes"] == 992 + 2 * 40 + 2 * 7 * 16 * 2 + 8 * 2 * 8 * 6


def test_one_token_of_llama_3_8b_after_2048():
    counts = count_step(LLAMA_3_8B.numbers(), 1, 2048, 1, 2, 2)
    assert f"{counts['linear_flops']:.3e}" == "1.501e+10"
    assert f"{counts['attention_flops']:.2e}" == "1.07e+09"
    assert round(counts["bytes"] / 1e9, 2) == 15.28


@pytest.mark.parametrize("model", [LLAMA_3_8B, LLAMA_3_70B])
@pytest.mark.parametrize(
    ("new", "context", "batch", "weight_bytes", "kv_bytes"),
    [(1, 2048, 32, 2, 2), (300, 0, 1, 1, 2), (64, 900, 3, 0.515625, 1)],
)
def test_the_parts_make_the_whole(model, new, context, batch, weight_bytes, kv_bytes):
    counts = count_step(model.numbers(), new, context, batch, weight_bytes, kv_bytes)
    step = chunk_step(model, new, context, batch, weight_bytes, kv_bytes=kv_bytes)
    assert counts["linear_flops"] + counts["attention_flops"] == step.flops
    assert counts["bytes"] == step.bytes_moved
