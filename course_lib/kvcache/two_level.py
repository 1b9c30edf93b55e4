"""A block table in two levels: a directory of leaves per sequence, leaves of block numbers, made when they are needed.

Why      a flat table has a row of max_blocks entries for every sequence, most of them -1. With 256 rows for prompts up to 131,072
         tokens, blocks of 16: 256 * 8192 * 4 = 8,388,608 bytes, though 1,700 tokens need 107 entries.
Cost     a kernel reads the directory, then the leaf, then K and V: one more load that the next one waits for, once every
         leaf_entries blocks.
In scale 16 tokens of Llama-3-8B's KV are 2,097,152 bytes, their entry 4: tables are small beside what they point to. Two levels
         pay where rows are many and long, and where a table is copied to the device in every step.
"""

from typing import NamedTuple

from .errors import KVCacheError, OutOfBlocks, SequenceExists, UnknownSequence

ENTRY_BYTES = 4  # int32
EMPTY = -1


class TwoLevelTable:
    """`directories`: [max_sequences][ceil(max_blocks / leaf_entries)] numbers of leaves; `leaves`: [max_leaves][leaf_entries]."""

    def __init__(self, max_sequences: int, max_blocks: int, leaf_entries: int, max_leaves: int) -> None:
        if min(max_sequences, max_blocks, leaf_entries, max_leaves) < 1:
            raise KVCacheError(
                f"{max_sequences} rows, {max_blocks} blocks, {max_leaves} leaves of {leaf_entries}; use at least 1"
            )
        self.max_blocks, self.leaf_entries = max_blocks, leaf_entries
        self.directories = [[EMPTY] * -(-max_blocks // leaf_entries) for _ in range(max_sequences)]
        self.leaves = [[EMPTY] * leaf_entries for _ in range(max_leaves)]
        self._counts: dict[int, int] = {}  # row -> blocks
        self._free_leaves = list(range(max_leaves))[::-1]

    def add(self, row: int, blocks: list[int]) -> None:
        """Start a row with these blocks, all or nothing. SequenceExists, UnknownSequence outside the table, and as `extend`."""
        if not 0 <= row < len(self.directories):
            raise UnknownSequence(f"row {row} of a table of {len(self.directories)}; use 0 to {len(self.directories) - 1}")
        if row in self._counts:
            raise SequenceExists(f"row {row} is in use with {self._counts[row]} blocks; free it first")
        self._counts[row] = 0
        try:
            self.extend(row, blocks)
        except BaseException:
            del self._counts[row]
            raise

    def extend(self, row: int, blocks: list[int]) -> None:
        """Add blocks at the end of a row. OutOfBlocks when leaves run out, KVCacheError past max_blocks: nothing changed."""
        have = self._count(row)
        if blocks and min(blocks) < 0:
            raise KVCacheError(f"row {row}: block {min(blocks)}, and {EMPTY} says that there is none; use 0 or more")
        if have + len(blocks) > self.max_blocks:
            raise KVCacheError(f"row {row}: {have} + {len(blocks)} blocks, a row has room for {self.max_blocks}")
        need = self._leaves_for(have + len(blocks)) - self._leaves_for(have)
        if need > len(self._free_leaves):
            raise OutOfBlocks(need, len(self._free_leaves), 0, len(self.leaves))
        for index in range(self._leaves_for(have), self._leaves_for(have) + need):
            self.directories[row][index] = self._free_leaves.pop()
        for index, block in enumerate(blocks, start=have):
            self.leaves[self.directories[row][index // self.leaf_entries]][index % self.leaf_entries] = block
        self._counts[row] = have + len(blocks)

    def block(self, row: int, index: int) -> int:
        """The index-th block of a row, as a kernel finds it: directory, leaf, entry."""
        if not 0 <= index < self._count(row):
            raise KVCacheError(f"block {index} of row {row}, which has {self._counts[row]}")
        return self.leaves[self.directories[row][index // self.leaf_entries]][index % self.leaf_entries]

    def flat(self, row: int) -> list[int]:
        """The row of a flat table, padded with -1."""
        blocks = [self.block(row, index) for index in range(self._count(row))]
        return blocks + [EMPTY] * (self.max_blocks - len(blocks))

    def free(self, row: int) -> None:
        """Give the row's leaves back; the blocks are the pool's business. UnknownSequence when it has none."""
        used = self._leaves_for(self._count(row))
        for index, leaf in enumerate(self.directories[row][:used]):
            self.leaves[leaf] = [EMPTY] * self.leaf_entries
            self.directories[row][index] = EMPTY
            self._free_leaves.append(leaf)
        del self._counts[row]

    def check(self) -> None:
        """Every leaf is free and empty or in one directory, and filled from its beginning."""
        used = [leaf for directory in self.directories for leaf in directory if leaf != EMPTY]
        assert sorted(used + self._free_leaves) == list(range(len(self.leaves))), f"leaves {used} used, {self._free_leaves} free"
        assert all(set(self.leaves[leaf]) == {EMPTY} for leaf in self._free_leaves), "a free leaf has entries"
        for row, directory in enumerate(self.directories):
            count = self._counts.get(row, 0)
            entries = [entry for leaf in directory if leaf != EMPTY for entry in self.leaves[leaf]]
            assert len(entries) == self._leaves_for(count) * self.leaf_entries, (
                f"row {row}: {count} blocks, {len(entries)} entries"
            )
            assert EMPTY not in entries[:count], f"row {row}: a hole before block {count}"
            assert set(entries[count:]) <= {EMPTY}, f"row {row}: entries behind block {count}"

    def _leaves_for(self, blocks: int) -> int:
        return -(-blocks // self.leaf_entries)

    def _count(self, row: int) -> int:
        if row not in self._counts:
            raise UnknownSequence(f"row {row} holds no sequence; add it first")
        return self._counts[row]


class TableBytes(NamedTuple):
    """What tables take on the device, in bytes."""

    flat: int
    two_level: int


def table_bytes(lengths: list[int], max_sequences: int, max_length: int, block_size: int, leaf_entries: int) -> TableBytes:
    """Tables for sequences of `lengths` tokens, of which a table must have room for max_sequences of max_length.

    One row for up to 4096 tokens in blocks of 16, filled with 1000, leaves of 32: flat 256 * 4 = 1024 bytes;
    two levels (8 + 2 * 32) * 4 = 288.
    """
    blocks = [-(-length // block_size) for length in lengths]
    max_blocks = -(-max_length // block_size)
    leaves = sum(-(-count // leaf_entries) for count in blocks)
    directory = -(-max_blocks // leaf_entries)
    return TableBytes(
        flat=max_sequences * max_blocks * ENTRY_BYTES,
        two_level=(max_sequences * directory + leaves * leaf_entries) * ENTRY_BYTES,
    )
