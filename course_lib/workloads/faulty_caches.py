"""Caches in pages for exercise 2.11: right ones that differ in what they may differ in, and one for each of many faults.

    make = cache_maker("sorted pages", seed=3)
    cache = make(num_pages=8, page_size=4)      # 2 heads of 4 numbers, float32

Pages   a page is a tensor [page_size, 2, heads, dim] that holds random numbers until it is written, as memory does.
Fault   one deviation each, named in FAULTS; the rest of the cache is right. Pages go out in order of number, and one that was
        given back last goes out first.
"""

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

HEADS, HEAD_DIM = 2, 4
RIGHT = ("lowest page first", "highest page first", "any page")
FAULTS = {
    "append": (
        "wrong rank", "page for each token", "always slot 0", "page too early", "last slot unused", "one length for all",
        "takes another's page", "keeps one page",
    ),
    "gather": (
        "whole last page", "from the page's start", "drops the last part", "pages in a row", "sorted pages", "values are keys",
        "half precision", "beyond the end", "no empty range",
    ),
    "over time": (
        "gives a view", "keeps what it is given", "free keeps a page", "free forgets the name only", "page given back twice",
        "a refused token counts",
    ),
}  # fmt: skip


class OutOfPages(MemoryError):
    """What one of the right ones raises: a MemoryError as good as another."""


class OutOfRange(IndexError):
    """The same for a range."""


class Cache:
    """append, gather, free and pages; `kind` is one of RIGHT or of the faults."""

    def __init__(self, num_pages: int, page_size: int, kind: str, seed: int) -> None:
        self._kind, self._size, self._random = kind, page_size, random.Random(seed)
        self._draw = torch.Generator().manual_seed(seed)
        self._unused = list(range(num_pages))
        if kind == "highest page first":
            self._unused.reverse()
        self._num_pages = num_pages
        self._memory: dict[int, Tensor] = {}
        self._tables: dict[str, list[int]] = {}
        self._lengths: dict[str, int] = {}
        self._kept: dict[tuple[str, int], tuple[Tensor, Tensor]] = {}

    def pages(self, seq: str) -> list[int]:
        return list(self._tables[seq])

    def append(self, seq: str, k: Tensor, v: Tensor) -> Any:
        kind, table = self._kind, self._tables.get(seq, [])
        length = self._lengths.get(seq, 0)
        if kind == "wrong rank":
            self._page(self._unused[0])[0, 0] = torch.stack([k, v])
        counted = sum(self._lengths.values()) if kind == "one length for all" else length
        room = self._size if kind != "last slot unused" else max(self._size - 1, 1)
        opens = not table or (counted % room == 0 if kind == "one length for all" else length == len(table) * room)
        if kind == "page for each token":
            opens = True
        if kind == "a refused token counts" and seq in self._tables:
            self._lengths[seq] = length + 1
        if opens:
            table = self._tables[seq] = [*table, self._take(seq)]
        slot = counted % room
        if kind in ("always slot 0", "page for each token"):
            slot = 0
        self._page(table[-1] if kind in ("page for each token", "one length for all") else table[length // room])[slot] = (
            torch.stack([k, v])
        )
        if kind == "keeps what it is given":
            self._kept[seq, length] = (k, v)
        self._lengths[seq] = length + 1
        if kind == "page too early" and self._lengths[seq] == len(table) * self._size and self._unused:
            table.append(self._take(seq))
        return (table[-1], slot) if kind == "highest page first" else None

    def gather(self, seq: str, start: int, stop: int) -> tuple[Tensor, Tensor]:
        kind, size, length = self._kind, self._size, self._lengths[seq]
        if kind != "beyond the end" and not 0 <= start <= stop <= length:
            raise OutOfRange(f"tokens {start} to {stop} of {length}")
        if kind == "no empty range" and start == stop:
            raise RuntimeError("expected a non-empty list of tensors")
        if kind == "from the page's start":
            start, stop = start // size * size, start // size * size + stop - start
        if kind == "drops the last part" and stop < length:
            stop = max(stop // size * size, start)
        if kind == "whole last page":
            stop = -(-stop // size) * size
        if kind == "gives a view" and start < stop and start // size == (stop - 1) // size:
            page = self._page(self._tables[seq][start // size])[start % size : start % size + stop - start]
            return page[:, 0], page[:, 1]
        rows = [self._row(seq, token) for token in range(start, stop)]
        both = torch.stack(rows) if rows else torch.empty(0, 2, HEADS, HEAD_DIM)
        if kind == "half precision":
            both = both.bfloat16().float()
        k, v = both[:, 0].clone(), both[:, 0 if kind == "values are keys" else 1].clone()
        return k, v

    def free(self, seq: str) -> None:
        kind, table = self._kind, self._tables.pop(seq)
        if kind != "free forgets the name only":
            del self._lengths[seq]
        if kind == "free keeps a page":
            table = table[:-1] if len(table) > 1 else table
        if kind == "page given back twice":
            table = [*table, table[-1]]
        self._unused = table[::-1] + self._unused if kind != "highest page first" else self._unused + table

    def _take(self, seq: str) -> int:
        others = [table for name, table in self._tables.items() if name != seq and table]
        if self._kind == "takes another's page" and not self._unused and others:
            return others[0][0]
        if len(self._unused) <= (self._kind == "keeps one page"):
            raise OutOfPages(f"all {self._num_pages} pages are in use")
        place = self._random.randrange(len(self._unused)) if self._kind == "any page" else 0
        return self._unused.pop(place)

    def _page(self, page: int) -> Tensor:
        if page not in self._memory:
            self._memory[page] = torch.randn(self._size, 2, HEADS, HEAD_DIM, generator=self._draw)
        return self._memory[page]

    def _row(self, seq: str, token: int) -> Tensor:
        """[2, heads, dim] of one token, where this cache believes that it lies."""
        kind, table = self._kind, self._tables[seq]
        if (seq, token) in self._kept and kind == "keeps what it is given":
            return torch.stack(self._kept[seq, token])
        room = self._size if kind != "last slot unused" else max(self._size - 1, 1)
        if kind == "sorted pages":
            table = sorted(table)
        if kind == "pages in a row":
            table = [table[0] + index for index in range(len(table))]
        index = token if kind == "page for each token" else token // room
        slot = 0 if kind == "page for each token" else token % room
        return self._page(table[index] if index < len(table) else -1)[slot]


def cache_maker(kind: str, seed: int) -> Callable[[int, int], Cache]:
    """make(num_pages, page_size) -> a fresh cache of this kind."""

    def make(num_pages: int, page_size: int) -> Cache:
        return Cache(num_pages, page_size, kind, seed)

    return make
