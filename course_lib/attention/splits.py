"""How decode work is cut and handed to a fixed number of programs: by the work there is, never by the batch alone.

A *pair* is one group of queries with one KV head: it reads the tokens of one row of the block table. Its work is counted in
tiles of `tile` tokens, the unit of the kernel's loop. There are three ways of handing tiles to programs:

whole     every pair stays in one piece, and goes to the program in whose share of the tiles its middle lies. Nothing to merge,
          but the fullest program decides when the kernel ends: of 512 equal pairs 264 programs get 2 or 1.
together  rows are cut into equal shares of tiles (as in the "stream-K" of arXiv 2301.03598), and the KV heads of a share go to
          as many neighbouring programs, which read the same blocks at about the same time. Nobody waits, but cut pairs have to
          be merged, which costs about as much as MERGE_TILES tiles for each program (on an H200: `merge_tiles` in the rows "cut
          into equal shares" of benchmarks/results/nvidia-h200/paged_variants.json).
even      pairs, not rows, are cut into equal shares: where there are fewer programs than KV heads.
"auto" takes whole or together, whichever has the lower cost.

One long context is so cut into as many pieces as there are programs, and a large batch only at its programs' borders.
Shares below MIN_TILES tiles are not given: they cost more in starting and merging than they save. Nor is a pair cut one tile from
its border where a share has CRUMB_SHARE tiles or more. Both numbers are by reasoning.
"""

from dataclasses import dataclass

import numpy as np

MERGE_TILES = 3
MIN_TILES = 4
CRUMB_SHARE = 8  # from so many tiles a program on, one tile more or less is no imbalance, and a piece of one tile is a waste
SPLITS = ("auto", "whole", "together", "even")
MOST_TOKENS = 2**31 - 1 - 1024  # the end of a last tile is an int32 as well
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
        if not len(self.items):
            return f"no items for {len(self.starts) - 1} programs"
        tokens = self.items[:, 5] - self.items[:, 4]
        cut = f"{len(self.merges)} pairs cut into {self.slots} parts"
        return f"{len(tokens)} items for {len(self.starts) - 1} programs, {cut}, {tokens.min()} to {tokens.max()} tokens an item"


def split_work(
    lengths: np.ndarray, kv_heads: int, *, tile: int, programs: int, groups: np.ndarray | None = None, splits: str = "auto"
) -> WorkList:
    """Cut the work of a decode step.

    lengths  tokens of each group of queries, int [n]
    groups   [n, 3]: first query, queries, table row of each; by default group i is query i alone, with table row i
    splits   "auto" | "whole" | "together" | "even"

    1 row of 32768 tokens with 8 KV heads, tiles of 64, 264 programs -> 33 shares of 15 or 16 tiles for each of the heads.
    64 rows of 8192: 248 or 249 tiles for each program (whole pairs: 256 for the fullest). 32 rows of 4096: 256 pairs, whole.
    """
    if splits not in SPLITS:
        raise ValueError(f"splits is one of {', '.join(SPLITS)}, got {splits!r}")
    lengths = np.asarray(lengths, dtype=np.int64)
    if min(programs, tile, kv_heads) < 1:
        raise ValueError(f"{programs} programs, tiles of {tile} tokens, {kv_heads} KV heads; use at least 1 of each")
    if len(lengths) and not 0 <= lengths.min() <= lengths.max() <= MOST_TOKENS:
        raise ValueError(f"lengths from {lengths.min()} to {lengths.max()} tokens; counted in int32, use 0 to {MOST_TOKENS}")
    count = len(lengths)
    if not count:
        return WorkList(np.zeros(programs + 1, np.int32), np.zeros((0, FIELDS), np.int32), np.zeros((0, FIELDS), np.int32))
    if groups is None:
        groups = np.stack([np.arange(count), np.ones(count, np.int64), np.arange(count)], 1)
    row_tiles = np.maximum(-(-lengths // tile), 1)  # a row without tokens is an item that writes zeros
    pair_tiles = np.repeat(row_tiles, kv_heads)
    total = int(pair_tiles.sum())
    useful = max(1, min(programs, total // MIN_TILES))
    if splits in ("auto", "whole"):
        ends = np.cumsum(pair_tiles)
        program = ((2 * ends - pair_tiles) * programs) // (2 * total)
        if splits == "whole" or np.bincount(program, pair_tiles).max() <= -(-total // useful) + MERGE_TILES:
            pair = np.arange(len(pair_tiles))
            return _listed(pair // kv_heads, pair % kv_heads, 0 * pair, pair_tiles, program, lengths, groups, tile, programs)
    forced = programs if splits != "auto" else useful
    if splits == "even" or forced < kv_heads:
        pair, first, last, program = _even(pair_tiles, forced)
        return _listed(pair // kv_heads, pair % kv_heads, first, last, program, lengths, groups, tile, programs)
    row, first, last, share = _even(row_tiles, forced // kv_heads)
    head = np.repeat(np.arange(kv_heads), len(row))
    row, first, last, share = (np.tile(x, kv_heads) for x in (row, first, last, share))
    return _listed(row, head, first, last, share * kv_heads + head, lengths, groups, tile, programs)


def _even(tiles: np.ndarray, shares: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Equal shares of a row of units with these tiles -> each piece's unit, first and last + 1 tile in it, and share."""
    ends = np.cumsum(tiles)
    begins, total = ends - tiles, int(ends[-1])
    borders = np.arange(shares) * total // shares
    if total >= shares * CRUMB_SHARE:
        borders = _at_units(borders, begins)
    cuts = np.sort(np.concatenate((begins, borders, [total])), kind="stable")  # sorted runs: merged in one pass
    cuts = cuts[np.append(True, cuts[1:] != cuts[:-1])]
    first, last = cuts[:-1], cuts[1:]
    unit = np.searchsorted(begins, first, side="right") - 1
    return unit, first - begins[unit], last - begins[unit], np.searchsorted(borders, first, side="right") - 1


def _at_units(borders: np.ndarray, begins: np.ndarray) -> np.ndarray:
    """Borders of shares, moved to where a unit begins if that is one tile away."""
    below = np.searchsorted(begins, borders, side="right") - 1
    above = begins[np.minimum(below + 1, len(begins) - 1)]
    return np.where(borders - begins[below] <= 1, begins[below], np.where(above - borders == 1, above, borders))


def _listed(row, head, first, last, program, lengths, groups, tile, programs) -> WorkList:  # type: ignore[no-untyped-def]
    """Pieces (tiles first .. last - 1 of a row and head; those of one row and head in order) -> the lists that kernels read."""
    length = lengths[row]
    items = np.zeros((len(row), FIELDS), np.int32)
    items[:, 0], items[:, 1], items[:, 3] = groups[row, 0], groups[row, 1], groups[row, 2]
    items[:, 2] = head
    items[:, 4] = first * tile
    items[:, 5] = np.minimum(last * tile, length)
    cut = (first > 0) | (items[:, 5] < length)
    items[:, 6] = np.where(cut, np.cumsum(cut) - 1, -1)
    pieces = items[cut]
    merges = np.zeros((int((pieces[:, 4] == 0).sum()), FIELDS), np.int32)
    opens = pieces[pieces[:, 4] == 0]  # the first piece of each cut pair; its others have the next slots
    merges[:, :3] = opens[:, :3]
    merges[:, 3] = opens[:, 6]
    merges[:, 4] = np.diff(np.append(opens[:, 6], len(pieces)))
    order = np.argsort(program, kind="stable")
    starts = np.searchsorted(program[order], np.arange(programs + 1)).astype(np.int32)
    return WorkList(starts, items[order], merges)
