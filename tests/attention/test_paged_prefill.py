"""Prefill over a paged cache equals the oracle, and a prompt in chunks equals the prompt at once."""

import pytest
import torch

from course_lib.attention.paged_prefill import PrefillTile, paged_prefill, prefill_tile
from course_lib.attention.paged_reference import paged_reference

from .paged_cases import assert_close, assert_lse, cache, queries

TILE = PrefillTile(16, 32, 4, 3)


def bounds(*new):
    return torch.tensor([0, *new], dtype=torch.int32).cumsum(0, dtype=torch.int32)


def lengths_of(pool):
    return torch.tensor(pool.lengths, dtype=torch.int32)


# new tokens, kv_lengths, q_heads, kv_heads, head_dim, block_size, dtype
CASES = [
    ((3, 0, 17, 1), [40, 9, 17, 65], 4, 2, 64, 16, torch.float32),
    ((5, 2), [2, 0], 2, 1, 64, 16, torch.float16),  # queries before the first key: zeros
    ((7, 33), [33, 70], 7, 1, 80, 32, torch.bfloat16),
    ((2,), [66], 2, 2, 256, 64, torch.float16),
]


@pytest.mark.parametrize("impl", ["triton", "dense"])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"new {c[0]} {c[2]}/{c[3]} hd{c[4]} block {c[5]}")
def test_it_equals_the_oracle(case, causal, impl):
    new, lengths, heads, kv_heads, dim, block, dtype = case
    pool, q, cu = cache(lengths, kv_heads, dim, block, dtype), queries(sum(new), heads, dim, dtype), bounds(*new)
    out, lse = paged_prefill(
        q, cu, pool.k, pool.v, pool.tables, lengths_of(pool), causal=causal, return_lse=True, impl=impl, tile=TILE
    )
    wanted, wanted_lse = paged_reference(q, cu, pool.k, pool.v, pool.tables, lengths, causal=causal)
    assert_close(out, wanted, dtype)
    assert_lse(lse, wanted_lse)


@pytest.mark.parametrize("impl", ["triton", "dense"])
@pytest.mark.parametrize("chunk", [1, 3, 16, 17])
def test_a_prompt_in_chunks_equals_the_prompt_at_once(chunk, impl):
    """Chunks of 1, 3, a block and a block and one: positions, lengths and blocks are those of one prefill."""
    length = 35
    pool, q = cache([length], 1, 64, 16), queries(length, 2, 64)
    parts = []
    for start in range(0, length, chunk):
        stop = min(start + chunk, length)
        seen = torch.tensor([stop], dtype=torch.int32)
        parts.append(paged_prefill(q[start:stop], bounds(stop - start), pool.k, pool.v, pool.tables, seen, impl=impl))
    wanted, _ = paged_reference(q, [0, length], pool.k, pool.v, pool.tables, [length])
    assert_close(torch.cat(parts), wanted, torch.float32)


def test_a_tile_has_the_rows_that_the_tokens_need():
    assert [prefill_tile(tokens, 4, 128).rows for tokens in (1, 4, 5, 16, 17, 512)] == [16, 16, 64, 64, 64, 64]
    assert [prefill_tile(tokens, 4, 128, (8, 0)).rows for tokens in (1, 4, 5, 16, 17, 512)] == [16, 16, 64, 64, 128, 128]
    assert [prefill_tile(512, group, 256, (8, 0)).rows for group in (1, 64, 65)] == [64, 64, 128]
    assert prefill_tile(1, 71, 64).rows == 128  # all heads of one token


def test_out_is_written_and_nothing_is_launched_for_no_token():
    pool, q = cache([20], 1, 64, 16), queries(4, 2, 64)
    for impl in ("triton", "dense"):
        out = torch.empty_like(q)
        assert paged_prefill(q, bounds(4), pool.k, pool.v, pool.tables, lengths_of(pool), out=out, impl=impl) is out
        assert_close(out, paged_reference(q, [0, 4], pool.k, pool.v, pool.tables, [20])[0], torch.float32)
        assert paged_prefill(q[:0], bounds(0), pool.k, pool.v, pool.tables, lengths_of(pool), impl=impl).shape == (0, 2, 64)


@pytest.mark.parametrize("impl", ["triton", "dense"])
def test_bad_input_is_refused_with_the_numbers(impl):
    pool, q = cache([20, 5], 1, 64, 16), queries(4, 2, 64)

    def refused(words, cu=None, tables=pool.tables, lengths=None, q=q, out=None):
        lengths = lengths_of(pool) if lengths is None else lengths
        with pytest.raises(ValueError, match=words):
            paged_prefill(q, bounds(3, 1) if cu is None else cu, pool.k, pool.v, tables, lengths, impl=impl, out=out)

    refused(r"cu_q must rise from 0 to 4, the rows of q; got \[0, 3, 5\]", cu=bounds(3, 2))
    refused(r"cu_q must rise", cu=torch.tensor([0, 5, 4], dtype=torch.int32))
    refused(r"cu_q is int32 \[3\]", cu=bounds(4))
    refused(r"kv_lengths is int32 \[2\]", lengths=torch.tensor([20, 5]))
    refused("row 1 has 49 tokens, and its table holds 48", lengths=torch.tensor([20, 49], dtype=torch.int32))
    refused("row 0, entry 0 is 77", tables=torch.full_like(pool.tables, 77))
    refused("packed", q=q[None])
    refused("out must be", out=torch.empty(4, 2, 32))
