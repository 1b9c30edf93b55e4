"""The Hopper kernel's barriers, copies and masks, run from its own source by threads (gluon_emulated.py), against float64."""

import random

import pytest
import torch

from course_lib.attention import hopper_schedule
from course_lib.attention.hopper_kernel import hopper_forward_kernel
from course_lib.attention.hopper_ladder import EVERY_STEP, STEPS, Ladder
from course_lib.attention.hopper_launch import HopperTile, Work, launch_arguments, tile_for
from course_lib.attention.hopper_plain import hopper_plain_kernel
from course_lib.attention.hopper_schedule import deal, table, tiles_in_order
from course_lib.attention.hopper_tiles import unmasked_tiles
from course_lib.attention.reference import attention_reference, packed_reference

from . import gluon_emulated as emulated
from .flash_cases import assert_within_budget, random_qkv


def attend(q, k, v, *, causal, steps=EVERY_STEP, blocks=2, seed=0, tile=None):
    """What hopper_launch.launch does, on `blocks` blocks."""
    (batch, q_len, q_heads, head_dim), (kv_len, kv_heads) = q.shape, k.shape[1:3]
    tile = tile or tile_for(head_dim, steps)
    out = torch.full_like(q, torch.nan)
    lse = torch.full((batch, q_heads, q_len), torch.nan)
    work = Work(q, k, v, out, lse, causal, head_dim**-0.5, q_len, kv_len)
    tiles = work.tiles(tile)
    blocks, listed = (min(blocks, tiles), None) if steps.persistent else (tiles, None)
    if steps.balanced:
        shape = (batch, q_heads, q_heads // kv_heads, q_len, kv_len, head_dim, tile.queries, tile.keys, causal)
        listed = torch.tensor(table(deal(tiles_in_order(*shape), blocks)), dtype=torch.int32)
    run(work, listed, blocks, steps, tile, seed)
    return out, lse


def run(work, listed, blocks, steps, tile, seed=0):
    args, constants = launch_arguments(work, listed, blocks, steps, tile)
    heads_first = [x.permute(0, 2, 1, 3) for x in (work.q, work.k, work.v, work.out)]
    if work.scales:
        heads_first[2] = work.v
    args[:4] = [emulated.Descriptor(x, d.block_shape) for x, d in zip(heads_first, args[:4], strict=True)]
    args = [emulated.Pointer(x) if isinstance(x, torch.Tensor) else x for x in args]
    constants.pop("num_warps")
    kernel = hopper_forward_kernel if steps.specialised else hopper_plain_kernel
    emulated.run(kernel, blocks, args, constants, seed)


@pytest.mark.parametrize("causal", [False, True])
def test_packed_sequences_of_nan_stay_alone(causal):
    lengths = [(150, 200), (0, 5), (129, 1), (7, 300), (128, 128), (300, 0)]
    cu_q, cu_k = (torch.tensor([0, *x]).cumsum(0).int() for x in zip(*lengths, strict=True))
    q, k, v = (x[0] for x in random_qkv(1, int(cu_q[-1]), int(cu_k[-1]), 2, 1, 128, torch.bfloat16))
    expected = packed_reference(q, k, v, cu_q, cu_k, causal=causal)
    clean = torch.ones(len(q), dtype=torch.bool)
    largest = v.clone()
    for i in (0, 4):
        rows, keys = slice(cu_q[i], cu_q[i + 1]), slice(cu_k[i], cu_k[i + 1])
        q[rows] = k[keys] = v[keys] = torch.nan
        clean[rows] = False
    out, lse = torch.full_like(q, torch.nan), torch.full((2, len(q)), torch.nan)
    work = Work(q[None], k[None], v[None], out[None], lse, causal, 128**-0.5, 300, 300, (cu_q, cu_k))
    tile = tile_for(128, EVERY_STEP)
    for blocks, counter in ((work.tiles(tile), None), (3, None), (3, torch.zeros(1, dtype=torch.int32))):
        run(work, counter, blocks, EVERY_STEP, tile)
        found, wanted = (out[clean], lse[:, clean]), (expected[0][clean], expected[1][:, clean])
        assert_within_budget(found, wanted, largest, torch.bfloat16, 2.0**-14)


def test_packed_rows_of_80_stay_in_their_rows():
    """Padded to 128 in shared memory; rows at a sequence's end leave by ordinary stores."""
    cu_q, cu_k = torch.tensor([0, 70, 100]).int(), torch.tensor([0, 50, 140]).int()
    q, k, v = (x[0] for x in random_qkv(1, 100, 140, 2, 1, 80, torch.bfloat16))
    out, lse = torch.full_like(q, torch.nan), torch.full((2, 100), torch.nan)
    work = Work(q[None], k[None], v[None], out[None], lse, False, 80**-0.5, 70, 90, (cu_q, cu_k))
    run(work, None, work.tiles(tile_for(80, EVERY_STEP)), EVERY_STEP, tile_for(80, EVERY_STEP))
    assert_within_budget((out, lse), packed_reference(q, k, v, cu_q, cu_k, causal=False), v, torch.bfloat16, 2.0**-14)


def check(sizes, causal, dtype=torch.bfloat16, **more):
    q, k, v = random_qkv(*sizes, dtype)
    found = attend(q, k, v, causal=causal, **more)
    assert_within_budget(found, attention_reference(q, k, v, causal=causal), v, dtype, 2.0**-14)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("step", STEPS)
def test_every_step_of_the_ladder_is_attention(step, causal):
    check((2, 300, 391, 2, 1, 128), causal, steps=Ladder.up_to(step), seed=STEPS.index(step))


@pytest.mark.parametrize(("q_len", "kv_len"), [(1, 1), (128, 128), (129, 512), (256, 130), (300, 40), (65, 383), (257, 1)])
def test_lengths_around_every_edge(q_len, kv_len):
    for causal in (False, True):
        check((1, q_len, kv_len, 2, 1, 128), causal)


@pytest.mark.parametrize("heads_at_a_time", [4, 12])
def test_tiles_are_drawn_until_none_is_left(heads_at_a_time, monkeypatch):
    """Of 12 heads: 4 at a time, which is no divisor of the 6 of a sequence, and all of them."""
    monkeypatch.setattr(hopper_schedule, "L2_BYTES_FOR_KV", heads_at_a_time // 2 * 500 * 64 * 4)
    q, k, v = random_qkv(2, 400, 500, 6, 3, 64, torch.bfloat16)
    out, lse = torch.full_like(q, torch.nan), torch.full((2, 6, 400), torch.nan)
    work, counter = Work(q, k, v, out, lse, True, 64**-0.5, 400, 500), torch.zeros(1, dtype=torch.int32)
    assert hopper_schedule.heads_at_a_time(2, 500, 64) == heads_at_a_time
    run(work, counter, 3, EVERY_STEP, tile_for(64, EVERY_STEP))
    assert_within_budget((out, lse), attention_reference(q, k, v, causal=True), v, torch.bfloat16, 2.0**-14)
    assert counter.item() == work.tiles(tile_for(64, EVERY_STEP))


def test_tiles_of_keys_that_need_no_mask_are_not_masked():
    """Causal: those that the first of the queries sees whole."""
    count = emulated.plain_function(unmasked_tiles)
    for row, q_len, kv_len, causal, expected in (
        (127, 256, 256, True, 1), (126, 256, 256, True, 0), (0, 128, 256, True, 1), (0, 128, 254, True, 0), (0, 9, 256, False, 2),
        (0, 9, 255, False, 1),
    ):  # fmt: skip
        assert count(row, q_len, kv_len, 128, causal) == expected, (row, q_len, kv_len)


def test_three_consumers_take_turns():
    for dtype in (torch.bfloat16, torch.float16):
        check((1, 500, 391, 2, 1, 64), True, dtype, tile=HopperTile(3, 64, 128, 2, True))


@pytest.mark.parametrize("head_dim", [64, 80, 256])
def test_other_head_dims(head_dim):
    dice = random.Random(head_dim)
    for causal in (False, True):
        check((1, dice.randrange(100, 400), dice.randrange(1, 500), 4, 2, head_dim), causal, torch.float16)
