"""The prefix cache: what is found, what is never served, and what goes first when room is needed."""

import hashlib
import struct

import pytest

from course_lib.kvcache import BlockPool, BlockTables, KVCacheError, PrefixCache
from course_lib.kvcache.prefix_names import block_name, chain, root_name, sha256

TEXT = [5, 6, 7, 8, 9, 10, 11, 12, 13]


def cache_of(num_blocks=16, block_size=4, **options):
    return PrefixCache(BlockPool(num_blocks, block_size), **options)


def put(cache, tokens, salt=""):
    """A text that was computed, published and ended."""
    blocks = cache.pool.allocate(-(-len(tokens) // cache.pool.block_size))
    cache.insert(tokens, blocks, salt)
    cache.pool.release(blocks)
    return blocks


def found(cache, tokens, salt=""):
    match = cache.match(tokens, salt)
    cache.pool.release(match.blocks)
    cache.check()
    cache.pool.check([])
    return match.blocks


def test_the_longest_beginning_in_whole_blocks_is_found():
    cache = cache_of()
    blocks = put(cache, TEXT)
    assert found(cache, TEXT) == blocks[:2]  # the third block is not full
    assert found(cache, [*TEXT[:6], 1, 1, 1]) == blocks[:1]
    assert found(cache, TEXT[:3]) == []
    assert found(cache, [1, *TEXT[1:]]) == []
    assert found(cache, TEXT[4:]) == []  # the same tokens, not at the beginning


@pytest.mark.parametrize(("length", "reused"), [(1, 0), (4, 0), (5, 4), (7, 4), (8, 4), (9, 8), (12, 8)])
def test_one_token_at_least_is_left_to_compute(length, reused):
    """block_size 4, all of it cached: of 8 tokens 4 are reused, of 9 tokens 8."""
    cache = cache_of()
    text = list(range(12))
    put(cache, text)
    assert cache.cached_tokens(text[:length]) == reused
    match = cache.match(text[:length])
    assert match.tokens == reused == len(match.blocks) * 4


def test_a_match_holds_its_blocks_and_looking_does_not():
    cache = cache_of(num_blocks=3)
    put(cache, TEXT)
    assert cache.cached_tokens(TEXT) == 8
    assert cache.pool.num_held == 0
    match = cache.match(TEXT)
    assert (cache.pool.num_held, cache.pool.num_cached) == (2, 0)
    assert cache.evict(5) == []
    cache.pool.allocate(1)
    cache.pool.release(match.blocks)
    assert cache.pool.num_cached == 2
    assert (cache.stats.queried_tokens, cache.stats.hit_tokens) == (9, 8)


@pytest.mark.parametrize("hash_function", [lambda data: b"", lambda data: b"x" * 32, lambda data: sha256(data)[:1]])
def test_a_collision_never_serves_another_text(hash_function):
    cache = cache_of(num_blocks=200, hash_function=hash_function)
    texts = [[a, b, c, 1, d, e, 2, 3, 0] for a in (0, 1) for b in (0, 1) for c in (0, 1) for d in (0, 1) for e in (0, 1)]
    owner = {}
    for text in texts:
        blocks = cache.pool.allocate(3)
        cache.insert(text, blocks)
        for index, block in enumerate(blocks[:2]):
            owner.setdefault(tuple(text[: 4 * index + 4]), block)
    for text in texts:
        assert found_held(cache, text) == [owner[tuple(text[:4])], owner[tuple(text[:8])]]
        assert cache.cached_tokens([9, *text[1:]]) == 0


def found_held(cache, text):
    match = cache.match(text)
    cache.pool.release(match.blocks)
    return match.blocks


def test_one_block_of_equal_tokens_behind_different_beginnings_is_two():
    """With every hash equal, comparing the tokens of the block alone would serve the wrong one."""
    cache = cache_of(block_size=2, hash_function=lambda data: b"")
    first, second = put(cache, [1, 1, 7, 7, 0]), put(cache, [2, 2, 7, 7, 0])
    assert found(cache, [1, 1, 7, 7, 0]) == first[:2]
    assert found(cache, [2, 2, 7, 7, 0]) == second[:2]
    assert found(cache, [3, 3, 7, 7, 0]) == []


@pytest.mark.parametrize("hash_function", [sha256, lambda data: b""])
def test_salts_do_not_share(hash_function):
    cache = cache_of(hash_function=hash_function)
    salts = ["", "adapter", ("adapter",), ("adapter", "tenant"), ("adaptert", "enant"), ("", "")]
    blocks = {salt: put(cache, TEXT[:5], salt)[:1] for salt in salts}
    assert {salt: found(cache, TEXT[:5], salt) for salt in salts} == blocks
    assert len({block for (block,) in blocks.values()}) == len(salts)
    assert found(cache, TEXT[:5], "another") == []


def test_names_are_a_chain_that_anybody_can_compute():
    eight = struct.Struct("<Q").pack
    root = hashlib.sha256(b"kv root, one text\0" + eight(1) + b"s").digest()
    first = hashlib.sha256(b"kv block\0" + eight(32) + root + struct.pack("<4q", *TEXT[:4])).digest()
    second = hashlib.sha256(b"kv block\0" + eight(32) + first + struct.pack("<4q", *TEXT[4:8])).digest()
    assert chain(TEXT, 4, "s") == [first, second]
    assert root_name("s") == root
    assert block_name(root, TEXT[:4]) == first
    assert chain(TEXT[:3], 4) == []


def test_no_two_inputs_give_the_hash_the_same_bytes():
    seen = []
    for salt in ("", "a", "b", ("a",), ("a", "b"), ("ab",), ("", "a"), ("a", ""), ()):
        root_name(salt, lambda data: seen.append(data) or b"")
    for parent in (b"", b"\1", b"\1" * 8):
        for tokens in ((), (1,), (1, 0), (256,), (-1,), (0, 1)):
            block_name(parent, tokens, lambda data: seen.append(data) or b"")
    assert len(set(seen)) == len(seen) == 9 + 18


def test_the_longest_unused_goes_first_and_the_end_before_the_beginning():
    cache = cache_of(num_blocks=8)
    old, new = put(cache, TEXT[:8]), put(cache, [1, 2, 3, 4, 5, 6, 7, 8])
    assert found(cache, TEXT[:5]) == old[:1]  # used again: it is the youngest now
    assert cache.evict(2) == [old[1], new[1]]
    assert cache.evict(1) == [new[0]]
    assert found(cache, TEXT) == old[:1]
    assert cache.evict(9) == [old[0]]
    cache.check()


def test_a_beginning_released_first_still_goes_last():
    cache = cache_of()
    blocks = cache.pool.allocate(3)
    cache.insert(list(range(12)), blocks)
    for block in blocks:
        cache.pool.release([block])
        cache.check()
    assert cache.pool.oldest_cached() == blocks[0]
    assert cache.evict(2) == [blocks[2], blocks[1]]
    cache.check()


def test_the_books_balance_after_evicting_a_partly_shared_branch():
    """One beginning, two ends; one end is held. The free end goes, the held branch stays, and idle counts are whole."""
    cache = cache_of(num_blocks=8, block_size=2)
    pool, tables = cache.pool, BlockTables(cache.pool)
    tables.add("a", 6)
    cache.insert([1, 2, 3, 4, 5, 6], tables.blocks("a"))
    match = cache.match([1, 2, 3, 4, 9, 9, 0])
    tables.add("b", 7, match.blocks)
    cache.insert([1, 2, 3, 4, 9, 9, 0], tables.blocks("b"))
    tables.free("a")
    assert (pool.num_free, pool.num_cached, pool.num_held) == (3, 1, 4)
    done = cache.compact()
    assert (len(done.evicted), done.free_after, done.held) == (1, 4, 4)
    tables.check()
    cache.check()
    assert found_held(cache, [1, 2, 3, 4, 9, 9, 0]) == tables.blocks("b")[:3]
    tables.free("b")
    assert (pool.num_free, pool.num_cached, pool.num_held) == (5, 3, 0)
    tables.check()
    cache.compact()
    assert (pool.num_free, pool.num_cached, pool.num_held, len(cache)) == (8, 0, 0, 0)
    tables.check()
    cache.check()


def test_equal_content_in_two_blocks_is_said_and_can_be_made_one():
    cache = cache_of()
    tables = BlockTables(cache.pool)
    for seq in "ab":  # both prompts came before either was published
        tables.add(seq, 9)
    assert cache.insert(TEXT, tables.blocks("a")).named == 2
    assert cache.insert(TEXT, tables.blocks("a")).named == 0
    inserted = cache.insert(TEXT, tables.blocks("b"))
    assert (inserted.named, inserted.equal) == (0, [(0, 0), (1, 1)])
    for index, block in inserted.equal:
        tables.replace("b", index, block)
    assert tables.blocks("b")[:2] == tables.blocks("a")[:2]
    assert cache.pool.num_held == 4
    tables.check()


def test_a_held_end_whose_beginning_is_evicted_loses_its_name_not_its_block():
    cache = cache_of(num_blocks=4)
    tables = BlockTables(cache.pool)
    tables.add("a", 4)
    tables.add("b", 8)
    cache.insert(TEXT[:4], tables.blocks("a"))
    cache.insert(TEXT[:8], tables.blocks("b"))
    tables.free("a")
    assert cache.evict(1) == [0]
    assert tables.blocks("b") == [1, 2]
    assert len(cache) == 0
    tables.check()
    cache.check()
    tables.free("b")
    assert cache.pool.num_free == 4


def test_compact_says_what_it_did():
    cache = cache_of(num_blocks=5)
    put(cache, TEXT)
    cache.pool.allocate(1)
    assert str(cache.compact(1)) == "evicted 1 of 1 blocks asked for: free 2 -> 3, cached 1, held 1"
    assert str(cache.compact(3)).startswith("evicted 1 of 3 blocks asked for (no more are without a holder): free 3 -> 4")
    assert cache.compact().evicted == []
    assert cache.stats.evicted_blocks == 2
    with pytest.raises(KVCacheError, match="-1 blocks to evict"):
        cache.compact(-1)


def test_who_keeps_evicted_blocks_sees_them_in_time():
    seen = []
    cache = cache_of(num_blocks=3, on_evict=lambda entry: seen.append((entry.block, entry.prefix(), entry.salt)))
    blocks = put(cache, TEXT, "s")
    cache.pool.allocate(3)
    assert seen == [(blocks[1], TEXT[:8], "s"), (blocks[0], TEXT[:4], "s")]


def test_what_cannot_be_named_is_refused():
    cache = cache_of()
    blocks = put(cache, TEXT)
    held = cache.pool.allocate(2)
    for tokens, given, words in (
        (TEXT, held[:1], "9 tokens fill 2 blocks of 4, 1 came"),
        (TEXT, [held[0], held[0]], "a block comes twice"),
        ([1, 2, 3, 4], [9], "block 9 is not held"),
        ([1, 2, 3, 4], [99], "block 99 in a pool of 16"),
    ):
        with pytest.raises(KVCacheError, match=words):
            cache.insert(tokens, given)
    cache.pool.retain(blocks[:1])
    for tokens, salt in (([1, 2, 3, 4], ""), (TEXT[:4], "another")):
        with pytest.raises(KVCacheError, match=r"named already, for tokens \[5, 6, 7, 8\]"):
            cache.insert(tokens, blocks[:1], salt)
    assert len(cache) == 2
    cache.check()
    with pytest.raises(KVCacheError, match="has a cache that names its blocks already"):
        PrefixCache(cache.pool)
