"""How decode work is cut and handed to a fixed number of programs: by the work there is, never by the batch alone.

A *pair* is one group of queries with one KV head: it reads the tokens of one row of the block table. Its work is counted in
tiles of `tile` tokens, the unit of the kernel's loop. Of two ways of handing tiles to programs the cheaper is taken:

whole  every pair stays in one piece, and goes to the program in whose share of the tiles its middle lies. Nothing to merge, but
       the fullest program decides when the kernel ends: 512 equal pairs on 264 programs are 2 each for some, 1 for others.
even   every program gets the same number of tiles, and pairs are cut where a share ends (the "stream-K" of arXiv 2301.03598).
       Nobody waits, but cut pairs have to be merged, which costs about as much as MERGE_TILES tiles for each program.

One long context is so cut into as many pieces as there are programs, and a large batch only at its programs' borders.
Shares below MIN_TILES tiles are not given: they cost more in starting and merging than they save. Nor is a pair cut one tile from
its border where a share has CRUMB_SHARE tiles or more.
"""

from dataclasses import dataclass

import numpy as np

MERGE_TILES = 3
MIN_TILES = 4
CRUMB_SHARE = 8  # from so many tiles a program on, one tile more or less is no imbalance, and a piece of one tile is a waste
FIELDS = 8  # int32 numbers of an item; decode_kernel.py names them


@dataclass(frozen=True, slots=True)
class WorkList:
    """Host arrays, all int32, as long as the work needs (DecodePlan copies them into buffers of fixed size).

    starts [programs + 1]   items of program p are starts[p] .. starts[p + 1] - 1
    items [n, 8]            first query, queries, KV head, table row, first token, end token, slot (-1: writes the result), 0
    merges [m, 8]           first query, queries, KV head, first slot, parts, 0, 0, 0
    """

    starts: np.ndarray
    items: np.ndarray
    merges: np.ndarray

    @property
    def slots(self) -> int:
        return int(self.merges[:, 4].sum())

    def describe(self) -> str:
        tokens = self.items[:, 5] - self.items[:, 4]
        cut = f"{len(self.merges)} pairs cut into {self.slots} parts"
        return f"{len(tokens)} items for {len(self.starts) - 1} programs, {cut}, {tokens.min()} to {tokens.max()} tokens an item"


def split_work(
    lengths: np.ndarray, kv_heads: int, *, tile: int, programs: int, groups: np.ndarray | None = None, splits: str = "auto"
) -> WorkList:
    """Cut the work of a decode step.

    lengths  tokens of each group of queries, int [n]
    groups   [n, 3]: first query, queries, table row of each; by default group i is query i alone, with table row i
    splits   "auto" | "whole" | "even": which of the two ways to take

    1 row of 32768 tokens with 8 KV heads, tiles of 64, 264 programs -> 4096 tiles, 15 or 16 for each program.
    64 rows of 8192: 65536 tiles, 248 or 249 each (whole pairs would be 256 for the fullest). 32 rows of 4096: 256 pairs, whole.
    """
    if splits not in ("auto", "whole", "even"):
        raise ValueError(f"splits is 'auto', 'whole' or 'even', got {splits!r}")
    lengths = np.asarray(lengths, dtype=np.int64)
    count = len(lengths)
    if groups is None:
        groups = np.stack([np.arange(count), np.ones(count, np.int64), np.arange(count)], 1)
    pair_length = np.repeat(lengths, kv_heads)  # pairs: rows, and in each its KV heads
    tiles = np.maximum(-(-pair_length // tile), 1)  # a row without tokens is an item that writes zeros
    ends = np.cumsum(tiles)
    begins = ends - tiles
    total = int(ends[-1])
    owner = ((begins + ends) * programs) // (2 * total)
    at_most = programs if splits == "even" else max(1, min(programs, total // MIN_TILES))
    whole_cost = int(np.bincount(owner, tiles).max())
    if splits == "whole" or (splits == "auto" and whole_cost <= -(-total // at_most) + MERGE_TILES):
        pair, first, last = np.arange(len(tiles)), begins, ends
    else:
        shares = np.arange(at_most) * total // at_most
        if total >= at_most * CRUMB_SHARE:
            shares = _at_borders(shares, begins)
        cuts = np.sort(np.concatenate((begins, shares, [total])), kind="stable")  # sorted runs: merged in one pass
        cuts = cuts[np.append(True, cuts[1:] != cuts[:-1])]
        first, last = cuts[:-1], cuts[1:]
        pair = np.searchsorted(begins, first, side="right") - 1
        owner = np.searchsorted(shares, first, side="right") - 1
    return _listed(pair, first, last, owner, begins, tiles, pair_length, groups, kv_heads, tile, programs)


def _at_borders(shares: np.ndarray, begins: np.ndarray) -> np.ndarray:
    """Ends of shares, moved to where a pair begins if that is one tile away."""
    below = np.searchsorted(begins, shares, side="right") - 1
    above = begins[np.minimum(below + 1, len(begins) - 1)]
    return np.where(shares - begins[below] <= 1, begins[below], np.where(above - shares == 1, above, shares))


def _listed(pair, first, last, owner, begins, tiles, pair_length, groups, kv_heads, tile, programs) -> WorkList:  # type: ignore[no-untyped-def]
    """Arrays of pieces (tiles first .. last - 1 of the flat order, each inside one pair) -> the lists that kernels read."""
    group = pair // kv_heads
    cut = last - first < tiles[pair]
    slot = np.where(cut, np.cumsum(cut) - 1, -1)
    items = np.zeros((len(pair), FIELDS), np.int32)
    items[:, 0], items[:, 1], items[:, 3] = groups[group, 0], groups[group, 1], groups[group, 2]
    items[:, 2] = pair % kv_heads
    items[:, 4] = (first - begins[pair]) * tile
    items[:, 5] = np.minimum((last - begins[pair]) * tile, pair_length[pair])
    items[:, 6] = slot
    starts = np.searchsorted(owner, np.arange(programs + 1)).astype(np.int32)
    pieces = np.flatnonzero(cut)
    opens = pieces[items[pieces, 4] == 0]  # the first piece of each cut pair; its others follow in order
    merges = np.zeros((len(opens), FIELDS), np.int32)
    merges[:, :3] = items[opens, :3]
    merges[:, 3] = items[opens, 6]
    merges[:, 4] = np.diff(np.append(merges[:, 3], len(pieces)))
    return WorkList(starts, items, merges)
