"""Attention kernels, speculation and transfers on paper, to the digits printed."""

import pytest

from course_lib.roofline.attention import (
    FLASH_3_TILES,
    absorbed_mla_intensity,
    decode_attention_intensity,
    exp_to_product_time,
    exps_per_second,
    flash_bytes,
    flash_flops,
    flash_intensity,
    flops_per_exp,
    needs_split_kv,
    tile_fits,
    tile_intensity,
    tile_shared_bytes,
)
from course_lib.roofline.models import DEEPSEEK_V3, LLAMA_2_7B, LLAMA_3_8B, LLAMA_3_70B
from course_lib.roofline.speculation import expected_tokens, speculative_speedup
from course_lib.roofline.transfer import kv_transfer_seconds
from course_lib.roofline.weight_bits import bits_per_weight

KIB = 1024


def test_flash_attention_of_llama_3_8b():
    assert flash_flops(2048, 32, 128) == 4 * 2048**2 * 128 * 32 == 2 * flash_flops(2048, 32, 128, causal=True)
    assert flash_bytes(2048, 32, 8, 128) == 2 * 2048 * 128 * 2 * (32 + 8)
    assert round(flash_intensity(2048, 32, 8)) == 1638
    assert flash_intensity(1000, 32, 8) == 800
    assert flash_intensity(1000, 32, 32) == 500
    assert flash_intensity(1000, 32, 32, causal=True) == 250
    assert flash_flops(64, 3, 16, batch=5) == 5 * flash_flops(64, 3, 16)
    assert flash_bytes(64, 3, 1, 16, batch=5) == 5 * flash_bytes(64, 3, 1, 16)


@pytest.mark.parametrize(("query_rows", "key_rows", "head_dim"), [(128, 176, 128), (64, 80, 256)])
def test_a_tile_does_as_many_flops_with_a_byte_as_it_has_queries(query_rows, key_rows, head_dim):
    keys_and_values = 2 * key_rows * head_dim * 2
    assert tile_intensity(query_rows) == 4 * query_rows * key_rows * head_dim / keys_and_values == query_rows
    assert tile_intensity(query_rows, 1) == 2 * query_rows


def test_shared_memory_of_tiles():
    assert tile_shared_bytes(128, 128, 128) == 160 * KIB
    assert tile_shared_bytes(128, 176, 128) == 208 * KIB
    assert all(tile_fits(tile) for tile in FLASH_3_TILES)
    assert not any(tile_fits(tile, shared_kb=99) for tile in FLASH_3_TILES if tile.head_dim >= 128)


def test_exponentials_cost_half_as_long_as_the_products():
    assert round(exps_per_second() / 1e12, 1) == 3.9
    assert flops_per_exp(128) == 512
    assert round(exp_to_product_time(128, 989.4e12, exps_per_second()), 2) == 0.5
    assert exp_to_product_time(64, 989.4e12, exps_per_second()) == 2 * exp_to_product_time(128, 989.4e12, exps_per_second())


@pytest.mark.parametrize(("model", "bf16"), [(LLAMA_2_7B, 1), (LLAMA_3_8B, 4), (LLAMA_3_70B, 8)])
def test_decode_attention(model, bf16):
    assert decode_attention_intensity(model.heads, model.kv_heads) == bf16
    assert decode_attention_intensity(model.heads, model.kv_heads, 1) == 2 * bf16


def test_absorbed_latent_attention():
    assert round(absorbed_mla_intensity(DEEPSEEK_V3.heads, DEEPSEEK_V3.kv_lora_rank, DEEPSEEK_V3.rope_dim)) == 242


@pytest.mark.parametrize(("batch", "split"), [(1, True), (16, True), (17, False)])
def test_few_sequences_leave_sms_idle(batch, split):
    assert needs_split_kv(batch, 8, 132) is split


def test_exactly_as_many_blocks_as_sms_leave_none_idle():
    assert needs_split_kv(131, 1, 132)
    assert not needs_split_kv(132, 1, 132)


TOKENS = [  # acceptance; 1, 2, 4 and 8 drafted
    (0.5, 1.50, 1.75, 1.94, 2.00), (0.6, 1.60, 1.96, 2.31, 2.47), (0.7, 1.70, 2.19, 2.77, 3.20),
    (0.8, 1.80, 2.44, 3.36, 4.33), (0.9, 1.90, 2.71, 4.10, 6.13),
]  # fmt: skip


@pytest.mark.parametrize(("acceptance", "one", "two", "four", "eight"), TOKENS)
def test_tokens_of_a_pass(acceptance, one, two, four, eight):
    assert [round(expected_tokens(acceptance, n), 2) for n in (1, 2, 4, 8)] == [one, two, four, eight]
    assert expected_tokens(acceptance, 4) == pytest.approx((1 - acceptance**5) / (1 - acceptance))


def test_speculation_speeds_up_a_memory_bound_step():
    assert [round(speculative_speedup(0.7, n, 0.05), 2) for n in (1, 2, 4, 8)] == [1.62, 1.99, 2.31, 2.28]
    assert expected_tokens(1.0, 4) == 5
    assert expected_tokens(0.0, 4) == 1
    with pytest.raises(ValueError, match="acceptance is 70; it is a probability"):
        expected_tokens(70, 4)


BITS = [(128, 4.125, 4.156, 4.25), (64, 4.25, 4.3125, 4.5), (32, 4.5, 4.625, 5.0)]


@pytest.mark.parametrize(("group", "symmetric", "zeros4", "zeros16"), BITS)
def test_bits_of_a_weight(group, symmetric, zeros4, zeros16):
    assert [bits_per_weight(group, zero_bits=z) for z in (0, 4, 16)] == pytest.approx([symmetric, zeros4, zeros16], abs=5e-4)


TRANSFERS = [  # tokens, model; GB of KV; ms at 450 GB/s, 50, 8 x 50, 12.5 and 55
    (2048, LLAMA_3_8B, 0.27, "0.60", "5.4", "0.67", "21", "4.9"),
    (2048, LLAMA_3_70B, 0.67, "1.49", "13.4", "1.68", "54", "12.2"),
    (2048, DEEPSEEK_V3, 0.14, "0.32", "2.9", "0.36", "12", "2.6"),
    (8192, LLAMA_3_8B, 1.07, "2.39", "21.5", "2.68", "86", "19.5"),
    (8192, LLAMA_3_70B, 2.68, "5.97", "53.7", "6.71", "215", "48.8"),
    (8192, DEEPSEEK_V3, 0.58, "1.28", "11.5", "1.44", "46", "10.5"),
    (32768, LLAMA_3_8B, 4.29, "9.54", "85.9", "10.74", "344", "78.1"),
    (32768, LLAMA_3_70B, 10.74, "23.86", "214.7", "26.84", "859", "195.2"),
    (32768, DEEPSEEK_V3, 2.30, "5.12", "46.1", "5.76", "184", "41.9"),
]


@pytest.mark.parametrize(("tokens", "model", "gb", *("nvlink", "one", "eight", "slow", "pcie")), TRANSFERS)
def test_transfers(tokens, model, gb, nvlink, one, eight, slow, pcie):
    kv = model.kv_bytes_per_token()
    assert round(tokens * kv / 1e9, 2) == gb
    for rate, printed in ((450, nvlink), (50, one), (400, eight), (12.5, slow), (55, pcie)):
        digits = len(printed.partition(".")[2])
        assert f"{1e3 * kv_transfer_seconds(tokens, kv, rate * 1e9):.{digits}f}" == printed


def test_a_transfer_starts_late_and_runs_below_the_bandwidth():
    assert kv_transfer_seconds(10, 1e6, 1e9, start_seconds=0.5, efficiency=0.5) == pytest.approx(0.52)
    with pytest.raises(ValueError, match="efficiency is 0"):
        kv_transfer_seconds(10, 1e6, 1e9, efficiency=0)
