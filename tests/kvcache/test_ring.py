"""The ring against a dense cache with a window mask: same keys seen, same attention, bounded memory, no block freed twice."""

from random import Random

import pytest
import torch

from course_lib.attention.decode import paged_decode
from course_lib.kvcache.block_pool import BlockPool
from course_lib.kvcache.errors import KVCacheError, NotHeld, OutOfBlocks, UnknownSequence
from course_lib.kvcache.ring import RingCache

BLOCK = 4


def seen_by(position, window, sinks):
    return [p for p in range(position + 1) if p < sinks or p > position - window]


class Memory:
    """What lies in each slot: the position and whose text it is. Copies are done as told."""

    def __init__(self, blocks, block_size=BLOCK):
        self.cells, self.size = [None] * (blocks * block_size), block_size

    def write(self, appended, values):
        for source, target in appended.copies:
            for offset in range(self.size):
                self.cells[target * self.size + offset] = self.cells[source * self.size + offset]
        for slot, value in zip(appended.slots, values, strict=True):
            self.cells[slot] = value


def random_operations(ring_class, seed, steps=250, *, poison=None):
    """A family of forks appends, forks and frees; every window must hold the family member's own text. check() after each."""
    random = Random(seed)
    window, sinks, chunk = random.choice([(8, 4, 1), (7, 3, 1), (9, 0, 3), (5, 5, 4), (1, 1, 1), (8, 1, 5)])
    pool = BlockPool(40, BLOCK)
    memory = Memory(40)
    family = [(ring_class(pool, window, sinks, chunk), [])]
    for step in range(steps):
        ring, text = family[index := random.randrange(len(family))]
        kind = random.random()
        if kind < 0.8:
            new = [(step, number) for number in range(random.randrange(chunk + 1))]
            try:
                appended = ring.append(len(new))
            except OutOfBlocks:
                new = []
            else:
                memory.write(appended, new)
            text += new
        elif kind < 0.9 and len(family) < 4:
            family.append((ring.fork(), list(text)))
        elif len(family) > 1:
            ring.free()
            del family[index]
        for ring, text in family:
            ring.check()
            assert ring.length == len(text)
            assert len(ring.blocks) <= -(-sinks // BLOCK) - (-(window + chunk - 1) // BLOCK)
            for position in range(max(len(text) - chunk, 0), len(text)):
                live = ring.live(position)
                assert [entry.position for entry in live] == seen_by(position, window, sinks)
                assert [entry.rank for entry in live] == list(range(len(live)))
                assert [memory.cells[entry.slot] for entry in live] == [text[entry.position] for entry in live]
        pool.check([ring.blocks for ring, _ in family])
    for ring, _ in family:
        ring.free()
    assert pool.num_free == pool.num_blocks


@pytest.mark.parametrize("seed", range(12))
def test_every_window_holds_its_own_text_through_wraps_and_forks(seed):
    random_operations(RingCache, seed)


class OffByOneAtTheWrap(RingCache):
    def _ring_slot(self, position):
        return (position - self.sinks) % (self._ring_blocks * self.pool.block_size - 1)


class WrapsOneLate(RingCache):
    def _ring_slot(self, position):
        return (position - self.sinks) % (self._ring_blocks * self.pool.block_size + 1)


class WritesSharedBlocks(RingCache):
    def _is_shared(self, block):
        return False


class ForkTakesNoReference(RingCache):
    def fork(self):
        child = super().fork()
        self.pool.release(child.blocks)
        return child


class OneTokenTooSmall(RingCache):
    def __init__(self, pool, window, sinks=0, max_append=1):
        super().__init__(pool, window, sinks, max_append)
        self._ring_blocks = max(1, (window + max_append - 2) // pool.block_size)


@pytest.mark.parametrize("broken", [OffByOneAtTheWrap, WrapsOneLate, WritesSharedBlocks, ForkTakesNoReference, OneTokenTooSmall])
def test_family_finds_planted_mistakes(broken):
    def some_seed_breaks_it():
        for seed in range(12):
            random_operations(broken, seed)

    with pytest.raises((AssertionError, NotHeld, IndexError)):
        some_seed_breaks_it()


@pytest.mark.parametrize(("window", "sinks", "chunk"), [(8, 4, 1), (6, 1, 3), (13, 2, 8)])
def test_attention_over_the_ring_is_attention_over_a_dense_window(window, sinks, chunk):
    generator = torch.Generator().manual_seed(7)
    length, dim = 61, 8
    q, k, v = torch.randn(3, length, dim, generator=generator, dtype=torch.float64)
    pool = BlockPool(12, BLOCK)
    ring = RingCache(pool, window, sinks, chunk)
    keys, values = torch.full((2, 12 * BLOCK, dim), float("nan"), dtype=torch.float64)  # what is not live must not be read
    allowed = torch.zeros(length, length, dtype=torch.bool)
    for position in range(length):
        allowed[position, seen_by(position, window, sinks)] = True
    dense = (q @ k.T).masked_fill(~allowed, float("-inf")).softmax(-1) @ v
    for start in range(0, length, chunk):
        stop = min(start + chunk, length)
        appended = ring.append(stop - start)
        keys[appended.slots], values[appended.slots] = k[start:stop], v[start:stop]
        for position in range(start, stop):
            slots = [entry.slot for entry in ring.live(position)]
            ours = (keys[slots] @ q[position]).softmax(0) @ values[slots]
            torch.testing.assert_close(ours, dense[position], rtol=1e-12, atol=1e-12)  # float64, sums of < 20 terms in two orders


def test_full_blocks_need_no_mask():
    """Window and sinks of whole blocks, one token at a time: a kernel reads the row to min(length, 12) and needs nothing else."""
    pool = BlockPool(3, BLOCK)
    ring = RingCache(pool, window=8, sinks=4)
    for length in range(1, 40):
        ring.append(1)
        row = [block * BLOCK + offset for block in ring.blocks for offset in range(BLOCK)]
        assert sorted(entry.slot for entry in ring.live()) == sorted(row[: min(length, 12)])


def test_a_paged_decode_kernel_reads_such_a_ring_as_it_reads_any_row():
    """It knows nothing of rings: blocks in a table, and a length. A dense cache with a mask says the same."""
    generator = torch.Generator().manual_seed(3)
    length, heads, dim = 90, 2, 64
    q, k, v = torch.randn(3, length, heads, dim, generator=generator)
    pool = BlockPool(5, 16)
    ring = RingCache(pool, window=32, sinks=16)
    keys, values = torch.full((2, 5, 16, heads, dim), float("nan"))
    for position in range(length):
        (slot,) = ring.append(1).slots
        keys.view(-1, heads, dim)[slot], values.view(-1, heads, dim)[slot] = k[position], v[position]
        if position % 7 == 0:
            table, kv_lengths = (torch.tensor(x, dtype=torch.int32) for x in ([ring.blocks], [min(position + 1, 48)]))
            ours = paged_decode(q[None, None, position], keys, values, table, kv_lengths, impl="dense")
            seen = seen_by(position, 32, 16)
            weights = (torch.einsum("hd,khd->hk", q[position].double(), k[seen].double()) * dim**-0.5).softmax(-1)
            expected = torch.einsum("hk,khd->hd", weights, v[seen].double()).float()
            torch.testing.assert_close(ours[0, 0], expected, rtol=1e-4, atol=1e-5)  # fp32 sums of at most 64 terms


def test_memory_is_that_of_the_window_however_long_the_text():
    pool = BlockPool(3, BLOCK)
    ring = RingCache(pool, window=8, sinks=4)
    for _ in range(10_000):
        ring.append(1)
    assert (ring.length, len(ring.blocks), ring.max_blocks) == (10_000, 3, 3)


def test_two_blocks_for_single_tokens_three_for_chunks():
    pool = BlockPool(8, BLOCK)
    assert [RingCache(pool, 8, 0, chunk).max_blocks for chunk in (1, 2, 5, 6)] == [2, 3, 3, 4]


def test_a_block_whose_content_has_a_name_is_not_written_over():
    pool = BlockPool(4, BLOCK)
    ring = RingCache(pool, window=4)
    (block,) = {slot // BLOCK for _ in range(4) for slot in ring.append(1).slots}
    pool.name(block)
    appended = ring.append(1)
    assert appended.copies == [(block, appended.slots[0] // BLOCK)]
    assert (pool.num_cached, pool.num_held) == (1, 1)


def test_refusals_say_what_is_possible_and_change_nothing():
    pool = BlockPool(2, BLOCK)
    ring = RingCache(pool, window=6, sinks=1, max_append=3)
    with pytest.raises(KVCacheError, match=r"4 tokens to append.*room for 3.*chunks"):
        ring.append(4)
    ring.append(3)
    with pytest.raises(KVCacheError, match=r"window 0"):
        RingCache(pool, 0)
    for _ in range(2):
        with pytest.raises(OutOfBlocks):
            [ring.append(3) for _ in range(9)]
        assert (pool.num_free, len(ring.blocks), ring.length) == (0, 2, 3)
    assert [entry.position for entry in ring.live(0)] == [0]
    with pytest.raises(KVCacheError, match="query at 3 of 3"):
        ring.live(3)
    with pytest.raises(KVCacheError, match="query at -1 of 3"):
        ring.live(-1)
    short = RingCache(BlockPool(2, BLOCK), window=6, max_append=3)
    short.append(1)
    with pytest.raises(KVCacheError, match="query at -1 of 1"):
        short.live(-1)
    ring.free()
    for call in (ring.free, ring.fork, ring.live, lambda: ring.append(1)):
        with pytest.raises(UnknownSequence, match="freed"):
            call()
    assert pool.num_free == 2


def test_a_window_that_is_gone_is_refused():
    ring = RingCache(BlockPool(9, BLOCK), window=4, max_append=3)
    for _ in range(4):
        ring.append(3)
    assert [entry.position for entry in ring.live(9)] == [6, 7, 8, 9]
    with pytest.raises(KVCacheError, match=r"query at 8 of 12.*from 9 on"):
        ring.live(8)


def test_an_empty_ring_shows_nothing():
    ring = RingCache(BlockPool(2, BLOCK), window=4, sinks=2)
    assert (ring.live(), ring.blocks, ring.append(0).slots) == ([], [], [])
