"""The block pool: who holds which block of KV memory, and which block is handed out next. It knows numbers, not tensors.

States   held    at least one reference: in a sequence's block table, or kept by whoever else took one
         cached  no reference, but its content has a name (PrefixCache), so that a later request may take it up again
         free    no reference and no name
         Each block is in exactly one of them: free + cached + held = num_blocks at all times, idle or busy; `check()` proves it.
Order    `allocate` hands out free blocks, the one that became free first before the others, and evicts cached ones only when
         free ones run out: those without a reference for longest first, except that the cache lets go of a block's
         continuations before the block itself. `release` takes a list as a sequence holds it and works from its
         end, so that the tail of a sequence is older, and goes earlier, than its beginning.
Errors   OutOfBlocks, UnknownBlock, NotHeld: with the numbers, and with nothing changed. Each operation is all or nothing.
Threads  one at a time; others may read the counts (metrics.py does), each of which is right by itself.
Cost     a few dictionary operations a block, independent of the size of the pool.
Not here which sequence has which blocks (block_tables.py), what they contain (prefix_cache.py), the tensors (storage.py).
"""

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence

from .errors import KVCacheError, NotHeld, OutOfBlocks, UnknownBlock, whole


class BlockPool:
    """num_blocks blocks of block_size tokens each, numbered from 0."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        num_blocks, block_size = whole(num_blocks, "blocks of a pool"), whole(block_size, "tokens of a block")
        if num_blocks < 1 or block_size < 1:
            raise KVCacheError(f"a pool of {num_blocks} blocks of {block_size} tokens; use at least 1 of both")
        self.num_blocks, self.block_size = num_blocks, block_size
        self._refs = [0] * num_blocks
        self._named = bytearray(num_blocks)  # 1: its content has a name
        self._free: deque[int] = deque(range(num_blocks))
        self._cached: OrderedDict[int, None] = OrderedDict()  # longest without a reference first
        self._num_held = 0
        self.evict: Callable[[int], Sequence[int]] | None = None  # set by who names blocks: lets go of so many cached ones

    @property
    def num_free(self) -> int:
        """Blocks without reference and without name."""
        return len(self._free)

    @property
    def num_cached(self) -> int:
        """Blocks without reference whose content can still be taken up."""
        return len(self._cached)

    @property
    def num_held(self) -> int:
        return self._num_held

    @property
    def num_available(self) -> int:
        """Blocks that `allocate` can hand out: free ones, and cached ones by evicting them."""
        return len(self._free) + len(self._cached)

    def ref_count(self, block: int) -> int:
        """References to a block. UnknownBlock outside the pool."""
        return self._refs[self._known(block)]

    def allocate(self, n: int) -> list[int]:
        """n blocks with one reference each, their content undefined. OutOfBlocks when fewer are free or cached: then none.

        4 blocks, 1 free and 2 cached: allocate(3) evicts both cached ones, allocate(4) is refused and evicts none.
        """
        n = whole(n, "blocks wanted")
        if n < 0:
            raise KVCacheError(f"{n} blocks wanted; use 0 or more")
        if n > self.num_available:
            raise OutOfBlocks(n, self.num_free, self.num_cached, self.num_blocks)
        if n > len(self._free):
            assert self.evict is not None, f"{self.num_cached} blocks are cached, and nobody evicts"
            self.evict(n - len(self._free))
            if n > len(self._free):  # whoever was told of an eviction has taken up blocks, or named ones are nobody's
                raise OutOfBlocks(n, self.num_free, self.num_cached, self.num_blocks)
        blocks = [self._free.popleft() for _ in range(n)]
        for block in blocks:
            self._refs[block] = 1
        self._num_held += n
        return blocks

    def retain(self, blocks: Sequence[int]) -> None:
        """One more reference to each. A cached block is held again; a free one has no content to share: NotHeld."""
        blocks = [self._known(block) for block in blocks]
        for block in blocks:
            if not self._refs[block] and block not in self._cached:
                raise NotHeld(f"block {block} is free, its content is gone; only allocate hands it out")
        for block in blocks:
            if not self._refs[block]:
                del self._cached[block]
                self._num_held += 1
            self._refs[block] += 1

    def release(self, blocks: Sequence[int]) -> None:
        """Give back one reference to each, the last one first. NotHeld for a block without one (a double free): then none."""
        blocks = [self._known(block) for block in blocks]
        for block, times in Counter(blocks).items():
            if self._refs[block] < times:
                raise NotHeld(self._double_free(block, times))
        for block in reversed(blocks):
            self._refs[block] -= 1
            if not self._refs[block]:
                self._num_held -= 1
                if self._named[block]:
                    self._cached[block] = None
                else:
                    self._free.append(block)

    # --- for who names blocks ------------------------------------------------------------------------------------------

    def name(self, block: int) -> None:
        """The content of a held block can be found from now on: without a reference the block is cached, not free."""
        block = self._known(block)
        if not self._refs[block]:
            raise NotHeld(f"block {block} has no reference, its content may be overwritten; name it while it is held")
        self._named[block] = 1

    def forget(self, block: int) -> None:
        """Its content can no longer be found; a cached block becomes free, a held one stays with its holders."""
        block = self._known(block)
        self._named[block] = 0
        if block in self._cached:
            del self._cached[block]
            self._free.append(block)

    def is_named(self, block: int) -> bool:
        """Somebody may take up this content later: it must not be written over."""
        return bool(self._named[self._known(block)])

    def oldest_cached(self) -> int | None:
        """The cached block that has been without a reference for longest."""
        return next(iter(self._cached), None)

    # --- integrity -----------------------------------------------------------------------------------------------------

    def check(self, holders: Iterable[Sequence[int]] | None = None) -> None:
        """AssertionError where the books do not balance. holders: the blocks of each who holds references; None: not known."""
        free, cached = set(self._free), self._cached.keys()
        held = {block for block, refs in enumerate(self._refs) if refs}
        assert len(free) == len(self._free), f"blocks twice in the free list: {_repeated(self._free)}"
        assert min(self._refs) >= 0, f"block {self._refs.index(min(self._refs))} has {min(self._refs)} references"
        assert not free & cached, f"blocks both free and cached: {sorted(free & cached)}"
        assert not held & free, f"blocks both held and free: {sorted(held & free)}"
        assert not held & cached, f"blocks both held and cached: {sorted(held & cached)}"
        known = len(free) + len(cached) + len(held)
        assert known == self.num_blocks, f"{self.num_blocks - known} of {self.num_blocks} blocks leaked"
        assert self._num_held == len(held), f"{self._num_held} blocks counted as held, {len(held)} have references"
        named = {block for block, flag in enumerate(self._named) if flag}
        assert cached <= named, f"blocks cached without a name: {sorted(cached - named)}"
        assert not named & free, f"free blocks with a name: {sorted(named & free)}"
        if holders is not None:
            counted = Counter(block for blocks in holders for block in blocks)
            wrong = {b: (refs, counted[b]) for b, refs in enumerate(self._refs) if refs != counted[b]}
            assert not wrong, f"references counted and found, by block: {wrong}"
            outside = [block for block in counted if not 0 <= block < self.num_blocks]
            assert not outside, f"holders have blocks outside the pool: {sorted(outside)}"

    def _known(self, block: int) -> int:
        """The block's number as an int of Python: a tensor in the books would be equal to no other."""
        block = whole(block, "block")
        if not 0 <= block < self.num_blocks:
            raise UnknownBlock(f"block {block} in a pool of {self.num_blocks}; use 0 to {self.num_blocks - 1}")
        return block

    def _double_free(self, block: int, times: int) -> str:
        if times > 1:
            return f"block {block} is {times} times in the list to release, and has {self._refs[block]} references"
        return f"block {block} is released and has no reference left (a double free): {self.num_held} blocks are held"


def _repeated(blocks: Iterable[int]) -> list[int]:
    return sorted(block for block, times in Counter(blocks).items() if times > 1)
