"""Tiles dealt out to thread blocks: each once, blocks end together, and no long work for the host."""

from collections import OrderedDict
from types import SimpleNamespace

import pytest
import torch

from course_lib.attention import hopper_launch, hopper_schedule
from course_lib.attention.hopper_ladder import EVERY_STEP, Ladder
from course_lib.attention.hopper_launch import TILES, Work
from course_lib.attention.hopper_schedule import START_COST, deal, table, tiles_in_order

SMS = 132


def loads(shape, blocks=SMS):
    order = tiles_in_order(*shape)
    cost = dict(order)
    return [sum(cost[tile] for tile in share) for share in deal(order, blocks)]


@pytest.mark.parametrize("shape", [
    (1, 16, 1, 16384, 16384, 128, 128, 128, True), (4, 32, 4, 4096, 4096, 128, 128, 128, True),
    (3, 6, 2, 1000, 3333, 64, 128, 128, True), (2, 16, 1, 8192, 8192, 128, 128, 128, False),
])  # fmt: skip
def test_every_tile_is_dealt_once(shape):
    sequences, q_heads, _, q_len, *_ = shape
    shares = deal(tiles_in_order(*shape), SMS)
    tiles = sorted(tile for share in shares for tile in share)
    assert tiles == list(range(sequences * q_heads * -(-q_len // 128)))
    rows = table(shares)
    assert len(rows) == max(map(len, shares)) + 1
    assert all(len(row) == SMS for row in rows)
    assert rows[-1] == [-1] * SMS
    assert [row[5] for row in rows if row[5] >= 0] == shares[5]


@pytest.mark.parametrize("length", [4096, 8192, 16384])
def test_causal_blocks_end_together(length):
    """Within 1.5% of the mean: by turns, the n-th tile to block n % 132, it would be 3% to 30%."""
    shape = (16384 // length, 16, 1, length, length, 128, 128, 128, True)
    dealt = loads(shape)
    cost = dict(tiles_in_order(*shape))
    in_turn = [sum(cost[tile] for tile in range(block, len(cost), SMS)) for block in range(SMS)]
    mean = sum(dealt) / SMS
    assert max(dealt) <= 1.015 * mean
    assert max(in_turn) >= 1.03 * mean


def test_a_tile_costs_what_its_last_query_sees():
    """Causal, 300 queries after 84 keys: the last tile of queries sees all 384 keys, 3 tiles; the first one 212, 2 tiles."""
    order = tiles_in_order(1, 1, 1, 300, 384, 128, 128, 128, True)
    assert order == [(0, 3 + START_COST), (1, 3 + START_COST), (2, 2 + START_COST)]
    assert tiles_in_order(1, 1, 1, 300, 20, 128, 128, 128, True)[-1] == (2, 1 + START_COST)  # none: one tile of keys all the same


def test_heads_that_share_keys_stay_together_and_groups_follow_each_other():
    """4096 keys of 128 are 2 MiB: 4 KV heads at a time, with the 2 query heads of each."""
    order = [tile for tile, _ in tiles_in_order(1, 16, 2, 4096, 4096, 128, 128, 128, True)]
    heads = [tile // 32 for tile in order]
    assert set(heads[: 8 * 32]) == set(range(8))
    assert [tile % 32 for tile in order[:16]] == [0] * 8 + [1] * 8


SHAPE = (1, 4, 1, 1000, 1000, 128, 128, 128, True)


@pytest.fixture
def cache(monkeypatch):
    """An empty cache on a CPU; `cache.capturing` says whether a CUDA graph is being captured."""
    state = SimpleNamespace(capturing=False, kept=OrderedDict(), captured={}, recorded=[])
    monkeypatch.setattr(hopper_schedule, "_kept", state.kept)
    monkeypatch.setattr(hopper_schedule, "_captured", state.captured)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: state.capturing)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: f"of {device}")
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda self, stream: state.recorded.append((self, stream)))
    return state


def test_a_shape_is_dealt_once(cache):
    first = hopper_schedule.schedule(torch.device("cpu"), 5, SHAPE)
    assert first.dtype == torch.int32
    assert first.shape == (32 // 5 + 1 + 1, 5)
    assert sorted(first.flatten().tolist())[-32:] == list(range(32))
    assert hopper_schedule.schedule(torch.device("cpu"), 5, SHAPE) is first
    assert hopper_schedule.schedule(torch.device("cpu"), 6, SHAPE) is not first
    assert hopper_schedule.schedule(torch.device("meta"), 5, SHAPE).device.type == "meta"
    assert [(x is first, stream) for x, stream in cache.recorded[:2]] == [(True, "of cpu")] * 2  # the memory outlives a launch


def test_heads_that_share_the_cache_otherwise_are_dealt_anew(cache, monkeypatch):
    first = hopper_schedule.schedule(torch.device("cpu"), 5, SHAPE)
    monkeypatch.setattr(hopper_schedule, "L2_BYTES_FOR_KV", 1)
    assert not torch.equal(hopper_schedule.schedule(torch.device("cpu"), 5, SHAPE), first)


def test_what_was_used_last_is_kept_longest(cache, monkeypatch):
    monkeypatch.setattr(hopper_schedule, "MAX_KEPT", 2)
    first = hopper_schedule.schedule(torch.device("cpu"), 5, SHAPE)
    for blocks in (6, 5, 7):
        hopper_schedule.schedule(torch.device("cpu"), blocks, SHAPE)
    assert hopper_schedule.schedule(torch.device("cpu"), 5, SHAPE) is first


@pytest.mark.parametrize(("steps", "causal", "packed", "listed", "blocks"), [
    (EVERY_STEP, True, False, True, 3), (EVERY_STEP, True, False, False, 8), (EVERY_STEP, False, False, True, 3),
    (Ladder(balanced=False), True, False, True, 3), (Ladder.up_to("ping_pong"), True, False, True, 8),
    (EVERY_STEP, False, True, True, 3),
])  # fmt: skip
def test_who_deals(steps, causal, packed, listed, blocks, monkeypatch):
    """8 tiles on 3 SMs. A list where causal tiles differ, and without one the hardware; packed, a counter that begins at 0."""
    monkeypatch.setattr(hopper_launch, "processors_of", lambda device: 3)
    monkeypatch.setattr(hopper_schedule, "schedule", lambda where, blocks, shape: f"for {blocks}" if listed else None)
    q = torch.empty(1, 1000, 1, 64)
    cu = (torch.tensor([0, 1000]).int(),) * 2 if packed else None
    found, dealt = hopper_launch._dealt(Work(q, q, q, q, None, causal, 0.1, 1000, 1000, cu), steps, TILES[64])
    assert found == blocks
    if packed:
        assert (dealt.tolist(), dealt.dtype) == ([0], torch.int32)
    else:
        assert dealt == ("for 3" if causal and steps.balanced and listed else None)
    few = Work(q[:, :384], q, q, q, None, causal, 0.1, 384, 1000)
    assert hopper_launch._dealt(few, steps, TILES[64]) == (3, None)


def test_a_graph_takes_what_is_known_and_keeps_it(cache, monkeypatch):
    monkeypatch.setattr(hopper_schedule, "MAX_KEPT", 2)
    cache.capturing = True
    assert hopper_schedule.schedule(torch.device("cpu"), 5, SHAPE) is None
    cache.capturing = False
    known = hopper_schedule.schedule(torch.device("cpu"), 5, SHAPE)
    cache.capturing = True
    assert hopper_schedule.schedule(torch.device("cpu"), 5, SHAPE) is known
    cache.capturing = False
    for blocks in (6, 7, 8):
        hopper_schedule.schedule(torch.device("cpu"), blocks, SHAPE)
    assert len(cache.kept) == 2
    assert [x is known for x in cache.captured.values()] == [True]


def test_too_many_tiles_are_left_to_the_hardware(cache):
    many = (1, 1, 1, 128 * (hopper_schedule.MAX_TILES + 1), 100, 128, 128, 128, True)
    assert hopper_schedule.schedule(torch.device("cpu"), 5, many) is None
    assert not cache.kept
