"""Block tables: which blocks hold the tokens of each sequence. Token t lies in its block t // block_size, slot t % block_size.

Boundary a sequence of n tokens has ceil(n / block_size) blocks. A block is opened by the first token that lies in it, not by the
         last one of the block before. block_size 4: 4 tokens -> 1 block (slots 0..3), 5 tokens -> 2 (the fifth opens another).
Sharing  `fork` gives a child the same blocks. Who then appends into a block that others read too gets a new one first
         (copy-on-write): `append` returns (source, destination) pairs, to be copied in this order BEFORE anything is written.
Contract a sequence is written only from its length on, only in blocks that it holds alone and that nobody can find by content.
Errors   every operation does all or nothing; OutOfBlocks, UnknownSequence and SequenceExists say what there is.
Not here content (prefix_cache.py) and tensors (storage.py): a sequence is a name and a length here.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .block_pool import BlockPool
from .errors import KVCacheError, NotHeld, SequenceExists, UnknownSequence, whole

if TYPE_CHECKING:
    from torch import Tensor

Copies = list[tuple[int, int]]


def blocks_for(tokens: int, block_size: int) -> int:
    """Blocks that so many tokens need: ceil. block_size 4: 4 tokens -> 1, 5 tokens -> 2."""
    return -(-tokens // block_size)


@dataclass(frozen=True, slots=True)
class Waste:
    """Slots in held blocks that hold no token. A block that several sequences share counts once."""

    internal_tokens: int  # behind the last token of a block that is begun: at most block_size - 1 a sequence
    reserved_tokens: int  # in blocks that were handed out ahead of need and are not begun
    used_tokens: int  # slots that hold a token

    @property
    def share(self) -> float:
        """Of all slots in these blocks, how many hold nothing: 0 to 1."""
        lost = self.internal_tokens + self.reserved_tokens
        return lost / max(lost + self.used_tokens, 1)


@dataclass(slots=True)
class _Table:
    length: int = 0
    blocks: list[int] = field(default_factory=list)


class BlockTables:
    """The sequences over one pool.

    preallocate   blocks that each sequence gets at its start, before it needs them; 0: on demand. What it costs: `waste()`
    """

    def __init__(self, pool: BlockPool, *, preallocate: int = 0) -> None:
        if preallocate < 0:
            raise KVCacheError(f"preallocate is {preallocate}; use 0 or more blocks")
        self.pool, self.preallocate = pool, preallocate
        self._tables: dict[Hashable, _Table] = {}

    def __contains__(self, seq: Hashable) -> bool:
        return seq in self._tables

    def __len__(self) -> int:
        return len(self._tables)

    def sequences(self) -> list[Hashable]:
        return list(self._tables)

    def length(self, seq: Hashable) -> int:
        """Tokens that the sequence has slots for."""
        return self._table(seq).length

    def blocks(self, seq: Hashable) -> list[int]:
        """Its blocks in order, those that were handed out ahead included."""
        return list(self._table(seq).blocks)

    def add(self, seq: Hashable, tokens: int, shared: Sequence[int] = ()) -> None:
        """A new sequence with slots for so many tokens.

        shared   full blocks that hold its beginning, as PrefixCache.match gave them: their references go over to the table.
                 When `add` raises, they stay with the caller.
        """
        size, tokens = self.pool.block_size, whole(tokens, f"tokens of sequence {seq!r}")
        shared = [whole(block, "block") for block in shared]
        self._is_new(seq)
        if tokens < 0:
            raise KVCacheError(f"sequence {seq!r} of {tokens} tokens; use 0 or more")
        if tokens < len(shared) * size:
            raise KVCacheError(f"sequence {seq!r} of {tokens} tokens: {len(shared)} shared blocks hold {len(shared) * size}; "
                               "share full blocks of its beginning only")  # fmt: skip
        for block in shared:
            if not self.pool.ref_count(block):
                raise NotHeld(f"sequence {seq!r}: shared block {block} has no reference; hand over what match gave, once")
        if len(set(shared)) < len(shared):
            raise KVCacheError(f"sequence {seq!r}: a block comes twice in {list(shared)}; a sequence has each block once")
        more = max(blocks_for(tokens, size), self.preallocate) - len(shared)
        self._tables[seq] = _Table(tokens, [*shared, *self.pool.allocate(max(more, 0))])

    def blocks_needed(self, wanted: Mapping[Hashable, int]) -> int:
        """New blocks that appending so many tokens to each sequence takes, copies included: for admission."""
        return sum(count for _, _, count, _ in self._plans(wanted))

    def append(self, seq: Hashable, n: int = 1) -> Copies:
        """Slots for n more tokens -> block copies (source, destination) to make before anything is written."""
        return self.append_all({seq: n})

    def append_all(self, wanted: Mapping[Hashable, int]) -> Copies:
        """The same for several sequences: all of them get their slots, or none does."""
        plans = self._plans(wanted)
        fresh = iter(self.pool.allocate(sum(count for _, _, count, _ in plans)))
        copies: Copies = []
        for table, n, count, shared in plans:
            for index in shared:
                old, table.blocks[index] = table.blocks[index], next(fresh)
                if index * self.pool.block_size < table.length:  # the old one holds tokens of this sequence
                    copies.append((old, table.blocks[index]))
                self.pool.release([old])
            table.blocks += [next(fresh) for _ in range(count - len(shared))]
            table.length += n
        return copies

    def fork(self, parent: Hashable, child: Hashable) -> None:
        """A child with the parent's tokens, in the same blocks. Blocks that the parent holds ahead of need stay its own."""
        table = self._table(parent)
        self._is_new(child)
        shared = table.blocks[: blocks_for(table.length, self.pool.block_size)]
        ahead = self.pool.allocate(max(self.preallocate - len(shared), 0))
        self.pool.retain(shared)
        self._tables[child] = _Table(table.length, shared + ahead)

    def truncate(self, seq: Hashable, length: int) -> None:
        """Forget the tokens from `length` on, and release the blocks that hold none of the others."""
        table, length = self._table(seq), whole(length, f"tokens of sequence {seq!r}")
        if not 0 <= length <= table.length:
            raise KVCacheError(f"sequence {seq!r} has {table.length} tokens, not {length} to cut to; use 0 to {table.length}")
        keep = max(blocks_for(length, self.pool.block_size), self.preallocate)
        self.pool.release(table.blocks[keep:])
        del table.blocks[keep:]
        table.length = length

    def free(self, seq: Hashable) -> None:
        """Forget the sequence. Its blocks go back to the pool where nobody else holds them."""
        self.pool.release(self._table(seq).blocks)
        del self._tables[seq]

    def replace(self, seq: Hashable, index: int, block: int) -> None:
        """Read block `index` from another block with equal content (PrefixCache.insert found one), and release the own one."""
        table = self._table(seq)
        full = table.length // self.pool.block_size
        if not 0 <= index < full or block in table.blocks:
            raise KVCacheError(f"sequence {seq!r} cannot read its block number {index} from block {block}: it has {full} full "
                               f"blocks, {table.blocks}")  # fmt: skip
        block = whole(block, "block")
        self.pool.retain([block])
        self.pool.release([table.blocks[index]])
        table.blocks[index] = block

    def slots(self, seq: Hashable, start: int = 0, stop: int | None = None) -> list[int]:
        """Where the tokens start ... stop - 1 lie: block * block_size + slot in it. stop None: up to the end."""
        table, size = self._table(seq), self.pool.block_size
        stop = table.length if stop is None else stop
        if not 0 <= start <= stop <= table.length:
            raise KVCacheError(f"sequence {seq!r} has slots 0 to {table.length} (exclusive), not {start} to {stop}; append first")
        return [table.blocks[t // size] * size + t % size for t in range(start, stop)]

    def as_tensor(self, seqs: Sequence[Hashable], width: int | None = None) -> "Tensor":
        """int32 [len(seqs), width], padded with -1; only blocks that hold tokens. width None: the longest table's, at least 1."""
        import torch

        size = self.pool.block_size
        rows = [(table := self._table(seq)).blocks[: blocks_for(table.length, size)] for seq in seqs]
        longest = max(map(len, rows), default=0)
        width = max(longest, 1) if width is None else width
        if longest > width:
            raise KVCacheError(f"a table of {longest} blocks in a tensor of width {width}; use at least {longest}")
        return torch.tensor([row + [-1] * (width - len(row)) for row in rows], dtype=torch.int32).view(len(rows), width)

    def waste(self) -> Waste:
        """Slots that are held and empty, over all sequences, shared blocks counted once."""
        size, used = self.pool.block_size, {}
        for table in list(self._tables.values()):
            for index, block in enumerate(table.blocks):
                used[block] = max(used.get(block, 0), min(max(table.length - index * size, 0), size))
        internal = sum(size - tokens for tokens in used.values() if tokens)
        reserved = size * sum(not tokens for tokens in used.values())
        return Waste(internal, reserved, sum(used.values()))

    def check(self, also: Iterable[Sequence[int]] = ()) -> None:
        """AssertionError where tables and pool disagree. also: blocks that others hold (a match not yet added, a tree)."""
        size = self.pool.block_size
        for seq, table in self._tables.items():
            needed = max(blocks_for(table.length, size), self.preallocate)
            held = len(table.blocks)
            assert held == needed, f"sequence {seq!r}: {table.length} tokens need {needed} blocks, it has {held}"
            assert len(set(table.blocks)) == len(table.blocks), f"sequence {seq!r} has a block twice: {table.blocks}"
        self.pool.check([*(table.blocks for table in self._tables.values()), *also])

    def _plans(self, wanted: Mapping[Hashable, int]) -> list[tuple[_Table, int, int, list[int]]]:
        """For each sequence: table, tokens, new blocks, and the indices of blocks that it must not write and that are replaced.

        A sequence that gets its own block drops its reference, so that the last holder writes in place.
        """
        size, dropped, plans = self.pool.block_size, Counter(), []
        for seq, n in wanted.items():
            table, n = self._table(seq), whole(n, f"tokens to append to sequence {seq!r}")
            if n < 0:
                raise KVCacheError(f"sequence {seq!r}: {n} tokens to append; use 0 or more, or truncate")
            needed = blocks_for(table.length + n, size)
            written = range(table.length // size, min(len(table.blocks), needed)) if n else range(0)
            shared = [index for index in written if self._is_shared(table.blocks[index], dropped)]
            dropped.update(table.blocks[index] for index in shared)
            plans.append((table, n, max(needed - len(table.blocks), 0) + len(shared), shared))
        return plans

    def _is_shared(self, block: int, dropped: Mapping[int, int]) -> bool:
        """Somebody else reads this block, or may find it by its content."""
        return self.pool.ref_count(block) - dropped[block] > 1 or self.pool.is_named(block)

    def _table(self, seq: Hashable) -> _Table:
        if seq not in self._tables:
            raise UnknownSequence(f"no sequence {seq!r}: never added, or freed; {len(self._tables)} are known")
        return self._tables[seq]

    def _is_new(self, seq: Hashable) -> None:
        if seq in self._tables:
            length = self._tables[seq].length
            raise SequenceExists(f"sequence {seq!r} exists, with {length} tokens; free it first, or use another name")
