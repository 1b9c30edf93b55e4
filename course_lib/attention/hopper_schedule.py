"""Which thread block computes which tiles, when there is one block for each SM and tiles cost unlike amounts.

A causal tile costs as many tiles of keys as its last query sees, from 1 to all of them. Dealt out in turn, one block would get
heavy tiles again and again. The greedy rule is enough: take the tiles heaviest first, and give each to the block that has the
least to do so far. Heads are taken in groups whose keys and values stay in the L2 cache together, across which the rule goes on.
A schedule depends on shapes alone and is kept, on the device, for the next call with the same shapes.
"""

import heapq
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor, device

L2_BYTES_FOR_KV = 8 * 2**20  # of 50 MiB on an H200: with 32 MiB at a time short sequences are up to 15% slower, none faster
START_COST = 1  # of a tile, in tiles of keys: its queries are loaded, its result is divided and stored
MAX_TILES = 2**15  # more are dealt out by the hardware, one block a tile: they even out, and the list takes long to make
MAX_KEPT = 256

_kept: "OrderedDict[tuple, Tensor]" = OrderedDict()  # the last ones used stand last
_captured: "dict[tuple, Tensor]" = {}  # what CUDA graphs will read again: never given up


def deal(costs: list[tuple[int, float]], blocks: int) -> list[list[int]]:
    """The tiles of each block, in order. costs: (tile, cost), in the order in which they are to begin."""
    shares: list[list[int]] = [[] for _ in range(blocks)]
    least = [(0.0, block) for block in range(blocks)]
    for tile, cost in costs:
        load, block = least[0]
        shares[block].append(tile)
        heapq.heapreplace(least, (load + cost, block))
    return shares


def heads_at_a_time(group: int, kv_len: int, head_dim: int) -> int:
    """Query heads whose keys and values, 2 bytes each, fit into the part of L2 that is meant for them."""
    return group * max(1, L2_BYTES_FOR_KV // (max(kv_len, 1) * head_dim * 4))


def tiles_in_order(
    sequences: int, q_heads: int, group: int, q_len: int, kv_len: int, head_dim: int, rows: int, keys: int, causal: bool
) -> list[tuple[int, float]]:
    """(tile, cost) of every tile of `rows` queries; a tile's number is that of hopper_tiles.py.

    head_dim  as it is in memory, 2 bytes each
    """
    q_tiles = -(-q_len // rows)
    costs = []
    for place in range(q_tiles):
        end = kv_len if not causal else min(kv_len, (q_tiles - place) * rows + kv_len - q_len)
        costs.append(max(-(-end // keys), 1) + START_COST)
    heads, at_a_time = sequences * q_heads, heads_at_a_time(group, kv_len, head_dim)
    order = []
    for first in range(0, heads, at_a_time):
        some = range(first, min(heads, first + at_a_time))
        order += [(head * q_tiles + place, cost) for place, cost in enumerate(costs) for head in some]
    return order


def table(shares: list[list[int]]) -> list[list[int]]:
    """[rounds + 1][blocks], -1 where a block has nothing left; the row too many is read ahead and never used."""
    rounds = max(map(len, shares))
    return [[share[i] if i < len(share) else -1 for share in shares] for i in range(rounds + 1)]


def schedule(where: "device", blocks: int, shape: tuple) -> "Tensor | None":
    """int32 [rounds + 1, blocks] on the device, made once for each shape (the arguments of `tiles_in_order`).

    None where there is none to be had: too many tiles, or a CUDA graph is being captured and the shape is new (the list would be
    copied to the device while nothing may be). Then the caller lets the hardware deal: one block for each tile.
    """
    import torch

    sequences, q_heads, _, q_len, _, _, rows, _, _ = shape
    if sequences * q_heads * -(-q_len // rows) > MAX_TILES:
        return None
    key = (where, blocks, shape, L2_BYTES_FOR_KV)
    capturing = torch.cuda.is_current_stream_capturing()
    if key not in _kept:
        if capturing:
            return None
        _kept[key] = torch.tensor(table(deal(tiles_in_order(*shape), blocks)), dtype=torch.int32, device=where)
        if len(_kept) > MAX_KEPT:
            _kept.popitem(last=False)
    _kept.move_to_end(key)
    if capturing:
        _captured[key] = _kept[key]
    else:
        _kept[key].record_stream(torch.cuda.current_stream(where))  # given up, its memory waits for this launch
    return _kept[key]
