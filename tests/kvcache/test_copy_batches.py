"""Tiers and swap hand over whole batches: few calls, the same books as block by block, and sound ones when a call fails."""

from random import Random

import pytest

from course_lib.kvcache import (
    BlockPool,
    HostTier,
    KVCacheError,
    PrefixCache,
    RadixTree,
    SwapSpace,
    TieredPrefixCache,
    TieredPrefixes,
)
from course_lib.kvcache.copy_batches import BATCH_BLOCKS, Leaving, copy_all_in, in_batches

PAGE = 2


class Memory:
    """One value a block; counts calls and what came with each. A block that nobody holds is written over at any time."""

    def __init__(self, blocks):
        self.values, self.out, self.back = [f"first {block}" for block in range(blocks)], [], []
        self.fails = False

    @in_batches
    def copy_out(self, blocks):
        assert isinstance(blocks, list), "a single block"
        self.out.append(len(blocks))
        if self.fails:
            raise RuntimeError("link down")
        return [self.values[block] for block in blocks]

    @in_batches
    def copy_in(self, contents, blocks):
        assert isinstance(blocks, list), "a single block"
        self.back.append(len(blocks))
        if self.fails:
            raise RuntimeError("link down")
        for content, block in zip(contents, blocks, strict=True):
            self.values[block] = content


class OfTheTree:
    def __init__(self, blocks, host, memory):
        self.pool = BlockPool(blocks, PAGE)
        self.tree = RadixTree(self.pool)
        self.tiers = TieredPrefixes(self.tree, host, memory.copy_out, memory.copy_in)

    def put(self, tokens):
        blocks = self.pool.allocate(len(tokens) // PAGE)
        self.tree.insert(tokens, blocks)
        self.pool.release(blocks)
        return blocks

    def evict(self, n):
        self.tiers.evict(n)

    def find(self, tokens):
        lock = self.tiers.lock(tokens).lock
        self.tree.unlock(lock)
        return lock.blocks

    def check(self):
        self.tree.check([])


class OfTheCache:
    def __init__(self, blocks, host, memory):
        self.pool = BlockPool(blocks, PAGE)
        self.cache = PrefixCache(self.pool)
        self.tiers = TieredPrefixCache(self.cache, host, memory.copy_out, memory.copy_in)

    def put(self, tokens):
        blocks = self.pool.allocate(len(tokens) // PAGE)
        self.cache.insert(tokens, blocks)
        self.pool.release(blocks)
        return blocks

    def evict(self, n):
        self.pool.release(self.pool.allocate(n + self.pool.num_free))

    def find(self, tokens):
        blocks = self.tiers.match([*tokens, 0]).blocks
        self.pool.release(blocks)
        return blocks

    def check(self):
        self.cache.check()
        self.pool.check([])


BOTH = pytest.mark.parametrize("kind", [OfTheTree, OfTheCache])


@BOTH
def test_a_prefix_leaves_and_comes_back_in_one_call_each(kind):
    memory, host = Memory(20), HostTier(40)
    device = kind(20, host, memory)
    text = list(range(18))
    blocks = device.put(text)
    was = [memory.values[block] for block in blocks]
    device.evict(9)
    memory.values[:] = ["written over"] * 20
    assert (memory.out, memory.back, len(host)) == ([9], [], 9)
    assert [memory.values[block] for block in device.find(text)] == was
    assert (memory.out, memory.back) == ([9], [9])
    device.evict(9)  # the host has them still
    assert (memory.out, host.statistics.spared_copies) == ([9], 9)
    device.check()
    host.check()


@BOTH
def test_many_leave_in_batches_of_bounded_size(kind):
    blocks = 2 * BATCH_BLOCKS + 7
    memory, host = Memory(blocks), HostTier(1000)
    device = kind(blocks, host, memory)
    device.put(list(range(2 * blocks)))
    device.evict(blocks)
    assert memory.out == [BATCH_BLOCKS, BATCH_BLOCKS, 7]
    device.find(list(range(2 * blocks)))
    assert memory.back == [blocks]
    device.check()
    host.check()


@BOTH
def test_an_eviction_whose_copy_fails_loses_contents_and_no_books(kind):
    memory, host = Memory(12), HostTier(40)
    device = kind(12, host, memory)
    device.put(list(range(12)))
    memory.fails = True
    with pytest.raises(RuntimeError, match="link down"):
        device.evict(4)
    device.check()
    host.check()
    assert (len(host), len(memory.out)) == (0, 1)
    memory.fails = False
    memory.values[:] = ["somebody else's"] * 12
    left = device.pool.num_available - device.pool.num_free
    device.evict(left)  # later ones do not bring the lost ones along
    assert set(device.find(list(range(12)))) <= set(range(12))
    device.check()
    host.check()
    assert sum(memory.out[1:]) == left < 6


@BOTH
def test_a_way_back_that_fails_may_be_gone_again(kind):
    memory, host = Memory(8), HostTier(40)
    device = kind(8, host, memory)
    blocks = device.put(list(range(12)))
    was = [memory.values[block] for block in blocks]
    device.evict(6)
    memory.fails = True
    with pytest.raises(RuntimeError, match="link down"):
        device.find(list(range(12)))
    device.check()
    host.check()
    memory.fails, memory.values[:] = False, ["written over"] * 8
    assert [memory.values[block] for block in device.find(list(range(12)))] == was


@BOTH
def test_what_finds_no_room_on_the_device_stays_on_the_host(kind):
    memory, host = Memory(8), HostTier(40)
    device = kind(8, host, memory)
    blocks = device.put(list(range(12)))
    was = [memory.values[block] for block in blocks]
    device.evict(6)
    held = device.pool.allocate(5)
    assert [memory.values[block] for block in device.find(list(range(12)))] == was[:3]
    assert (memory.back, len(host)) == ([3], 6)
    device.pool.release(held)
    device.check()


def test_what_left_before_an_eviction_broke_off_is_kept(monkeypatch):
    memory, host = Memory(6), HostTier(40)
    device, evict = OfTheTree(6, host, memory), RadixTree.evict

    def breaks_off(tree, pages, on_evict):
        evict(tree, pages, on_evict)
        raise RuntimeError("broke off")

    device.put(list(range(12)))
    monkeypatch.setattr(RadixTree, "evict", breaks_off)
    with pytest.raises(RuntimeError, match="broke off"):
        device.evict(2)
    assert (memory.out, len(host)) == ([2], 2)


def test_contents_and_blocks_are_as_many():
    with pytest.raises(ValueError, match="is longer"):
        copy_all_in(lambda content, block: None, ["one"], [1, 2])


def test_only_what_was_evicted_is_counted():
    device = OfTheCache(6, HostTier(40), Memory(6))
    device.put(list(range(6)))
    assert len(device.cache.evict(5)) == device.cache.stats.evicted_blocks == 3


def test_a_swapped_sequence_moves_in_one_call_each_way():
    pool, memory = BlockPool(9, PAGE), Memory(9)
    swap = SwapSpace(pool, 9, memory.copy_out, memory.copy_in)
    blocks = pool.allocate(7)
    memory.fails = True
    with pytest.raises(RuntimeError, match="link down"):
        swap.preempt("a", blocks, [1] * 14)
    assert (swap.num_free, pool.num_held) == (9, 7)
    memory.fails = False
    swap.preempt("a", tuple(blocks), [1] * 14)
    memory.values[:] = ["written over"] * 9
    back = swap.resume("a")
    assert [memory.values[block] for block in back] == [f"first {block}" for block in blocks]
    assert (memory.out, memory.back) == ([7, 7], [7])
    swap.preempt("nothing", [], [])
    assert swap.resume("nothing") == []
    assert (memory.out, memory.back) == ([7, 7], [7])


@pytest.mark.parametrize("policy", ["lru", "lfu"])
@pytest.mark.parametrize("seed", range(6))
def test_a_batch_is_kept_as_one_after_the_other_would_be(seed, policy):
    """Budgets below the size of a batch too: what the batch itself pushes out is copied again when it comes later."""
    random = Random(seed)
    budget = random.choice([0, 1, 3, 8])
    together, apart = HostTier(budget, policy), HostTier(budget, policy)
    for _ in range(150):
        evicted = {}
        for _ in range(random.randrange(7)):
            text = [(random.randrange(2),) for _ in range(random.randrange(1, 4))]
            for stop in range(len(text), random.randrange(len(text)), -1):
                evicted.setdefault(tuple(text[:stop]), len(evicted))
        batch = [(list(path), block) for path, block in evicted.items()]
        together.keep_all(batch, lambda block, paths=list(evicted): paths[block])
        for path, _ in batch:
            apart.keep(path, lambda path=path: tuple(path))
        for host in (together, apart):
            host.check()
        assert together.statistics == apart.statistics
        assert kept(together) == kept(apart)
        assert all(content == path for path, content in kept(together).items())


def kept(host):
    found, waiting = {}, [((), host._root)]
    while waiting:
        path, place = waiting.pop()
        if place.kept:
            found[path] = place.content
        waiting += [((*path, page), child) for page, child in place.children.items()]
    return found


def test_a_batch_whose_copy_fails_changes_nothing_in_the_host():
    host = HostTier(4)
    host.keep([(1,), (2,)], lambda: "kept")
    with pytest.raises(ZeroDivisionError):
        host.keep_all([([(1,), (2,), (3,)], 0), ([(1,)], 1), ([(7,), (8,)], 2)], lambda block: 1 / 0)
    host.check()
    assert kept(host) == {((1,), (2,)): "kept"}
    with pytest.raises(KVCacheError, match="a path of no pages"):
        host.keep_all([([], 0)], print)
    host.check()


class FlushesTooLate(Leaving):
    """Leaves the blocks where they are until the next time."""

    def flush(self, copy_out):
        waiting, self._waiting = self._waiting, []
        late, self._late = getattr(self, "_late", []), waiting
        self._host.keep_all(late, copy_out)


def test_a_batch_that_leaves_after_its_blocks_were_given_away_is_found():
    memory, host = Memory(6), HostTier(40)
    device = OfTheCache(6, host, memory)
    device.tiers._leaving = FlushesTooLate(host)
    blocks = device.put(list(range(12)))
    was = [memory.values[block] for block in blocks]
    device.evict(6)
    memory.values[:] = ["written over"] * 6
    device.put(list(range(50, 62)))
    device.evict(6)
    assert [memory.values[block] for block in device.find(list(range(12)))] != was


def test_two_caches_over_one_tier_at_the_end_of_evictions_are_refused():
    cache = PrefixCache(BlockPool(2, PAGE))
    cache.after_evict = print
    with pytest.raises(KVCacheError, match="somebody else"):
        TieredPrefixCache(cache, HostTier(1), print, print)
