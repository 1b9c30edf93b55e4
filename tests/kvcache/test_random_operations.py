"""10^5 random operations with the integrity check after each; and the same machine finds every bug that is planted."""

import pytest

from course_lib.kvcache import BlockPool, BlockTables, KVCacheError, PrefixCache
from course_lib.kvcache import block_tables as block_tables_module

from .machine import Machine


def constant(data):
    return b"always the same"


def test_a_hundred_thousand_operations_keep_the_books():
    machine = Machine(seed=1)
    machine.run(100_000)
    assert min(machine.seen[what] for what in ("refused", "copies", "hit tokens", "named", "equal")) > 500, machine.seen
    assert machine.cache.stats.evicted_blocks > 500


@pytest.mark.parametrize("options", [
    {"hash_function": constant}, {"block_size": 1}, {"block_size": 4, "num_blocks": 64}, {"num_blocks": 3},
], ids=["every hash collides", "one token a block", "a pool with room", "three blocks"])  # fmt: skip
def test_other_pools_keep_them_too(options):
    Machine(seed=2, **options).run(5_000)


class DoubleFreeAccepted(BlockPool):
    def release(self, blocks):
        super().release([block for block in blocks if self._refs[block]])


class HalfReleased(BlockPool):
    """Gives back what it can before it sees the mistake."""

    def release(self, blocks):
        for block in reversed(blocks):
            super().release([block])


class HalfRetained(BlockPool):
    def retain(self, blocks):
        for block in blocks:
            super().retain([block])


class HeldCountForgotten(BlockPool):
    """A cached block that is taken up again is not counted as held."""

    def retain(self, blocks):
        held = self._num_held
        super().retain(blocks)
        self._num_held = held


class FreeTwice(BlockPool):
    """A named block goes to the free list as well: counted twice, handed out while it can be found."""

    def release(self, blocks):
        super().release(blocks)
        self._free.extend(block for block in dict.fromkeys(blocks) if block in self._cached)


class EvictsTooMuch(BlockPool):
    """Looks for room by evicting before it knows that there is enough."""

    def allocate(self, n):
        if n > self.num_free:
            self.evict(n - self.num_free)
        return super().allocate(n)


class LeaksOnFailure(BlockTables):
    """Takes block after block, and keeps them when one is missing."""

    def append_all(self, wanted):
        taken = [self.pool.allocate(1)[0] for _ in range(self.blocks_needed(wanted))]
        self.pool.release(taken)
        return super().append_all(wanted)


class HalfOfTheStep(BlockTables):
    """Sequence after sequence: the first ones have their slots when the pool runs out."""

    def append_all(self, wanted):
        return [copy for seq, n in wanted.items() for copy in BlockTables.append_all(self, {seq: n})]


class NoCopyOnWrite(BlockTables):
    def _is_shared(self, block, dropped):
        return False


class NamedBlocksOverwritten(BlockTables):
    """Copies what others hold, but not what can be found by its content."""

    def _is_shared(self, block, dropped):
        return self.pool.ref_count(block) - dropped[block] > 1


class CopyForgotten(BlockTables):
    """A block of its own, without what was in the shared one."""

    def append_all(self, wanted):
        super().append_all(wanted)
        return []


class ForkWithoutReferences(BlockTables):
    def fork(self, parent, child):
        super().fork(parent, child)
        self.pool.release(self.blocks(child))


class KeepsTheTail(BlockTables):
    """Truncating forgets the tokens, not the blocks."""

    def truncate(self, seq, length):
        blocks = self.blocks(seq)
        self.pool.retain(blocks)
        super().truncate(seq, length)
        self.pool.release(self.blocks(seq))


class CollisionServed(PrefixCache):
    def _is_same(self, entry, parent, tokens):
        return True


class OnlyOwnTokensCompared(PrefixCache):
    """The tokens of the block are the same, those before it are not looked at."""

    def _is_same(self, entry, parent, tokens):
        return entry.tokens == tokens


class SaltIgnored(PrefixCache):
    def match(self, tokens, salt=""):
        return super().match(tokens, "")


class NothingLeftToCompute(PrefixCache):
    def _walk(self, tokens, salt):
        return super()._walk([*tokens, 0], salt)


class ParentsFirst(PrefixCache):
    def _last_of_branch(self, entry):
        return entry


class HeldEvicted(PrefixCache):
    """Takes the first block that has a name."""

    def evict(self, n):
        evicted = list(self._of_block)[:n]
        for block in evicted:
            self._forget(self._last_of_branch(self._of_block[block]))
        return evicted


POOLS = [DoubleFreeAccepted, HalfReleased, HalfRetained, HeldCountForgotten, FreeTwice, EvictsTooMuch]
TABLES = [
    LeaksOnFailure,
    HalfOfTheStep,
    NoCopyOnWrite,
    NamedBlocksOverwritten,
    CopyForgotten,
    ForkWithoutReferences,
    KeepsTheTail,
]
CACHES = [CollisionServed, OnlyOwnTokensCompared, SaltIgnored, NothingLeftToCompute, ParentsFirst, HeldEvicted]


@pytest.mark.parametrize("planted", [*POOLS, *TABLES, *CACHES])
def test_a_planted_bug_is_found(planted):
    kind = "pool" if planted in POOLS else "tables" if planted in TABLES else "cache"
    options = {"hash_function": constant} if planted in (CollisionServed, OnlyOwnTokensCompared) else {}
    with pytest.raises((AssertionError, KVCacheError, KeyError)):
        Machine(seed=3, **{kind: planted}, **options).run(10_000)


@pytest.mark.parametrize("wrong", [
    lambda tokens, size: tokens // size + 1, lambda tokens, size: tokens // size, lambda tokens, size: -(-(tokens - 1) // size),
], ids=["a block too early", "no block for the rest", "a token too late"])  # fmt: skip
def test_a_boundary_off_by_one_is_found(wrong, monkeypatch):
    monkeypatch.setattr(block_tables_module, "blocks_for", wrong)
    with pytest.raises((AssertionError, IndexError)):
        Machine(seed=3).run(10_000)


def test_the_machine_itself_finds_a_wrong_token():
    machine = Machine(seed=4)
    machine.run(200)
    machine.model["made up"] = ([0], "")
    with pytest.raises(AssertionError):
        machine.quick_check()
