"""The pool: three states, references, and refusals that change nothing."""

import pytest

from course_lib.kvcache import BlockPool, KVCacheError, NotHeld, OutOfBlocks, PrefixCache, UnknownBlock


def counts(pool):
    pool.check()
    return pool.num_free, pool.num_cached, pool.num_held


def test_blocks_go_out_with_one_reference_and_come_back_with_the_last():
    pool = BlockPool(5, 16)
    blocks = pool.allocate(3)
    assert blocks == [0, 1, 2]
    assert counts(pool) == (2, 0, 3)
    pool.retain(blocks[:2])
    assert [pool.ref_count(block) for block in range(5)] == [2, 2, 1, 0, 0]
    pool.release(blocks)
    assert counts(pool) == (3, 0, 2)
    pool.release(blocks[:2])
    assert counts(pool) == (5, 0, 0)


def test_the_block_that_is_free_for_longest_goes_first():
    pool = BlockPool(4, 16)
    pool.release(pool.allocate(4)[:2])
    assert pool.allocate(2) == [1, 0]  # a list is released from its end


def test_more_than_there_is_is_refused_with_the_numbers_and_nothing_is_taken():
    pool = BlockPool(4, 16)
    pool.allocate(2)
    with pytest.raises(OutOfBlocks, match=r"3 blocks wanted, 2 free and 0 cached of 4 \(2 held\); ask for at most 2") as caught:
        pool.allocate(3)
    assert (caught.value.wanted, caught.value.free, caught.value.cached, caught.value.total) == (3, 2, 0, 4)
    assert counts(pool) == (2, 0, 2)
    assert pool.allocate(0) == []


def test_no_pool_without_blocks():
    with pytest.raises(KVCacheError, match="0 blocks of 16 tokens"):
        BlockPool(0, 16)
    with pytest.raises(KVCacheError, match="-1 blocks wanted"):
        BlockPool(1, 16).allocate(-1)


@pytest.mark.parametrize(("blocks", "error", "words"), [
    ([3], NotHeld, r"block 3 .*double free.*3 blocks are held"),
    ([3, 0, 1], NotHeld, "block 3"),
    ([0, 1, 0], NotHeld, "block 0 is 2 times in the list"),
    ([7, 0], UnknownBlock, "block 7 in a pool of 5; use 0 to 4"),
    ([-1, 0], UnknownBlock, "block -1"),
    ([None, 0], KVCacheError, "block: None is a NoneType"),
])  # fmt: skip
def test_a_second_release_is_refused_and_takes_back_what_it_did(blocks, error, words):
    pool = BlockPool(5, 16)
    pool.allocate(3)
    with pytest.raises(error, match=words):
        pool.release(blocks)
    assert [pool.ref_count(block) for block in range(5)] == [1, 1, 1, 0, 0]
    assert counts(pool) == (2, 0, 3)


def test_only_content_that_is_there_can_be_shared():
    pool = BlockPool(5, 16)
    held = pool.allocate(2)
    with pytest.raises(NotHeld, match="block 4 is free, its content is gone"):
        pool.retain([*held, 4])
    with pytest.raises(UnknownBlock):
        pool.retain([0, 5])
    with pytest.raises(NotHeld, match="block 4 has no reference"):
        pool.name(4)
    assert [pool.ref_count(block) for block in held] == [1, 1]


def test_a_named_block_is_cached_until_it_is_taken_up_or_forgotten():
    pool = BlockPool(4, 2)
    held = pool.allocate(3)
    pool.name(0)
    pool.name(1)
    pool.release(held)
    assert counts(pool) == (2, 2, 0)
    assert pool.oldest_cached() == 1
    pool.retain([1])
    assert counts(pool) == (2, 1, 1)
    pool.forget(1)
    assert counts(pool) == (2, 1, 1)  # held still
    pool.forget(0)
    assert counts(pool) == (3, 0, 1)
    pool.release([1])
    assert counts(pool) == (4, 0, 0)


def test_free_blocks_go_before_cached_ones_and_those_before_a_refusal():
    pool = BlockPool(4, 2)
    cache = PrefixCache(pool)
    held = pool.allocate(3)
    cache.insert([1, 2, 3, 4], held[:2])
    pool.release(held)
    assert counts(pool) == (2, 2, 0)
    with pytest.raises(OutOfBlocks, match="2 free and 2 cached of 4"):
        pool.allocate(5)
    assert counts(pool) == (2, 2, 0)
    assert pool.allocate(2) == [3, 2]
    assert pool.allocate(1) == [1]  # the end of the cached text before its beginning
    assert counts(pool) == (0, 1, 3)


@pytest.mark.parametrize(("break_it", "words"), [
    (lambda pool: pool._free.append(2), "twice in the free list"),
    (lambda pool: pool._free.append(0), "both held and free"),
    (lambda pool: pool._free.popleft(), "1 of 4 blocks leaked"),
    (lambda pool: pool._refs.__setitem__(3, -1), "has -1 references"),
    (lambda pool: pool._cached.update({0: None}), "both held and cached"),
    (lambda pool: pool._cached.update({3: None}), "both free and cached"),
    (lambda pool: setattr(pool, "_num_held", 1), "1 blocks counted as held, 2 have references"),
    (lambda pool: pool._named.__setitem__(3, 1), "free blocks with a name"),
])  # fmt: skip
def test_check_says_what_does_not_balance(break_it, words):
    pool = BlockPool(4, 2)
    pool.allocate(2)
    pool.check(holders=[[0], [1]])
    break_it(pool)
    with pytest.raises(AssertionError, match=words):
        pool.check()


@pytest.mark.parametrize("holders", [[[0]], [[0, 1], [1]], [[0, 1, 2]], []])
def test_check_compares_references_with_their_holders(holders):
    pool = BlockPool(4, 2)
    pool.allocate(2)
    with pytest.raises(AssertionError, match="references counted and found, by block"):
        pool.check(holders=holders)
