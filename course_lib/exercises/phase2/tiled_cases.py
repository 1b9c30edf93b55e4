"""Cases of exercise 2.3: lengths that tiles do not divide, queries without a key, shared keys; and the bytes of a walk."""

from typing import Any

from ...grading.criteria import Case


def least(case: Case) -> dict[str, int]:
    """Bytes of a walk that reads Q once, of K and V whatever tile a query of the tile sees, and writes once."""
    from ...attention.cost import tile_bytes
    from ...attention.tiles import Tile

    (q_len, q_heads, head_dim), size = case["q"].shape, case["q"].element_size()
    tile = Tile(case["tile_q"], case["tile_k"], 4, 1)
    once = q_heads * q_len * head_dim * size
    moved = tile_bytes(1, q_len, case["k"].shape[0], q_heads, head_dim, tile, causal=case["causal"], element_bytes=size)
    return {"q_bytes": once, "kv_bytes": moved - 2 * once, "stored_bytes": once + 4 * q_heads * q_len}


def _cases(seed: int, rows: Any) -> list[Case]:
    """rows: (name, q_len, kv_len, q_heads, kv_heads, head_dim, tile_q, tile_k, causal, size of the scores)"""
    import torch

    draw = torch.Generator().manual_seed(seed)
    cases = []
    for name, q_len, kv_len, q_heads, kv_heads, head_dim, tile_q, tile_k, causal, size in rows:
        q = (size * torch.randn(q_len, q_heads, head_dim, generator=draw)).bfloat16()
        k, v = (torch.randn(kv_len, kv_heads, head_dim, generator=draw).bfloat16() for _ in range(2))
        cases.append({"name": name, "q": q, "k": k, "v": v, "tile_q": tile_q, "tile_k": tile_k, "causal": causal})
    return cases


def result_cases(seed: int) -> list[Case]:
    odd = 33 + seed % 11
    return _cases(seed, [
        (f"20 queries, {odd} keys, tiles of 8 x 16", 20, odd, 1, 1, 16, 8, 16, False, 3),
        ("16 queries, 32 keys, tiles of 8 x 8, 2 heads", 16, 32, 2, 2, 8, 8, 8, False, 3),
        ("1 query, 50 keys", 1, 50, 1, 1, 32, 16, 16, False, 3),
        ("a tile larger than everything", 5, 9, 1, 1, 8, 64, 64, False, 3),
        ("scores of hundreds", 9, 40, 1, 1, 16, 4, 8, False, 200),
    ])  # fmt: skip


def causal_cases(seed: int) -> list[Case]:
    """In the last two a tile of keys is seen by one query, of which it holds one key; weights are alike, so that each counts."""
    odd = 21 + seed % 9
    return _cases(seed, [
        (f"{odd} queries and keys, tiles of 8 x 4", odd, odd, 1, 1, 16, 8, 4, True, 3),
        ("24 queries and keys, tiles of 4 x 16", 24, 24, 2, 2, 8, 4, 16, True, 3),
        ("the last 6 of 30 tokens", 6, 30, 1, 1, 16, 4, 8, True, 3),
        ("more queries than keys: the first see none", 30, 12, 1, 1, 16, 4, 8, True, 3),
        ("17 queries and keys, tiles of 8 x 8: one key in the last tile", 17, 17, 1, 1, 16, 8, 8, True, 0.3),
        ("the last 9 of 33 tokens, tiles of 4 x 16", 9, 33, 1, 1, 16, 4, 16, True, 0.3),
    ])  # fmt: skip


def head_cases(seed: int) -> list[Case]:
    return _cases(seed, [
        ("6 heads on 2 KV heads", 7, 19, 6, 2, 8, 4, 8, False, 3),
        ("8 heads on 1 KV head", 5, 12, 8, 1, 8, 4, 8, False, 3),
        ("4 heads on 2 KV heads", 5, 12, 4, 2, 8, 8, 4, False, 3),
    ])  # fmt: skip


def traffic_cases(seed: int) -> list[Case]:
    odd = 37 + seed % 13
    return _cases(seed, [
        ("24 queries, 32 keys, tiles of 8 x 8", 24, 32, 1, 1, 16, 8, 8, False, 3),
        ("32 queries and keys, causal, tiles of 8 x 8", 32, 32, 1, 1, 16, 8, 8, True, 3),
        (f"{odd} queries, {odd + 6} keys, causal, 4 heads on 2, tiles of 16 x 8", odd, odd + 6, 4, 2, 8, 16, 8, True, 3),
        ("21 queries, 43 keys, 6 heads on 2, tiles of 8 x 16", 21, 43, 6, 2, 8, 8, 16, False, 3),
        ("30 queries, 13 keys, causal, tiles of 4 x 8", 30, 13, 1, 1, 8, 4, 8, True, 3),
        ("17 queries and keys, causal, tiles of 8 x 8", 17, 17, 1, 1, 16, 8, 8, True, 3),
    ])  # fmt: skip
