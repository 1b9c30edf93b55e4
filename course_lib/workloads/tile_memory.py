"""A memory for attention in tiles: it hands out tiles of Q, K and V, takes tiles of the output, and keeps a trace.

Layout   q [q_len, q_heads, head_dim], k and v [kv_len, kv_heads, head_dim], in their dtype; tiles come as float32
Counts   a tile weighs what its elements weigh in memory; the output has q's dtype, and lse is float32
"""

import operator
from typing import Any, NamedTuple

import torch
from torch import Tensor

LSE_BYTES = 4


class Shape(NamedTuple):
    """Numbers of one attention. Causal is bottom-right: query i sees the keys up to i + kv_len - q_len."""

    q_len: int
    kv_len: int
    q_heads: int
    kv_heads: int
    head_dim: int
    causal: bool
    element_bytes: int


class TileMemory:
    """predict, load_q, load_k, load_v and store, and no other way to the tensors. `tile_memory` makes it."""

    def __init__(self, predict: Any, load_q: Any, load_k: Any, load_v: Any, store: Any) -> None:
        self.predict, self.load_q, self.load_k, self.load_v, self.store = predict, load_q, load_k, load_v, store


def tile_memory(q: Tensor, k: Tensor, v: Tensor, tile_q: int, tile_k: int) -> tuple[TileMemory, list[Any], Tensor, Tensor]:
    """-> (memory, trace, out, lse); the last three fill up while the memory is used.

    trace   [name, head, start, stop] of each access, and ["predict", q_bytes, kv_bytes, stored_bytes]
    out     [q_len, q_heads, head_dim], lse [q_heads, q_len], float32; NaN where nothing was stored
    """
    trace: list[Any] = []
    q_len, q_heads, head_dim = q.shape
    out, lse = torch.full(q.shape, torch.nan), torch.full((q_heads, q_len), torch.nan)

    def loader(name: str, source: Tensor, most: int) -> Any:
        def load(head: int, start: int, stop: int) -> Tensor:
            _inside(name, source, head, start, stop, most)
            trace.append([name, int(head), int(start), int(stop)])
            return source[start:stop, head].float()

        load.__name__ = name
        return load

    def predict(q_bytes: int, kv_bytes: int, stored_bytes: int) -> None:
        """Say before the first load what will be loaded of Q, of K and V together, and what will be stored."""
        numbers = {"q_bytes": q_bytes, "kv_bytes": kv_bytes, "stored_bytes": stored_bytes}
        trace.append(["predict", *(_whole_number(name, number) for name, number in numbers.items())])

    def store(head: int, start: int, rows: Tensor, row_lse: Tensor) -> None:
        """rows [n, head_dim] and row_lse [n] are the results of queries start .. start + n - 1 of this head."""
        stop = start + len(rows)
        _inside("store", q, head, start, stop, tile_q)
        if tuple(rows.shape) != (stop - start, head_dim) or tuple(row_lse.shape) != (stop - start,):
            took = f"[{stop - start}, {head_dim}] and [{stop - start}]"
            raise ValueError(f"store takes {took}, got {[*rows.shape]} and {[*row_lse.shape]}")
        trace.append(["store", int(head), int(start), int(stop)])
        out[start:stop, head], lse[head, start:stop] = rows.float(), row_lse.float()

    load_q, load_k, load_v = loader("load_q", q, tile_q), loader("load_k", k, tile_k), loader("load_v", v, tile_k)
    return TileMemory(predict, load_q, load_k, load_v, store), trace, out, lse


def _whole_number(name: str, number: Any) -> int:
    try:
        return operator.index(number)
    except TypeError:
        said = f"predict takes whole numbers, and {name} is a {type(number).__name__}: {str(number)[:40]}"
        raise TypeError(f"{said}; // divides without a fraction") from None


def _inside(name: str, source: Tensor, head: int, start: int, stop: int, most: int) -> None:
    rows, heads = source.shape[:2]
    if not 0 <= head < heads:
        raise ValueError(f"{name}: head {head} is not one of the {heads} heads, 0 to {heads - 1}")
    if not 0 <= start < stop <= rows:
        raise ValueError(f"{name}: rows {start} to {stop} are not a part of rows 0 to {rows}")
    if stop - start > most:
        raise ValueError(f"{name}: {stop - start} rows at once, and a tile has room for {most}; take fewer")


def traced_bytes(trace: Any, head_dim: int, element_bytes: int) -> dict[str, int]:
    """Bytes of a trace: {"q_bytes", "kv_bytes", "stored_bytes"}."""
    counts = {"q_bytes": 0, "kv_bytes": 0, "stored_bytes": 0}
    names = {"load_q": "q_bytes", "load_k": "kv_bytes", "load_v": "kv_bytes", "store": "stored_bytes"}
    for name, _, start, stop in trace:
        if name in names:
            row = head_dim * element_bytes + (LSE_BYTES if name == "store" else 0)
            counts[names[name]] += (stop - start) * row
    return counts
