"""The benchmark of reading through a block table compares calls that compute the same, in every size of block."""

import pytest
import torch

from benchmarks import paged_gather
from benchmarks._paged_setup import HEAD_DIM, KV_HEADS, Q_HEADS, Case
from course_lib.attention import paged_checks
from course_lib.attention.paged_reference import decode_reference

ROWS, TOKENS = 2, 512


@pytest.fixture
def made():
    draw = torch.Generator().manual_seed(0)
    k, v = (torch.randn(ROWS * TOKENS // 16, 16, KV_HEADS, HEAD_DIM, generator=draw) for _ in range(2))
    q = torch.randn(ROWS, Q_HEADS, HEAD_DIM, generator=draw)
    return Case(ROWS, TOKENS, 16, q, k, v, torch.randperm(len(k), generator=draw).to(torch.int32).view(ROWS, -1))


def right(made):
    return decode_reference(made.q, made.k, made.v, made.tables, [TOKENS] * ROWS)[0]


def test_a_gather_copies_each_row_s_blocks_in_order(made, monkeypatch):
    seen = []
    monkeypatch.setattr(Case, "contiguous", lambda self: lambda: seen.append((self.k, self.v)))
    _, both = paged_gather.gather(made)
    both()
    for whole, pool in zip(seen[0], (made.k, made.v), strict=True):
        assert torch.equal(whole.view(ROWS, TOKENS, KV_HEADS, HEAD_DIM)[1, 17], pool[made.tables[1, 1], 1])
        assert torch.equal(whole, pool[made.tables.flatten().long()])


@pytest.mark.parametrize("size", [8, 256])
def test_the_kernel_takes_blocks_that_the_library_does_not_promise(made, size, monkeypatch):
    from course_lib.attention.decode import plan_for

    monkeypatch.setattr(paged_checks, "BLOCK_SIZES", paged_checks.BLOCK_SIZES)
    paged_gather.any_block_size()
    other = paged_gather.cut(made, size)
    assert sorted(other.tables.flatten().tolist()) == list(range(ROWS * TOKENS // size))
    found = plan_for(other.q, other.k, other.tables, [TOKENS] * ROWS).run(other.q, other.k, other.v, other.tables)[0]
    torch.testing.assert_close(found.double(), right(other), rtol=0, atol=2e-6)


@pytest.mark.parametrize("offset", paged_gather.OFFSETS_BYTES)
def test_moved_tensors_hold_the_same_and_begin_elsewhere(made, offset):
    half = Case(made.rows, made.tokens, 16, made.q.bfloat16(), made.k.bfloat16(), made.v.bfloat16(), made.tables)
    other = paged_gather.moved(half, offset)
    assert other.k.storage_offset() * 2 == other.v.storage_offset() * 2 == offset
    assert torch.equal(other.k, half.k)
    assert torch.equal(other.v, half.v)
