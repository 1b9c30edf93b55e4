"""What paging is compared with: every slot has one owner, holes merge, and each allocator takes what it says."""

from random import Random

import pytest

from course_lib.kvcache.baselines import MaxLength, Oracle, OracleFirstFit, Paged, PowerOfTwo, allocators
from course_lib.kvcache.contiguous import Buddy, FirstFit, next_power_of_two
from course_lib.kvcache.errors import KVCacheError, NotHeld
from course_lib.kvcache.trace import Request

TOTAL = 128


def random_operations(make_space, seed, steps=400):
    """Pieces come and go; owners are marked slot by slot. A refusal must be one: no aligned run of free slots was long enough."""
    random = Random(seed)
    space, owner, pieces = make_space(), [None] * TOTAL, {}
    for number in range(steps):
        if random.random() < 0.55:
            slots = random.randrange(1, 33)
            size = space.size(slots)
            start = space.allocate(slots)
            aligned = range(0, TOTAL - size + 1, size if isinstance(space, Buddy) else 1)
            fits = [at for at in aligned if not any(owner[at : at + size])]
            assert (start is None) == (not fits), f"{slots} slots, free at {fits}, got {start}"
            if start is not None:
                assert start in fits
                owner[start : start + size] = [number + 1] * size
                pieces[start] = size
        elif pieces:
            start = random.choice(list(pieces))
            space.release(start)
            size = pieces.pop(start)
            owner[start : start + size] = [None] * size
        assert sum(space.holes()) == owner.count(None)
        space.check()
    for start in list(pieces):
        space.release(start)
    assert max(space.holes()) == space.longest
    assert sum(space.holes()) == TOTAL


SPACES = {"first fit": lambda: FirstFit(TOTAL), "buddy": lambda: Buddy(TOTAL, 64)}


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("seed", range(4))
def test_every_slot_has_one_owner_and_no_request_is_refused_in_vain(space, seed):
    random_operations(SPACES[space], seed)


class BuddyThatDoesNotMerge(Buddy):
    def release(self, start):
        longest, self.longest = self.longest, 0
        super().release(start)
        self.longest = longest


class BuddyMergesWithItsNeighbour(Buddy):
    def release(self, start):
        slots = self._pieces.get(start, 0)
        left = start - slots
        if slots and left in self._free[slots]:
            self._free[slots].remove(left)
            del self._pieces[start]
            self._free[slots * 2].add(left)
        else:
            super().release(start)


class FirstFitThatDoesNotMerge(FirstFit):
    def release(self, start):
        self._holes = sorted([*self._holes, (start, self._pieces.pop(start))])


@pytest.mark.parametrize(
    "make_space",
    [
        lambda: BuddyThatDoesNotMerge(TOTAL, 64),
        lambda: BuddyMergesWithItsNeighbour(TOTAL, 64),
        lambda: FirstFitThatDoesNotMerge(TOTAL),
    ],
)
def test_owners_find_planted_mistakes(make_space):
    with pytest.raises((AssertionError, KeyError)):
        random_operations(make_space, 0)


def test_next_power_of_two_at_the_edge():
    assert [next_power_of_two(slots) for slots in (1, 2, 3, 1024, 1025)] == [1, 2, 4, 1024, 2048]


def test_what_each_takes_for_one_request():
    request = Request(prompt_tokens=100, output_tokens=33)
    taken = {}
    for allocator in [*allocators(1024, 512), OracleFirstFit(1024)]:
        held = allocator.admit(request, 100)
        taken[allocator.name] = (held.slots, held.tokens, held.reserved, held.internal)
        assert allocator.free_slots() == 1024 - held.slots
    assert taken == {
        "max length": (512, 100, 33, 379),
        "power of two": (256, 100, 33, 123),  # 100 + 64, and what the buddy system adds
        "oracle": (256, 100, 33, 123),
        "paged": (112, 100, 12, 0),
        "oracle, first fit": (133, 100, 33, 0),
    }


def test_the_factor_of_two_shows_where_it_passes_a_power():
    request = Request(prompt_tokens=100, output_tokens=130)
    assert PowerOfTwo(1024, 512).admit(request, 100).slots == 512  # 100 + 256
    assert Oracle(1024, 512).admit(request, 100).slots == 256


def test_a_paged_request_grows_block_by_block_and_never_wastes_a_whole_one():
    allocator = Paged(256, 16, watermark=0)
    held = allocator.admit(Request(1, 200), 1)
    for tokens in range(2, 202):
        assert allocator.grow(held)
        assert (held.tokens, held.slots) == (tokens, -(-tokens // 16) * 16)
        assert 0 <= held.reserved + held.internal <= 15
        allocator.check()
    allocator.free(held)
    assert allocator.free_slots() == 256


def test_admission_leaves_the_watermark_and_growth_may_use_it():
    allocator = Paged(100 * 16, 16, watermark=0.1)
    with pytest.raises(KVCacheError, match="1441 tokens never fit"):
        allocator.admit(Request(1, 1440), 1)  # preempted near its end it could not come back: 91 blocks of 90
    held = allocator.admit(Request(1, 1439), 1424)
    assert (held.slots, allocator.free_slots()) == (89 * 16, 11 * 16)
    assert allocator.admit(Request(17, 1), 17) is None
    assert allocator.admit(Request(16, 1), 16).slots == 16
    assert all(allocator.grow(held) for _ in range(16))
    assert allocator.free_slots() == 9 * 16


def test_growth_without_a_block_changes_nothing():
    allocator = Paged(32, 16, watermark=0)
    first, _second = allocator.admit(Request(16, 9), 16), allocator.admit(Request(16, 9), 16)
    assert not allocator.grow(first)
    assert (first.tokens, first.slots, allocator.free_slots()) == (16, 16, 0)


def test_any_free_block_serves_any_request_and_moving_blocks_gains_none():
    """Fixed blocks have no external fragmentation (C096), so compaction has nothing to win (C112)."""
    random = Random(3)
    allocator = Paged(64 * 16, 16, watermark=0)
    held = [allocator.admit(Request(random.randrange(1, 50), 1), 1) for _ in range(64)]
    random.shuffle(held)
    for one in held[:40]:
        allocator.free(one)
    assert allocator.external(Request(600, 40)) == 0
    assert allocator.admit(Request(600, 40), 640).slots == 640  # all 40 scattered blocks
    assert allocator.free_slots() == 0


def test_contiguous_memory_has_room_in_sum_and_not_in_one_piece():
    allocator = OracleFirstFit(100)
    held = [allocator.admit(Request(5, 5), 5) for _ in range(10)]
    for one in held[::2]:
        allocator.free(one)
    assert allocator.free_slots() == 50
    assert allocator.admit(Request(10, 1), 10) is None
    assert (allocator.external(Request(10, 1)), allocator.external(Request(5, 5)), allocator.external(None)) == (50, 0, 0)


@pytest.mark.parametrize("allocator", [*allocators(1024, 512), OracleFirstFit(1024)], ids=lambda allocator: allocator.name)
def test_a_request_that_never_fits_is_refused_at_once(allocator):
    with pytest.raises(KVCacheError, match=r"1[0-9]{3} tokens .*cut"):
        allocator.admit(Request(1000, 100), 1000)
    assert allocator.free_slots() == 1024


def test_refusals():
    with pytest.raises(KVCacheError, match="100 slots in pieces up to 64"):
        Buddy(100, 64)
    with pytest.raises(KVCacheError, match="pieces up to 48"):
        Buddy(96, 48)
    assert (FirstFit(1).allocate(1), Buddy(1, 1).allocate(1)) == (0, 0)
    with pytest.raises(KVCacheError, match="0 slots"):
        FirstFit(0)
    with pytest.raises(KVCacheError, match="at least 1 of both"):
        Request(5, 0)
    for space in (FirstFit(64), Buddy(64, 64)):
        start = space.allocate(8)
        space.release(start)
        with pytest.raises(NotHeld, match="no piece starts at slot 0"):
            space.release(start)
    with pytest.raises(KVCacheError, match="600 tokens"):
        MaxLength(1024, 512).admit(Request(100, 500), 100)
