"""A sliding window with attention sinks in blocks that are written over in a circle: memory stops growing, text need not.

Seen     by the query at position p: the first `sinks` positions, and the last `window` up to and with p.
Layout   sinks lie in blocks of their own; position p behind them in ring slot (p - sinks) % ring_slots. The ring has
         window + max_append - 1 slots, rounded up to blocks: a chunk of max_append tokens is written before its first query runs,
         and must not write over what that query still sees.
         window 8, blocks of 4: 2 blocks for one token at a time, 3 for chunks of 2 to 5.
Order    slots of a ring are not in order of position. Softmax does not mind, as long as keys carry their own positions (RoPE is
         applied when they are written) and dead slots are masked: `live` says which are not.
Shared   after a fork both hold the same blocks, and a prefix cache may know a block's content. Whoever writes first takes a new
         block, and says what must be copied into it; the old one is released once, by who left it (double frees: vllm 1556).
Sinks    Xiao et al., "Efficient streaming language models with attention sinks", arXiv 2309.17453: the first few tokens take
         attention that has nowhere else to go, and a window that drops them loses the model.
"""

from typing import TYPE_CHECKING, NamedTuple

from .errors import KVCacheError, UnknownSequence, whole

if TYPE_CHECKING:
    from .block_pool import BlockPool


class Appended(NamedTuple):
    """slots[i] takes the i-th new token, after the blocks named in `copies` (source, destination) have been copied, in order."""

    slots: list[int]
    copies: list[tuple[int, int]]


class Live(NamedTuple):
    """slot = block * block_size + offset; `rank` counts what is seen, from 0: the position that arXiv 2309.17453 gives a key."""

    slot: int
    position: int
    rank: int


class RingCache:
    """One sequence. `length` counts all tokens ever appended; at most `max_blocks` blocks are held."""

    def __init__(self, pool: "BlockPool", window: int, sinks: int = 0, max_append: int = 1) -> None:
        window, sinks, max_append = whole(window, "window"), whole(sinks, "sinks"), whole(max_append, "max_append")
        if window < 1 or sinks < 0 or max_append < 1:
            raise KVCacheError(f"window {window}, sinks {sinks}, max_append {max_append}; use at least 1, 0 and 1")
        self.pool, self.window, self.sinks, self.max_append = pool, window, sinks, max_append
        self.length = 0
        self._sink_blocks = -(-sinks // pool.block_size)
        self._ring_blocks = -(-(window + max_append - 1) // pool.block_size)
        self._blocks: list[int] | None = []  # sink blocks, then ring blocks, as far as they were needed; None: freed

    @property
    def max_blocks(self) -> int:
        return self._sink_blocks + self._ring_blocks

    @property
    def blocks(self) -> list[int]:
        """A row of a block table: sink blocks, then the ring. Raises UnknownSequence after `free`."""
        if self._blocks is None:
            raise UnknownSequence("this ring cache was freed; make a new one")
        return list(self._blocks)

    def append(self, tokens: int) -> Appended:
        """Room for the next tokens, all or nothing. Raises OutOfBlocks, KVCacheError when tokens > max_append."""
        blocks, tokens = self.blocks, whole(tokens, "tokens to append")
        if not 0 <= tokens <= self.max_append:
            limit = f"the ring has room for {self.max_append} at a time, so that the first of them still sees its window"
            raise KVCacheError(f"{tokens} tokens to append; {limit}: cut the prompt into chunks")
        places = [self._place(position) for position in range(self.length, self.length + tokens)]
        entered = list(dict.fromkeys(entry for entry, _ in places))
        opened = sum(entry >= len(blocks) for entry in entered)
        shared = [entry for entry in entered if entry < len(blocks) and self._is_shared(blocks[entry])]
        new = self.pool.allocate(opened + len(shared))
        left, copies = [], []
        for entry in shared:
            left.append(blocks[entry])
            blocks[entry] = new.pop()
            copies.append((left[-1], blocks[entry]))
        blocks += new
        self.pool.release(left)
        self._blocks = blocks
        self.length += tokens
        return Appended([blocks[entry] * self.pool.block_size + offset for entry, offset in places], copies)

    def live(self, position: int | None = None) -> list[Live]:
        """What the query at `position` (default: the newest token) sees, in order of position.

        Raises KVCacheError for a position whose window has been written over in part.
        """
        blocks = self.blocks
        position = self.length - 1 if position is None else position
        oldest = max(self.length - self.max_append, 0)
        if self.length and not oldest <= position < self.length:
            raise KVCacheError(f"query at {position} of {self.length} tokens; the ring has whole windows from {oldest} on")
        start = max(self.sinks, position - self.window + 1)
        seen = [*range(min(self.sinks, position + 1)), *range(start, position + 1)]
        places = [self._place(p) for p in seen]
        slots = [blocks[entry] * self.pool.block_size + offset for entry, offset in places]
        return [Live(slot, p, rank) for rank, (slot, p) in enumerate(zip(slots, seen, strict=True))]

    def fork(self) -> "RingCache":
        """A second sequence that goes on from here. It holds the same blocks until one of the two writes."""
        child = type(self)(self.pool, self.window, self.sinks, self.max_append)
        self.pool.retain(self.blocks)
        child._blocks, child.length = self.blocks, self.length
        return child

    def free(self) -> None:
        """Give all blocks back, once: a second call raises UnknownSequence."""
        self.pool.release(self.blocks)
        self._blocks = None

    def check(self) -> None:
        """Bounded, held, and no two positions that a coming query may see in one slot."""
        blocks = self.blocks
        assert len(blocks) == len(set(blocks)) <= self.max_blocks, f"blocks {blocks}, at most {self.max_blocks} different ones"
        assert all(self.pool.ref_count(block) > 0 for block in blocks), f"a block of {blocks} is free"
        reach = self.window + self.max_append - 1
        kept = [*range(min(self.sinks, self.length)), *range(max(self.sinks, self.length - reach), self.length)]
        places = [self._place(position) for position in kept]
        assert len(set(places)) == len(places), f"two of the positions {kept} share a slot"
        assert all(0 <= entry < len(blocks) for entry, _ in places), f"positions beyond the {len(blocks)} blocks"
        assert all(0 <= offset < self.pool.block_size for _, offset in places), f"offsets beyond a block: {places}"

    def _is_shared(self, block: int) -> bool:
        """Somebody else holds it, or may take it up again from a prefix cache."""
        return self.pool.ref_count(block) > 1 or self.pool.is_named(block)

    def _place(self, position: int) -> tuple[int, int]:
        """(entry of `blocks`, offset in the block) of a position."""
        if position < self.sinks:
            return divmod(position, self.pool.block_size)
        entry, offset = divmod(self._ring_slot(position), self.pool.block_size)
        return self._sink_blocks + entry, offset

    def _ring_slot(self, position: int) -> int:
        return (position - self.sinks) % (self._ring_blocks * self.pool.block_size)
