"""Packed sequences of any lengths equal the oracle one by one, and neighbours full of NaN do not reach each other."""

import pytest
import torch

from course_lib.attention import Tile, flash_attention_packed, packed_reference
from tests.attention.flash_cases import assert_within_budget, random_qkv

TILES = {
    "pointers": Tile(16, 32, 4, 1), "tall, pointers": Tile(32, 16, 4, 1),
    "descriptors": Tile(16, 16, 4, 1, descriptors=True), "tall, descriptors": Tile(32, 16, 4, 1, descriptors=True),
}  # fmt: skip
LENGTHS = [(17, 17), (0, 3), (5, 40), (1, 1), (20, 0), (33, 18)]  # of queries and keys


def starts(lengths):
    """cu [batch + 1]"""
    edges = [0]
    for length in lengths:
        edges.append(edges[-1] + length)
    return torch.tensor(edges, dtype=torch.int32)


def packed(dtype, head_dim=64):
    cu_q, cu_k = starts([q for q, _ in LENGTHS]), starts([k for _, k in LENGTHS])
    q, k, v = (x[0] for x in random_qkv(1, int(cu_q[-1]), int(cu_k[-1]), 2, 1, head_dim, dtype))
    return q, k, v, cu_q, cu_k


def run(q, k, v, cu_q, cu_k, causal, **more):
    return flash_attention_packed(q, k, v, cu_q, cu_k, max_q=33, max_k=40, causal=causal, return_lse=True, **more)


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("name", TILES)
def test_it_equals_the_oracle(name, causal):
    given = packed(torch.float16)
    found = run(*given, causal, impl="triton", tile=TILES[name])
    assert_within_budget(found, packed_reference(*given, causal=causal), given[2], torch.float16)
    dense = run(*given, causal, impl="dense")
    assert_within_budget(dense, packed_reference(*given, causal=causal), given[2], torch.float16)


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("name", TILES)
def test_nan_in_one_sequence_stays_there(name, causal):
    """A descriptor reads past the end of a sequence, and 0 * NaN is NaN: the kernel has to clear those rows of V."""
    q, k, v, cu_q, cu_k = packed(torch.bfloat16)
    clean, _ = run(q, k, v, cu_q, cu_k, causal, impl="triton", tile=TILES[name])
    poisoned, others = [x.clone() for x in (q, k, v)], torch.ones(len(q), dtype=torch.bool)
    for i in (2, 5):  # the last tiles of sequences 0 and 3 reach into them
        rows, keys = slice(cu_q[i], cu_q[i + 1]), slice(cu_k[i], cu_k[i + 1])
        for x, where in zip(poisoned, (rows, keys, keys), strict=True):
            x[where] = torch.nan
        others[rows] = False
    out, _ = run(*poisoned, cu_q, cu_k, causal, impl="triton", tile=TILES[name])
    assert torch.equal(out[others], clean[others])
    assert out[~others].isnan().all()


def test_rows_of_no_sequence_stay_as_they_are():
    q, k, v, cu_q, cu_k = packed(torch.float16)
    out = torch.full_like(q, 7.0)
    for impl in ("triton", "dense"):
        flash_attention_packed(q, k, v, cu_q[:3], cu_k[:3], max_q=17, max_k=17, out=out, impl=impl)
        assert (out[17:] == 7.0).all()
        assert not (out[:17] == 7.0).all()


@pytest.mark.parametrize("impl", ["triton", "dense"])
def test_no_sequences_no_rows_no_keys(impl):
    q, k, v, _, _ = packed(torch.float16)
    none = torch.zeros(1, dtype=torch.int32)
    assert flash_attention_packed(q[:0], k, v, none, none, max_q=0, max_k=0, impl=impl).shape == (0, 2, 64)
    two = torch.tensor([0, 3], dtype=torch.int32)
    out, lse = flash_attention_packed(q[:3], k[:0], v[:0], two, two * 0, max_q=3, max_k=0, return_lse=True, impl=impl)
    assert (out == 0).all()
    assert lse.isneginf().all()


def test_lengths_that_cannot_be_are_refused():
    q, k, v, cu_q, cu_k = packed(torch.float16)
    with pytest.raises(TypeError, match=r"cu_q must be int32 \[batch \+ 1\], got torch.int64"):
        flash_attention_packed(q, k, v, cu_q.long(), cu_k, max_q=33, max_k=40)
    with pytest.raises(ValueError, match="cu_k holds a sequence of 40 rows, and the longest was given as 39"):
        flash_attention_packed(q, k, v, cu_q, cu_k, max_q=33, max_k=39)
    with pytest.raises(ValueError, match="cu_q must rise from 0 to at most 75, the rows there are"):
        flash_attention_packed(q[:75], k, v, cu_q, cu_k, max_q=33, max_k=40)
    with pytest.raises(ValueError, match="as many sequences, got 5 and 6"):
        flash_attention_packed(q, k, v, cu_q[:-1], cu_k, max_q=33, max_k=40)
