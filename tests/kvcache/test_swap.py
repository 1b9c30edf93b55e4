"""Swap and recompute give back the same KV, bit for bit, and the cost model says which is quicker and where that changes."""

from itertools import pairwise
from random import Random

import pytest
import torch

from course_lib.kvcache.block_pool import BlockPool
from course_lib.kvcache.errors import KVCacheError, OutOfBlocks, SequenceExists, UnknownSequence
from course_lib.kvcache.swap import Recompute, SwapSpace
from course_lib.kvcache.swap_cost import Machine, Stretch, recompute_seconds, stretches, swap_seconds
from course_lib.roofline.models import LLAMA_2_7B, LLAMA_3_8B
from course_lib.roofline.steps import chunk_step

BLOCK = 4
H200 = {"peak_flops": 989.4e12, "memory_bytes_per_second": 4.8e12, "prefill_efficiency": 0.6}


class Memory:
    """KV of one layer, [num_blocks, BLOCK, 2] float64. KV of a token depends on all tokens before it, as in a model."""

    def __init__(self, blocks):
        self.kv = torch.full((blocks, BLOCK, 2), float("nan"), dtype=torch.float64)

    def prefill(self, tokens, blocks):
        rows = torch.tensor(tokens, dtype=torch.float64).cumsum(0)
        for start, block in zip(range(0, len(tokens), BLOCK), blocks, strict=False):
            part = rows[start : start + BLOCK]
            self.kv[block, : len(part)] = torch.stack([part.sin(), part.cos()], -1)

    def copy_out(self, block):
        return self.kv[block].clone()

    def copy_in(self, content, block):
        self.kv[block] = content

    def of(self, blocks, tokens):
        return self.kv[blocks].reshape(-1, 2)[:tokens].clone()


def ways(pool, memory, budget=99):
    return SwapSpace(pool, budget, memory.copy_out, memory.copy_in), Recompute(pool, memory.prefill)


@pytest.mark.parametrize("seed", range(4))
def test_both_ways_give_back_the_same_keys_and_values(seed):
    random = Random(seed)
    pool, memory = BlockPool(20, BLOCK), Memory(20)
    both = ways(pool, memory)
    running, preempted = {}, {}  # sequence -> (tokens, blocks), (tokens, kv, way)
    came_back = [0, 0]
    for number in range(300):
        kind = random.random()
        if kind < 0.4:
            tokens = [random.randrange(9) for _ in range(random.randrange(1, 14))]
            need = -(-len(tokens) // BLOCK)
            if need <= pool.num_free:
                running[number] = (tokens, pool.allocate(need))
                memory.prefill(*running[number])
        elif kind < 0.6 and running:
            seq = random.choice(list(running))
            tokens, blocks = running.pop(seq)
            preempted[seq] = (tokens, memory.of(blocks, len(tokens)), random.randrange(2))
            both[preempted[seq][2]].preempt(seq, blocks, tokens)
            memory.kv[[block for block in blocks if not pool.ref_count(block)]] = float("nan")
        elif kind < 0.8 and preempted:
            seq = random.choice(list(preempted))
            tokens, kv, way = preempted[seq]
            need = -(-len(tokens) // BLOCK)
            if need > pool.num_free:
                with pytest.raises(OutOfBlocks):
                    both[way].resume(seq)
            else:
                blocks = both[way].resume(seq)
                assert torch.equal(memory.of(blocks, len(tokens)), kv)
                running[seq] = (tokens, blocks)
                del preempted[seq]
                came_back[way] += 1
        elif running:
            pool.release(running.pop(random.choice(list(running)))[1])
        pool.check([blocks for _, blocks in running.values()])
        for way in both:
            way.check()
        assert both[0].num_free == 99 - sum(-(-len(tokens) // BLOCK) for tokens, _, way in preempted.values() if way == 0)
    assert min(came_back) > 5


@pytest.mark.parametrize("way", [0, 1])
def test_shared_blocks_stay_with_the_others(way):
    pool, memory = BlockPool(4, BLOCK), Memory(4)
    preemption = ways(pool, memory)[way]
    blocks = pool.allocate(2)
    memory.prefill([1, 2, 3, 4, 5, 6], blocks)
    pool.retain(blocks[:1])  # a fork reads the first one
    preemption.preempt("a", blocks, [1, 2, 3, 4, 5, 6])
    assert (pool.num_free, pool.ref_count(blocks[0])) == (3, 1)
    back = preemption.resume("a")
    assert blocks[0] not in back
    assert torch.equal(memory.of(back[:1], 4), memory.of(blocks[:1], 4))


def test_all_or_nothing():
    pool, memory = BlockPool(3, BLOCK), Memory(3)
    swap, recompute = ways(pool, memory, budget=1)
    blocks = pool.allocate(2)
    with pytest.raises(OutOfBlocks):
        swap.preempt("a", blocks, [1] * 8)
    assert (swap.num_free, pool.num_free) == (1, 1)
    for way in (swap, recompute):
        with pytest.raises(KVCacheError, match="9 tokens are not in 2 blocks"):
            way.preempt("a", blocks, [1] * 9)
        with pytest.raises(UnknownSequence, match="'a' is not preempted"):
            way.resume("a")
    recompute.preempt("a", blocks, [1] * 8)
    with pytest.raises(SequenceExists, match="preempted already"):
        recompute.preempt("a", blocks, [1] * 8)
    held = pool.allocate(2)
    with pytest.raises(OutOfBlocks):
        recompute.resume("a")
    pool.release(held)
    assert len(recompute.resume("a")) == 2
    with pytest.raises(UnknownSequence):
        recompute.resume("a")


@pytest.mark.parametrize("way", [0, 1])
def test_a_failure_on_the_way_back_frees_the_blocks_and_may_be_tried_again(way):
    pool, memory = BlockPool(3, BLOCK), Memory(3)
    preemption = ways(pool, memory)[way]
    blocks = pool.allocate(2)
    memory.prefill([1] * 8, blocks)
    preemption.preempt("a", blocks, [1] * 8)
    broken = "_copy_in" if way == 0 else "_prefill"
    good = getattr(preemption, broken)
    setattr(preemption, broken, lambda *arguments: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        preemption.resume("a")
    assert pool.num_free == 3
    setattr(preemption, broken, good)
    assert len(preemption.resume("a")) == 2


def test_host_memory_may_be_filled_to_its_last_block():
    pool, memory = BlockPool(3, BLOCK), Memory(3)
    swap, _ = ways(pool, memory, budget=2)
    swap.preempt("a", pool.allocate(2), [1] * 8)
    assert (swap.num_free, pool.num_free) == (0, 3)
    nothing, _ = ways(pool, memory, budget=0)
    nothing.preempt("b", [], [])
    with pytest.raises(OutOfBlocks, match="1 blocks wanted, 0 free and 0 cached of 0"):
        nothing.preempt("c", pool.allocate(1), [1])
    with pytest.raises(KVCacheError, match="swap space of -1"):
        ways(pool, memory, budget=-1)


def test_a_dropped_sequence_gives_its_room_back():
    pool, memory = BlockPool(3, BLOCK), Memory(3)
    for way in ways(pool, memory):
        way.preempt("a", pool.allocate(2), [1] * 8)
        way.drop("a")
        with pytest.raises(UnknownSequence):
            way.drop("a")
        way.check()


def test_swap_seconds_by_hand():
    link = Machine(link_bytes_per_second=50e9, **H200)
    assert swap_seconds(LLAMA_3_8B, 2048, link) == pytest.approx(2 * 2048 * 131_072 / 50e9)
    assert swap_seconds(LLAMA_3_8B, 2033, link) == swap_seconds(LLAMA_3_8B, 2048, link)  # whole blocks travel
    assert swap_seconds(LLAMA_3_8B, 2048, link, ways=1) == pytest.approx(2048 * 131_072 / 50e9)
    many = Machine(link_bytes_per_second=50e9, seconds_per_copy=2e-6, copies_per_block=64, **H200)
    assert swap_seconds(LLAMA_3_8B, 2048, many) == pytest.approx(2 * (128 * 64 * 2e-6 + 2048 * 131_072 / 50e9))


def test_recompute_seconds_by_hand():
    machine = Machine(link_bytes_per_second=50e9, **H200)
    step = chunk_step(LLAMA_3_8B, 2048, 0)
    assert recompute_seconds(LLAMA_3_8B, 2048, machine) == pytest.approx(step.flops / 989.4e12 / 0.6)
    assert recompute_seconds(LLAMA_3_8B, 1, machine) == pytest.approx(chunk_step(LLAMA_3_8B, 1, 0).bytes_moved / 4.8e12 / 0.6)
    assert recompute_seconds(LLAMA_3_8B, 2048, machine, 2048) == 0
    assert 0 < recompute_seconds(LLAMA_3_8B, 2048, machine, 1024) < recompute_seconds(LLAMA_3_8B, 2048, machine)
    with pytest.raises(KVCacheError, match="3 of 2 tokens"):
        recompute_seconds(LLAMA_3_8B, 2, machine, 3)
    with pytest.raises(KVCacheError, match="prefill_efficiency"):
        Machine(link_bytes_per_second=1, peak_flops=1, memory_bytes_per_second=1, prefill_efficiency=1.5)


def test_a_fast_link_and_large_copies_make_swap_the_quicker_way_at_every_length():
    machine = Machine(link_bytes_per_second=55e9, **H200)
    assert stretches(LLAMA_3_8B, machine, 32_768) == [Stretch(16, 32_768, "swap")]


def test_small_copies_make_recompute_the_quicker_way_in_the_middle():
    """Llama-2-7B, 64 copies of 128 KiB for each block at 2 us a start: short is swapped, middle recomputed, very long swapped."""
    machine = Machine(link_bytes_per_second=55e9, seconds_per_copy=2e-6, copies_per_block=64, **H200)
    parts = stretches(LLAMA_2_7B, machine, 65_536)
    assert [part.way for part in parts] == ["swap", "recompute", "swap"]
    assert parts[1].first_tokens < 200
    assert 16_384 < parts[1].last_tokens < 65_536


def test_stretches_cut_where_the_two_times_cross():
    machine = Machine(link_bytes_per_second=25e9, seconds_per_copy=2e-6, copies_per_block=64, **H200)
    parts = stretches(LLAMA_3_8B, machine, 16_384)
    assert len(parts) == 3
    for before, after in pairwise(parts):
        assert after.first_tokens == before.last_tokens + 16
        for part, tokens in [(before, before.last_tokens), (after, after.first_tokens)]:
            swap, recompute = swap_seconds(LLAMA_3_8B, tokens, machine), recompute_seconds(LLAMA_3_8B, tokens, machine)
            assert (swap <= recompute) == (part.way == "swap")
