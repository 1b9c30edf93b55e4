"""Work is cut by lengths: every token of every pair once, programs balanced, and few merges."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.attention.decode_tile import H200_SM_BYTES, decode_tile
from course_lib.attention.splits import MERGE_TILES, SPLITS, split_work

H200 = 264  # two programs for each of 132 SMs


def program_tiles(work, tile):
    """Tiles of each program; an item without tokens counts as one."""
    tiles = np.maximum(-(-(work.items[:, 5] - work.items[:, 4]) // tile), 1)
    return np.array([tiles[a:b].sum() for a, b in zip(work.starts[:-1], work.starts[1:], strict=True)])


def test_an_sm_gets_two_programs_where_its_shared_memory_holds_them():
    """head_dim 128: 64 KiB of buffers and 8 KiB beside them. H200, A100 (164 KiB), an SM of 100 KiB."""
    sms = (H200_SM_BYTES, 164 * 1024, 144 * 1024, 143 * 1024, 100 * 1024)
    assert [decode_tile(128, 16, sm_bytes).programs_per_sm for sm_bytes in sms] == [2, 2, 2, 1, 1]
    assert {decode_tile(head_dim, 16).programs_per_sm for head_dim in (64, 80, 96, 128, 256)} == {2}


@settings(max_examples=200, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 700), min_size=1, max_size=9), kv_heads=st.integers(1, 4), programs=st.integers(1, 40),
    tile=st.sampled_from([16, 64]), splits=st.sampled_from(SPLITS),
)  # fmt: skip
def test_every_token_of_every_pair_is_in_one_item(lengths, kv_heads, programs, tile, splits):
    work = split_work(np.array(lengths), kv_heads, tile=tile, programs=programs, splits=splits)
    assert work.starts[0] == 0
    assert work.starts[-1] == len(work.items)
    assert len(work.starts) == programs + 1
    assert (np.diff(work.starts) >= 0).all()
    assert len(work.items) <= len(lengths) * kv_heads + programs - 1
    assert len(work.merges) <= min(len(lengths) * kv_heads, programs - 1) if programs > 1 else not len(work.merges)
    assert work.slots <= 2 * (programs - 1)
    merged = {(m[0], m[2]): (m[3], m[4]) for m in work.merges.tolist()}
    slots = []
    for row, length in enumerate(lengths):
        for head in range(kv_heads):
            pieces = sorted(item for item in work.items.tolist() if (item[0], item[2]) == (row, head))
            assert pieces[0][4] == 0
            assert pieces[-1][5] == length
            assert all(a[5] == b[4] and a[5] % tile == 0 for a, b in pairwise(pieces))
            if len(pieces) == 1:
                assert pieces[0][6] == -1
                assert (row, head) not in merged
            else:
                first, count = merged[row, head]
                assert [p[6] for p in pieces] == list(range(first, first + count))
                slots += [p[6] for p in pieces]
    assert sorted(slots) == list(range(work.slots))


@pytest.mark.parametrize(("batch", "length"), [(1, 32768), (1, 131072), (64, 8192), (16, 9000), (12, 40000)])
def test_long_work_is_spread_evenly_whatever_the_batch(batch, length):
    """No cliff at a batch: the fullest program has at most the mean and MERGE_TILES more."""
    for splits in ("auto", "even", "together"):
        tiles = program_tiles(split_work(np.full(batch, length), 8, tile=64, programs=H200, splits=splits), 64)
        assert tiles.max() <= tiles.sum() / H200 + 1 + MERGE_TILES


def test_the_heads_of_a_share_go_to_neighbouring_programs():
    work = split_work(np.array([5000, 300, 9000]), 4, tile=64, programs=21, splits="together")
    shares = [work.items[a:b, [0, 4, 5]].tolist() for a, b in zip(work.starts[:-1], work.starts[1:], strict=True)]
    for first in range(0, 20, 4):
        assert shares[first]
        assert shares[first] == shares[first + 1] == shares[first + 2] == shares[first + 3]
    assert not shares[20]  # 21 programs, 5 shares of 4 heads


def test_what_fills_the_programs_by_itself_is_not_cut():
    assert not len(split_work(np.full(32, 4096), 8, tile=64, programs=H200).merges)
    assert not len(split_work(np.full(1, 256), 8, tile=64, programs=H200).merges)


def test_one_long_row_among_short_ones_is_cut_alone():
    work = split_work(np.array([100] * 30 + [100_000]), 8, tile=64, programs=H200)
    tiles = program_tiles(work, 64)
    assert tiles.max() <= tiles.sum() / H200 + 2
    assert {m[0] for m in work.merges.tolist()} == {30}


def test_short_work_is_not_cut_into_crumbs():
    work = split_work(np.array([1024]), 1, tile=64, programs=H200)  # 16 tiles: 4 pieces of 4
    assert len(work.items) == 4


def test_groups_of_queries_share_a_table_row():
    groups = np.array([[0, 32, 0], [32, 8, 0]])
    work = split_work(np.array([200, 200]), 2, tile=64, programs=3, groups=groups, splits="even")
    assert {tuple(i[[0, 1, 3]]) for i in work.items} == {(0, 32, 0), (32, 8, 0)}


def test_an_unknown_way_is_refused():
    with pytest.raises(ValueError, match="got 'some'"):
        split_work(np.array([3]), 1, tile=64, programs=2, splits="some")
