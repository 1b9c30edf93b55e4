"""FlashAttention's ledger equals what follows from the algorithm: Q once, K and V for each tile of queries that sees them."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from .kernels.flash import flash
from .ledger_helpers import QUICK, at, blocks, counted, line, sectors


def head_rows(tensor: torch.Tensor, batch: int, head: int, tokens: range) -> list[tuple[int, int]]:
    """Byte intervals of one head's vectors of some tokens; tensor: [batch, tokens, heads, head_dim]."""
    size, (by_batch, by_token, by_head, _) = tensor.element_size(), tensor.stride()
    start = tensor.data_ptr() + (batch * by_batch + head * by_head) * size
    return [(start + token * by_token * size, tensor.shape[3] * size) for token in tokens]


def keys_of_tiles(q_len: int, kv_len: int, bm: int, bn: int, causal: bool) -> list[list[range]]:
    """For each tile of queries: the blocks of keys that it reads. Query i sees keys up to i + kv_len - q_len."""
    tiles = []
    for first in range(0, q_len, bm):
        last_seen = first + bm - 1 + kv_len - q_len if causal else kv_len - 1
        tiles.append([keys for keys in blocks(kv_len, bn) if keys[0] <= last_seen])
    return tiles


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@QUICK
@given(
    batch=st.integers(1, 2), q_len=st.integers(1, 70), kv_len=st.integers(1, 70), kv_heads=st.integers(1, 2),
    group=st.integers(1, 3), dim=st.sampled_from([8, 16, 24, 40, 64]), bm=st.sampled_from([16, 32]),
    bn=st.sampled_from([16, 32]), dtype=st.sampled_from([torch.float16, torch.bfloat16, torch.float32]), with_lse=st.booleans(),
)  # fmt: skip
def test_flash_attention_costs_what_its_tiles_say(causal, batch, q_len, kv_len, kv_heads, group, dim, bm, bn, dtype, with_lse):
    heads, size, block_d = kv_heads * group, dtype.itemsize, max(16, 1 << (dim - 1).bit_length())
    q = at(0, (batch, q_len, heads, dim), dtype)
    k, v = (at(3, (batch, kv_len, kv_heads, dim), dtype) for _ in range(2))
    launch = counted(flash, q, k, v, causal=causal, bm=bm, bn=bn, with_lse=with_lse)
    tiles = keys_of_tiles(q_len, kv_len, bm, bn, causal)
    steps = batch * heads * sum(len(tile) for tile in tiles)
    programs = len(tiles) * batch * heads
    assert launch.programs == programs

    per_vector, none = dim * size, type(launch.total)()
    read_q, out = launch.arguments["q_ptr"], launch.arguments["out_ptr"]
    q_bytes = batch * q_len * heads * per_vector
    assert (read_q.loads, read_q.loaded_bytes, read_q.distinct_loaded_bytes) == (programs, q_bytes, q_bytes)
    assert (out.stores, out.stored_bytes, out.distinct_stored_bytes) == (programs, q_bytes, q_bytes)
    requested = batch * heads * sum(len(keys) for tile in tiles for keys in tile) * per_vector
    distinct = batch * kv_heads * max(sum(map(len, tile)) for tile in tiles) * per_vector
    for name, tensor in (("k_ptr", k), ("v_ptr", v)):
        read = launch.arguments.get(name, none)
        assert (read.loads, read.loaded_bytes, read.distinct_loaded_bytes) == (steps, requested, distinct)
        assert read.sectors_loaded == sum(
            sectors(head_rows(tensor, b, h // group, keys))
            for b in range(batch) for h in range(heads) for tile in tiles for keys in tile
        )  # fmt: skip
    lse_bytes = batch * heads * q_len * 4 if with_lse else 0
    assert launch.arguments.get("lse_ptr", none).stored_bytes == lse_bytes
    assert launch.total.bytes == 2 * q_bytes + 2 * requested + lse_bytes
    assert launch.total.distinct_bytes == 2 * q_bytes + 2 * distinct + lse_bytes

    kind = {torch.float16: "fp16", torch.bfloat16: "bf16", torch.float32: "fp32"}[dtype]
    assert launch.dot_flops == ({kind: 4 * bm * bn * block_d * steps} if steps else {})
    assert sorted(launch.dot_lines.values()) == [2 * bm * bn * block_d * steps] * (2 if steps else 0)
    special = {"exp2": steps * (bm * bn + bm), "divide": programs * bm * block_d, "log2": programs * bm * with_lse}
    assert launch.special_calls == {name: count for name, count in special.items() if count}
    a_step = {
        "score * scale": bm * bn, "max": bm * (bn - 1) + bm, "score - max": bm * bn, "best - shift": bm,
        "total * rescale": bm, "sum": bm * (bn - 1) + bm, "acc * rescale": bm * block_d,
    }  # fmt: skip
    the_end = {"acc / total": bm * block_d, "best + log2, * ln2": 2 * bm * with_lse}
    assert launch.elementwise_flops == steps * sum(a_step.values()) + programs * sum(the_end.values())


def test_causal_flash_attention_of_512_in_numbers():
    """8 tiles see 1..8 blocks of keys: 36 steps. K and V are read 4.5 times, half of what full attention would."""
    q, k, v = (at(0, (1, 512, 1, 64), torch.float16) for _ in range(3))
    causal, full = (counted(flash, q, k, v, causal=causal) for causal in (True, False))
    assert (causal.total.loads, full.total.loads) == (8 + 2 * 36, 8 + 2 * 64)
    assert causal.arguments["k_ptr"].loaded_bytes == 36 * 64 * 64 * 2
    assert (causal.arguments["k_ptr"].rereads, full.arguments["k_ptr"].rereads) == (4.5, 8.0)
    assert causal.total.distinct_bytes == full.total.distinct_bytes == 4 * 512 * 64 * 2
    assert causal.dot_flops == {"fp16": 36 * 4 * 64 * 64 * 64}
    assert causal.total.coalescing == full.total.coalescing == 1.0
    assert line(causal, "k = tl.load(") == causal.arguments["k_ptr"]


def test_grouped_heads_read_the_same_keys_again():
    q, k = at(0, (1, 16, 6, 16), torch.float16), at(0, (1, 16, 2, 16), torch.float16)
    launch = counted(flash, q, k, k.clone(), bm=16, bn=16)
    assert launch.arguments["k_ptr"].rereads == 3.0
