"""KV bytes: every row of the table of models, what ranks share and what they cannot, and how little an L2 cache holds."""

import pytest

from course_lib.roofline.kv import kv_bytes_per_layer, kv_bytes_per_rank, kv_saving, latent_as_groups, tokens_in_cache
from course_lib.roofline.models import (
    DEEPSEEK_67B,
    DEEPSEEK_V2,
    DEEPSEEK_V3,
    FALCON_7B,
    LLAMA_2_7B,
    LLAMA_3_8B,
    LLAMA_3_70B,
    LLAMA_3_405B,
    ModelShape,
)

AS_MHA = ModelShape(name="Llama-3-70B with 64 KV heads", **LLAMA_3_70B.numbers() | {"kv_heads": 64})
TABLE = [  # bf16 and FP8, bytes of a token
    (LLAMA_2_7B, 524_288, 256 * 1024),
    (LLAMA_3_8B, 131_072, 64 * 1024),
    (LLAMA_3_70B, 327_680, 160 * 1024),
    (AS_MHA, 2_621_440, 1.25 * 2**20),
    (LLAMA_3_405B, 516_096, 252 * 1024),
    (DEEPSEEK_67B, 389_120, 190 * 1024),
    (FALCON_7B, 8_192, 4 * 1024),
    (DEEPSEEK_V2, 69_120, 34_560),
    (DEEPSEEK_V3, 70_272, 35_136),
]


@pytest.mark.parametrize(("model", "bf16", "fp8"), TABLE, ids=lambda v: getattr(v, "name", ""))
def test_bytes_of_a_token(model, bf16, fp8):
    assert model.kv_bytes_per_token() == bf16
    assert model.kv_bytes_per_token(1) == fp8


def test_a_latent_against_heads():
    gqa8, mha128 = 2 * 8 * 128, 2 * 128 * 128
    assert latent_as_groups(DEEPSEEK_V3) == 2.25
    assert round(100 * kv_saving(576, gqa8), 1) == 71.9
    assert round(100 * kv_saving(576 * 1, gqa8 * 2), 1) == 85.9  # FP8 against bf16
    assert round(100 * kv_saving(576, mha128), 1) == 98.2


def test_bytes_of_a_layer():
    assert kv_bytes_per_layer(LLAMA_3_8B) == 4096
    assert kv_bytes_per_layer(DEEPSEEK_V3) == 1152


@pytest.mark.parametrize(("ranks", "each"), [(1, 131_072), (2, 65_536), (4, 32_768), (8, 16_384), (16, 16_384), (32, 16_384)])
def test_heads_divide_up_to_as_many_ranks_as_there_are_heads(ranks, each):
    assert kv_bytes_per_rank(LLAMA_3_8B, ranks) == each


@pytest.mark.parametrize("ranks", [3, 5, 12])
def test_heads_that_do_not_divide_are_refused(ranks):
    with pytest.raises(ValueError, match=f"8 KV heads do not divide over {ranks} ranks; use one of \\[1, 2, 4, 8, 16\\]"):
        kv_bytes_per_rank(LLAMA_3_8B, ranks)


def test_no_rank_is_refused():
    with pytest.raises(ValueError, match="0 ranks; use at least 1"):
        kv_bytes_per_rank(LLAMA_3_8B, 0)


@pytest.mark.parametrize("ranks", [1, 3, 8])
def test_a_latent_is_on_every_rank(ranks):
    assert kv_bytes_per_rank(DEEPSEEK_V3, ranks) == 70_272


def test_data_parallel_attention_keeps_a_sequence_on_one_rank():
    assert kv_bytes_per_rank(LLAMA_3_8B, 8, data_parallel_attention=True) == 131_072


def test_50_mb_of_l2_would_hold_381_tokens_of_llama_3_8b():
    kv = LLAMA_3_8B.kv_bytes_per_token()
    assert tokens_in_cache(50e6, kv) == 381
    assert tokens_in_cache(381 * kv, kv) == 381
    assert tokens_in_cache(381 * kv - 1, kv) == 380
