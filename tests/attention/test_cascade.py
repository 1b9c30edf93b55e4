"""Cascade gives what flat decode gives, and reads the shared prefix once for all rows of a tile."""

import pytest
import torch

from course_lib import interpreter
from course_lib.attention.cascade import cascade_decode, cascade_plan_for
from course_lib.attention.decode_tile import DecodeTile
from course_lib.attention.paged_reference import decode_reference

from .paged_cases import assert_close, assert_lse, cache, queries

SMALL = DecodeTile(32, 4, 3, 3)


def shared_cache(own, shared_tokens, kv_heads=2, dim=64, block=16, dtype=torch.float32):
    """Row 0's first blocks stand in every row's table."""
    pool = cache([shared_tokens + n for n in own], kv_heads, dim, block, dtype)
    pool.tables[:, : shared_tokens // block] = pool.tables[:1, : shared_tokens // block]
    return pool


@pytest.mark.parametrize(("own", "shared", "heads"), [([5, 0, 40], 96, 8), ([1] * 5, 16, 16), ([7, 20], 0, 4), ([0, 0], 48, 2)])
def test_it_equals_flat_decode(own, shared, heads):
    pool, q = shared_cache(own, shared), queries(len(own), heads, 64)
    out, lse = cascade_decode(q, pool.k, pool.v, pool.tables, pool.lengths, shared_tokens=shared, return_lse=True, impl="triton")
    wanted, wanted_lse = decode_reference(q, pool.k, pool.v, pool.tables, pool.lengths)
    assert_close(out, wanted, torch.float32)
    assert_lse(lse, wanted_lse)
    assert_close(cascade_decode(q, pool.k, pool.v, pool.tables, pool.lengths, shared_tokens=shared), wanted, torch.float32)


def test_more_queries_than_a_tile_takes_are_cut():
    """20 rows of 8 heads over 1 KV head are 160 rows: tiles of 128. A plan is updated and runs on in the same buffers."""
    pool, q = shared_cache([3] * 20, 16, kv_heads=1, dtype=torch.bfloat16), queries(20, 8, 64, torch.bfloat16)
    plan = cascade_plan_for(q, pool.k, pool.tables, pool.lengths, 16)
    assert plan.prefix.groups[:, 1].tolist() == [16, 4]
    out = torch.empty_like(q)
    for lengths in ([19] * 20, [16 + i % 4 for i in range(20)]):
        plan.update(lengths)
        assert cascade_decode(q, pool.k, pool.v, pool.tables, plan=plan, impl="triton", out=out) is out
        assert_close(out, decode_reference(q, pool.k, pool.v, pool.tables, lengths)[0], torch.bfloat16)


def test_the_prefix_is_read_once_for_all_rows():
    pool, q = shared_cache([16, 5, 1], 64), queries(3, 4, 64)
    plan = cascade_plan_for(q, pool.k, pool.tables, pool.lengths, 64, tile=SMALL)
    with interpreter.ledger() as book:
        plan.run(q, pool.k, pool.v, pool.tables)
    loads = [launch.arguments["k_ptr"].loaded_bytes for launch in book.launches if "k_ptr" in launch.arguments]
    per_token = 2 * 64 * 4
    assert loads == [64 * per_token, (16 + 5 + 1) * per_token]


def test_what_is_not_shared_is_refused():
    pool, q = shared_cache([5, 6], 32), queries(2, 4, 64)

    def refused(words, tables=pool.tables, lengths=pool.lengths, shared=32):
        with pytest.raises(ValueError, match=words):
            cascade_decode(q, pool.k, pool.v, tables, lengths, shared_tokens=shared, impl="triton")

    refused("a multiple of the block size 16, at most 64.*got 30", shared=30)
    refused("row 1 has 31 tokens, fewer than the 32 that all rows share", lengths=[40, 31])
    other = pool.tables.clone()
    other[1, 1] = other[0, 0]
    refused(r"row 1, entry 1 is \d+, row 0 has", tables=other)
    with pytest.raises(ValueError, match="impl is"):
        cascade_decode(q, pool.k, pool.v, pool.tables, pool.lengths, impl="fast")
