"""What callers hand over by mistake, what callbacks do, and lengths that would end a recursion: an error, and sound books."""

import numpy
import pytest
import torch

from course_lib.kvcache import (
    BlockPool,
    BlockTables,
    DoubleBufferedTables,
    HostTier,
    KVCacheError,
    KVMetrics,
    KVStorage,
    OutOfBlocks,
    PrefixCache,
    RadixTree,
    RingCache,
    TieredPrefixCache,
    TieredPrefixes,
    TwoLevelTable,
)  # fmt: skip
from course_lib.kvcache.baselines import OracleFirstFit
from course_lib.kvcache.contiguous import Buddy, FirstFit
from course_lib.kvcache.prefix_names import root_name
from course_lib.kvcache.radix_node import pages_of
from course_lib.kvcache.replay import replay
from course_lib.kvcache.trace import Request

TEXT = list(range(16))


def put(cache, tokens, salt=""):
    blocks = cache.pool.allocate(len(tokens) // cache.pool.block_size)
    try:
        cache.insert(tokens, blocks, salt)
    finally:
        cache.pool.release(blocks)


def is_sound(cache):
    cache.check()
    cache.pool.check([])


@pytest.mark.parametrize("salt", [None, 1, True, 1.0, b"a", ["a"], ("a", 1), ("a", b"b")])
def test_a_salt_is_text_and_nothing_that_python_calls_equal_to_another(salt):
    """1, True and 1.0 are one key of a dictionary: as adapters they would read each other's keys and values."""
    cache, tree = PrefixCache(BlockPool(8, 4)), RadixTree(BlockPool(8, 4))
    for call in (lambda: put(cache, TEXT, salt), lambda: cache.match(TEXT, salt), lambda: tree.lock(TEXT, salt)):
        with pytest.raises(KVCacheError, match=r"salt .* use a text, or a tuple of texts"):
            call()
    is_sound(cache)
    tree.check()
    assert len(cache) == tree.cached_pages == 0


def test_any_text_is_a_salt():
    salts = ["", "\ud800", "\ud83d\ude00", "\N{GRINNING FACE}", "e\u0301", "\u00e9", ("",), (), ("a", "b"), "ab", "a\0b"]
    assert len({root_name(salt) for salt in salts}) == len(salts)


@pytest.mark.parametrize("kind", [numpy.array, torch.tensor, tuple, lambda tokens: [numpy.int32(t) for t in tokens]])
def test_tokens_of_arrays_and_tensors_are_tokens(kind):
    cache, tree = PrefixCache(BlockPool(8, 4)), RadixTree(BlockPool(8, 4))
    put(cache, kind(TEXT))
    tree.insert(kind(TEXT), tree.pool.allocate(4))
    assert cache.cached_tokens([*TEXT, 0]) == cache.cached_tokens(kind([*TEXT, 0])) == 16
    assert tree.probe(TEXT) == tree.probe(kind(TEXT)) == 16


@pytest.mark.parametrize("bad", [1.0, "1", None, 2**63, -(2**63) - 1])
def test_a_token_that_is_none_changes_nothing(bad):
    """It stands in the last block, so those before it could have been named already."""
    cache = PrefixCache(BlockPool(8, 4))
    with pytest.raises(KVCacheError, match="token"):
        put(cache, [*TEXT[:-1], bad])
    is_sound(cache)
    assert len(cache) == 0


def test_a_hash_function_that_raises_changes_nothing():
    calls = []

    def third_time_raises(data):
        calls.append(data)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return data[:8]

    cache = PrefixCache(BlockPool(8, 4), hash_function=third_time_raises)
    with pytest.raises(KeyboardInterrupt):
        put(cache, TEXT)
    is_sound(cache)
    assert len(cache) == 0


def test_an_eviction_that_is_interrupted_ends_between_two_blocks():
    def second_time_raises(entry):
        if cache.stats.evicted_blocks or len(cache) < 4:
            raise KeyboardInterrupt

    cache = PrefixCache(BlockPool(4, 4), on_evict=second_time_raises)
    put(cache, TEXT)
    with pytest.raises(KeyboardInterrupt):
        cache.pool.allocate(3)
    is_sound(cache)
    assert (cache.pool.num_free, cache.pool.num_cached, cache.stats.evicted_blocks) == (1, 3, 1)


def test_who_matches_during_an_eviction_keeps_the_blocks():
    held = []
    cache = PrefixCache(BlockPool(4, 4), on_evict=lambda entry: held.append(cache.match([*entry.prefix(), 0]).blocks))
    put(cache, TEXT)
    with pytest.raises(OutOfBlocks, match="3 blocks wanted, 0 free and 0 cached of 4"):
        cache.pool.allocate(3)
    cache.check()
    cache.pool.check(held)


def test_who_allocates_during_an_eviction_is_refused():
    cache = PrefixCache(BlockPool(4, 4), on_evict=lambda entry: cache.pool.allocate(1))
    put(cache, TEXT)
    with pytest.raises(KVCacheError, match="on_evict may neither evict nor allocate"):
        cache.pool.allocate(3)
    is_sound(cache)
    assert cache.pool.num_cached == 4


@pytest.mark.parametrize("kind", [numpy.array, torch.tensor, iter])
def test_block_numbers_of_arrays_and_iterators_are_ints_in_the_books(kind):
    pool = BlockPool(4, 4)
    blocks = pool.allocate(3)
    pool.retain(kind(blocks))
    pool.check([blocks, blocks])
    pool.release(kind(blocks))
    pool.release(kind(blocks))
    pool.check([])
    assert all(type(block) is int for block in pool.allocate(4))


@pytest.mark.parametrize("call", [
    lambda pool: pool.allocate(0.5), lambda pool: pool.allocate("1"), lambda pool: pool.release([1.0]),
    lambda pool: BlockTables(pool).add("a", 2.5), lambda pool: BlockTables(pool).add("a", -1),
    lambda pool: BlockPool(4.0, 4), lambda pool: BlockPool(4, 4.0), lambda pool: HostTier(4).keep([], list),
    lambda pool: DoubleBufferedTables(pool, 0, 4), lambda pool: DoubleBufferedTables(pool, 4, 0),
    lambda pool: RingCache(pool, 5.5), lambda pool: RingCache(pool, 5).append(0.5),
    lambda pool: FirstFit(8).allocate(0), lambda pool: FirstFit(8).allocate(-2), lambda pool: Buddy(8, 4).allocate(0),
    lambda pool: replay([Request(1, 1)], OracleFirstFit(8), every=0),
])  # fmt: skip
def test_numbers_that_make_no_sense_are_refused(call):
    pool = BlockPool(4, 4)
    with pytest.raises(KVCacheError):
        call(pool)
    pool.check([])


def test_a_row_that_was_refused_can_be_added():
    table = TwoLevelTable(2, 8, 2, 4)
    with pytest.raises(KVCacheError, match="block -1, and -1 says that there is none"):
        table.add(0, [3, -1])
    with pytest.raises(TypeError):
        table.add(0, None)
    table.check()
    table.add(0, [3])


def test_long_texts_need_no_recursion_and_no_long_walks():
    """10,000 blocks in one chain, of which the first became free first: to walk down for each one would take 20 seconds."""
    text, size = list(range(10_000)), 10_000
    cache = PrefixCache(BlockPool(size, 1))
    blocks = cache.pool.allocate(size)
    cache.insert(text, blocks)
    for block in blocks:
        cache.pool.release([block])
    match = cache.match(text[:3])
    assert "parent" not in repr(cache._of_block[blocks[9]])
    assert cache.evict(size) == blocks[2:][::-1]  # continuations first
    cache.pool.release(match.blocks)
    is_sound(cache)

    tree = RadixTree(BlockPool(size, 1))
    for end in (*range(1, 500), size):
        new = tree.pool.allocate(end - tree.cached_pages)
        tree.insert(text[:end], tree.match(text[:end]) + new)
        tree.pool.release(new)
    assert len(repr(tree.lock(text[:400]))) < 10_000
    assert len(tree.evict(size)) == size - 400
    tree.check([])


def test_a_thousand_forks_of_forks_copy_once_each():
    tables = BlockTables(BlockPool(1100, 4))
    tables.add(0, 5)
    for parent in range(1000):
        tables.fork(parent, parent + 1)
    assert len(tables.append_all(dict.fromkeys(range(1001), 1))) == 1000
    tables.check()
    for seq in range(1001):
        tables.free(seq)
    tables.check()


@pytest.mark.parametrize("labels", [
    {"a b": "x"}, {'a="x"} evil 1\n#': "x"}, {"__name__": "x"}, {"1a": "x"}, {"a\n": "x"}, {"": "x"}, {"a": 1}, {1: "x"},
])  # fmt: skip
def test_labels_that_would_be_changed_or_break_the_text_are_refused(labels):
    with pytest.raises(ValueError, match="use a name of letters, digits and _, and a text as value"):
        KVMetrics(BlockPool(2, 2), labels=labels)


def test_metrics_in_one_registry_twice_are_refused():
    metrics = KVMetrics(BlockPool(2, 2), labels={"model": 'a"} evil 1\n'})
    assert 'course:kv_blocks{model="a\\"} evil 1\\n"} 2.0\n' in metrics.text()
    for second in (metrics, KVMetrics(BlockPool(2, 2))):
        with pytest.raises(ValueError, match="Duplicated"):
            metrics.registry.register(second)


def test_storage_refuses_slots_outside_and_keeps_no_gradients():
    with torch.inference_mode():
        storage = KVStorage(2, 4, layers=1, shapes=((1, 2), (1, 2)), dtype=torch.float32)
    for part in storage.tensors[0]:
        part.zero_()
    new = [torch.ones(1, 1, 2, requires_grad=True)] * 2
    for slot in (-1, 8):
        with pytest.raises(KVCacheError, match=f"slots {slot} to {slot} of a storage of 8"):
            storage.write(0, torch.tensor([slot]), new)
        with pytest.raises(KVCacheError, match="use 0 to 7"):
            storage.read(0, torch.tensor([slot]))
    assert not storage.keys(0).any()
    assert not storage.read(0, torch.tensor([-1]), dead=torch.tensor([True]))[0].any()
    storage.write(0, torch.tensor([3]), new)
    assert not storage.keys(0).requires_grad


class Counted(dict):
    walks = 0

    def get(self, *what):
        self.walks += 1
        return super().get(*what)


@pytest.mark.parametrize("budget", [10_000, 100])
def test_a_long_text_moves_to_the_host_without_a_walk_for_each_page(budget):
    """2,000 pages: a walk from the root for each of them was 2 million steps, and a second of a scheduler's time."""
    text = list(range(2000))
    tree, cache = RadixTree(BlockPool(2000, 1)), PrefixCache(BlockPool(2000, 1))
    hosts = [HostTier(budget), HostTier(budget)]
    tiered = TieredPrefixes(tree, hosts[0], lambda block: block, lambda content, block: None)
    TieredPrefixCache(cache, hosts[1], lambda block: block, lambda content, block: None)
    blocks = tree.pool.allocate(2000)
    tree.insert(text, blocks)
    tree.pool.release(blocks)
    put(cache, text)
    for host in hosts:
        host._root.children = Counted()
    assert len(tiered.evict(2000)) == len(cache.pool.allocate(2000)) == 2000
    for host in hosts:
        assert host._root.children.walks <= 2, f"{host._root.children.walks} walks from the root"
        host.check()
        assert len(host) == min(budget, 2000)
    assert hosts[0].run(pages_of(text, 1), 0) == hosts[0].run(pages_of(text[:budget], 1), 0)
