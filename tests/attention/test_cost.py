"""The ledger of the forward kernel counts what the closed form says, at most 5% above the least for its tile."""

import pytest
import torch

from course_lib import interpreter
from course_lib.attention import Tile, attention_flops, choose_tile, flash_attention, least_bytes, least_tile_bytes, tile_bytes
from course_lib.attention.cost import attention_pairs
from course_lib.attention.tiles import has_tile
from course_lib.roofline.attention import flash_bytes
from tests.attention.flash_cases import random_qkv

SHAPES = [  # batch, q_len, kv_len, q_heads, kv_heads, head_dim, causal, tile
    (1, 100, 140, 2, 1, 80, True, Tile(32, 16, 4, 1)),
    (2, 33, 65, 2, 2, 64, False, Tile(32, 32, 4, 1, descriptors=True)),
    (1, 128, 128, 1, 1, 64, True, Tile(64, 32, 4, 1, descriptors=True)),
    (1, 70, 30, 1, 1, 64, True, Tile(16, 16, 4, 1)),
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "-".join(map(str, s[:6])))
@pytest.mark.parametrize("with_lse", [True, False])
def test_the_ledger_counts_the_closed_form_to_the_byte(shape, with_lse):
    batch, q_len, kv_len, q_heads, kv_heads, head_dim, causal, tile = shape
    q, k, v = random_qkv(*shape[:6], torch.float16)
    with interpreter.ledger() as book:
        flash_attention(q, k, v, causal=causal, return_lse=with_lse, impl="triton", tile=tile)
    counted = book.counts()["bytes"]
    assert counted == tile_bytes(batch, q_len, kv_len, q_heads, head_dim, tile, causal=causal, with_lse=with_lse)
    (launch,) = book.launches
    once = least_bytes(batch, q_len, kv_len, q_heads, kv_heads, head_dim, with_lse=with_lse)
    assert launch.total.distinct_bytes == once  # nothing of q, k, v, out is left out, nothing else touched


@pytest.mark.parametrize("head_dim", [64, 80, 96, 128, 256])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("capability", [(8, 0), (9, 0), (10, 0), (12, 0), None])
def test_tiles_that_are_chosen_ask_for_at_most_5_percent_more_than_their_least(head_dim, causal, capability):
    if head_dim == 256 and capability in ((8, 0), (12, 0)):
        assert not has_tile(head_dim, capability)
        with pytest.raises(ValueError, match=r"no tile for head_dim 256 on a device of compute capability \((8|12), 0\)"):
            choose_tile(head_dim, capability)
        return
    for descriptors, keys in ((True, 4096), (True, 512), (False, 4096)):
        tile = choose_tile(head_dim, capability, keys=keys, descriptors=descriptors)
        for q_len, kv_len in ((2048, 2048), (1000, 4000), (4096, 5000)):
            shape = (1, q_len, kv_len, 1, head_dim, tile)
            asked, least = (count(*shape, causal=causal, with_lse=True) for count in (tile_bytes, least_tile_bytes))
            assert least <= asked <= 1.05 * least


def test_a_tile_of_more_keys_from_2048_keys_on():
    """Keys that a query sees on average; head_dim 64 on Hopper only."""
    assert [choose_tile(64, (9, 0), keys=keys).key_rows for keys in (-5, 2047, 2048)] == [64, 64, 128]
    for head_dim, capability, descriptors in ((128, (9, 0), True), (64, (9, 0), False), (64, (8, 0), True), (64, None, True)):
        tiles = {choose_tile(head_dim, capability, keys=keys, descriptors=descriptors) for keys in (1, 2047, 2048, 100_000)}
        assert len(tiles) == 1


def test_numbers_that_can_be_redone_on_paper():
    tile, vector = Tile(128, 128, 8, 3), 128 * 2
    assert tile_bytes(1, 1024, 1024, 1, 128, tile) == (2 + 2 * 8) * 1024 * vector
    assert tile_bytes(1, 1024, 1024, 1, 128, tile, causal=True) == (2 + 2 * 4.5) * 1024 * vector
    assert least_bytes(2, 1024, 1024, 32, 8, 128) == flash_bytes(1024, 32, 8, 128, batch=2)
    assert attention_flops(1, 1024, 1024, 1, 128) == 4 * 1024**2 * 128


@pytest.mark.parametrize(("q_len", "kv_len"), [(1, 1), (5, 5), (3, 9), (9, 3), (4, 0), (0, 4)])
def test_pairs_are_those_of_the_mask(q_len, kv_len):
    mask = torch.ones(q_len, kv_len).tril(kv_len - q_len)
    assert attention_pairs(q_len, kv_len, causal=True) == int(mask.sum())
    assert attention_pairs(q_len, kv_len, causal=False) == q_len * kv_len


def test_without_keys_nothing_is_launched_and_nothing_moves():
    q, k, v = random_qkv(1, 5, 0, 2, 1, 64, torch.float16)
    with interpreter.ledger() as book:
        flash_attention(q, k, v, impl="triton")
    assert not book.launches
    assert tile_bytes(1, 5, 0, 2, 64, Tile(16, 16, 4, 1), with_lse=True) == 0
