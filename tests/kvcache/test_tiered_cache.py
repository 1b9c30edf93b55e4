"""The host tier under the hashed prefix cache: content of that very prefix, references balanced, tensors moved bit for bit."""

from collections import Counter
from random import Random

import pytest
import torch

from course_lib.kvcache.block_pool import BlockPool
from course_lib.kvcache.block_tables import BlockTables
from course_lib.kvcache.errors import KVCacheError
from course_lib.kvcache.host_copies import HostCopies
from course_lib.kvcache.host_tier import HostTier
from course_lib.kvcache.prefix_cache import PrefixCache
from course_lib.kvcache.storage import KVStorage
from course_lib.kvcache.swap import SwapSpace
from course_lib.kvcache.tiered_cache import TieredPrefixCache

PAGE = 2


def random_requests(seed, tiered_class=TieredPrefixCache, steps=250, hash_function=None):
    """Sequences begin from what both tiers have, run, and go. A block holds the prefix it was computed for."""
    random = Random(seed)
    pool = BlockPool(10, PAGE)
    cache = PrefixCache(pool, **({"hash_function": hash_function} if hash_function else {}))
    content, host = [None] * 10, HostTier(random.choice([1, 6, 20]))
    tiered = tiered_class(cache, host, content.__getitem__, lambda value, block: content.__setitem__(block, value))
    running, prompts, from_host = [], [[]], 0
    for _ in range(steps):
        if random.random() < 0.5 and len(running) < 3:
            start = random.choice(prompts[-8:])
            tokens = (start[: random.randrange(len(start) + 1)] + [random.randrange(2) for _ in range(1 + random.randrange(6))])[
                :9
            ]
            prompts.append(tokens)
            salt = random.choice(["", "adapter"])
            on_device = cache.cached_tokens(tokens, salt)
            found = tiered.match(tokens, salt)
            assert found.tokens == len(found.blocks) * PAGE < len(tokens)
            assert found.tokens - found.host_tokens == on_device
            for index, block in enumerate(found.blocks):
                assert content[block] == (salt, *tokens[: (index + 1) * PAGE]), "a block holds another prefix"
            from_host += found.host_tokens
            need = len(tokens) // PAGE - len(found.blocks)
            new = pool.allocate(min(need, pool.num_available))
            blocks = found.blocks + new
            for index in range(len(found.blocks), len(blocks)):
                content[blocks[index]] = (salt, *tokens[: (index + 1) * PAGE])
            cache.insert(tokens[: len(blocks) * PAGE], blocks, salt)
            running.append(blocks)
        elif running:
            pool.release(running.pop(random.randrange(len(running))))
        cache.check()
        host.check()
        pool.check(running)
    return from_host


@pytest.mark.parametrize("seed", range(8))
def test_what_comes_back_is_the_content_of_that_prefix(seed):
    random_requests(seed)


def test_random_requests_do_use_the_host():
    assert sum(random_requests(seed) for seed in range(8)) > 50


def test_a_hash_that_collides_serves_nobody_elses_content():
    random_requests(3, hash_function=lambda data: b"same")


class LosesTheSalt(TieredPrefixCache):
    def match(self, tokens, salt=""):
        run = self.host.run
        self.host.run = lambda pages, start: run([((""), pages[0][1]), *pages[1:]] if pages else pages, start)
        try:
            return super().match(tokens, salt)
        finally:
            del self.host.run


class KeepsTheReferencesOfWhatIsMissing(TieredPrefixCache):
    def match(self, tokens, salt=""):
        found = super().match(tokens, salt)
        self.cache.pool.retain(found.blocks[-1:])
        return found


@pytest.mark.parametrize("broken", [LosesTheSalt, KeepsTheReferencesOfWhatIsMissing])
def test_random_requests_find_planted_mistakes(broken):
    def some_seed_breaks_it():
        for seed in range(8):
            random_requests(seed, broken)

    with pytest.raises((AssertionError, KVCacheError)):
        some_seed_breaks_it()


def storage_of(blocks, dtype=torch.bfloat16):
    storage = KVStorage(blocks, PAGE, layers=3, shapes=((2, 4), (2, 3)), dtype=dtype)
    for number, part in enumerate(part for layer in storage.tensors for part in layer):
        part.copy_(torch.randn(part.shape, generator=torch.Generator().manual_seed(number)))
    return storage


def block_of(storage, block):
    return [part[block].clone() for layer in storage.tensors for part in layer]


def test_a_block_goes_out_and_comes_back_bit_for_bit_and_touches_no_other():
    storage = storage_of(5)
    copies = HostCopies(storage)
    before = [block_of(storage, block) for block in range(5)]
    copies.copy_in(copies.copy_out(1), 3)
    for block in range(5):
        expected = before[1 if block == 3 else block]
        assert all(map(torch.equal, block_of(storage, block), expected))
    assert copies.copied_bytes == 2 * storage.bytes_per_block == 2 * copies.copy_out(0).nbytes


def test_swapped_tensors_come_back_into_other_blocks():
    pool, storage = BlockPool(5, PAGE), storage_of(5)
    copies = HostCopies(storage)
    swap = SwapSpace(pool, 4, copies.copy_out, copies.copy_in)
    blocks = pool.allocate(3)
    before = [block_of(storage, block) for block in blocks]
    swap.preempt("a", blocks, [1] * 5)
    pool.allocate(2)
    for part in (part for layer in storage.tensors for part in layer):
        part.fill_(float("nan"))
    back = swap.resume("a")
    assert back != blocks
    for block, expected in zip(back, before, strict=True):
        assert all(map(torch.equal, block_of(storage, block), expected))


def test_evicted_tensors_come_back_on_a_hit():
    pool, storage, host = BlockPool(3, PAGE), storage_of(3), HostTier(8)
    cache, copies = PrefixCache(pool), HostCopies(storage)
    tiered = TieredPrefixCache(cache, host, copies.copy_out, copies.copy_in)
    blocks = pool.allocate(2)
    before = [block_of(storage, block) for block in blocks]
    cache.insert([1, 2, 3, 4], blocks)
    pool.release(blocks)
    other = pool.allocate(3)  # evicts both
    for part in (part for layer in storage.tensors for part in layer):
        part.fill_(float("nan"))
    assert tiered.match([1, 2, 3, 4, 5]).tokens == 0  # no room
    pool.release(other)
    found = tiered.match([1, 2, 3, 4, 5])
    assert (found.tokens, found.host_tokens) == (4, 4)
    for block, expected in zip(found.blocks, before, strict=True):
        assert all(map(torch.equal, block_of(storage, block), expected))
    pool.check([found.blocks])
    again = tiered.match([1, 2, 3, 4, 5])
    assert (again.blocks, again.host_tokens) == (found.blocks, 0)  # back on the device for everybody


def test_a_failed_copy_leaves_balanced_books():
    pool, host = BlockPool(3, PAGE), HostTier(8)
    cache = PrefixCache(pool)
    tiered = TieredPrefixCache(cache, host, lambda block: "content", lambda content, block: 1 / 0)
    blocks = pool.allocate(2)
    cache.insert([1, 2, 3, 4], blocks)
    pool.release(blocks)
    cache.evict(1)
    with pytest.raises(ZeroDivisionError):
        tiered.match([1, 2, 3, 4, 5])
    pool.check([])
    cache.check()
    host.check()


def test_refusals():
    copies = HostCopies(storage_of(2))
    with pytest.raises(KVCacheError, match="block 2 in a copy"):
        copies.copy_out(2)
    with pytest.raises(KVCacheError, match="block -1 in a copy"):
        copies.copy_in(copies.copy_out(0), -1)
    with pytest.raises(KVCacheError, match=r"content of shape .*float32"):
        copies.copy_in(copies.copy_out(0).float(), 0)
    cache = PrefixCache(BlockPool(2, PAGE), on_evict=print)
    with pytest.raises(KVCacheError, match="somebody else"):
        TieredPrefixCache(cache, HostTier(1), print, print)


def test_no_block_of_a_running_sequence_is_hotter_than_another():
    """C095: a step reads each block of an unshared sequence once in each layer; counting touches finds nothing to promote."""
    tables, reads = BlockTables(BlockPool(40, 16)), Counter()
    for seq, tokens in enumerate([5, 160, 33, 1]):
        tables.add(seq, tokens)
    start = {seq: tables.blocks(seq) for seq in range(4)}
    for _ in range(100):
        for seq in range(4):
            reads.update(tables.blocks(seq))  # what a decode kernel walks through
    assert {reads[block] for blocks in start.values() for block in blocks} == {100}
