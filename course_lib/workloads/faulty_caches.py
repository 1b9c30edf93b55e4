"""Caches in pages for exercise 2.11: right ones that differ in what they may differ in, and one for each of many faults.

    make = cache_maker(form=5, turn=turn_of("sorted pages", form=5), seed=3)
    cache = make(num_pages=8, page_size=4)      # 2 heads of 4 numbers, float32

Pages   a page is a tensor [page_size, 2, heads, dim] that holds random numbers until it is written, as memory does.
Fault   one deviation each; the rest of the cache is right. Pages go out in order of number, and one that was given back last
        goes out first.
Labels  there are none: a learner's test holds these objects in its hands. What a cache does follows from two numbers, of which
        neither says anything alone. Names, and which of them are right, are exercises/phase2/debugging_caches.py's.
"""

import random
import zlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

HEADS, HEAD_DIM = 2, 4
MOST_CALLS = 10_000  # of all methods of all caches that one maker gave


class TooManyCalls(BaseException):
    """Ends a test that goes on and on; no `except Exception` keeps it."""


class OutOfPages(MemoryError):
    """What one of the right ones raises: a MemoryError as good as another."""


class OutOfRange(IndexError):
    """The same for a range."""


class Cache:
    """append, gather, free and pages; calls: [how many came so far], of all caches of a maker."""

    def __init__(self, num_pages: int, page_size: int, form: int, turn: int, seed: int, calls: list[int]) -> None:
        self._form, self._turn, self._size, self._random, self._calls = form, turn, page_size, random.Random(seed), calls
        self._draw = torch.Generator().manual_seed(seed)
        self._unused = list(range(num_pages))
        if self._is("highest page first"):
            self._unused.reverse()
        self._num_pages = num_pages
        self._memory: dict[int, Tensor] = {}
        self._tables: dict[str, list[int]] = {}
        self._lengths: dict[str, int] = {}
        self._kept: dict[tuple[str, int], tuple[Tensor, Tensor]] = {}

    def _is(self, kind: str) -> bool:
        return self._turn == turn_of(kind, self._form)

    def _count(self) -> None:
        self._calls[0] += 1
        if self._calls[0] > MOST_CALLS:
            raise TooManyCalls

    def pages(self, seq: str) -> list[int]:
        self._count()
        return list(self._tables[seq])

    def append(self, seq: str, k: Tensor, v: Tensor) -> Any:
        self._count()
        table = self._tables.get(seq, [])
        length = self._lengths.get(seq, 0)
        if self._is("wrong rank"):
            self._page(self._unused[0])[0, 0] = torch.stack([k, v])
        counted = sum(self._lengths.values()) if self._is("one length for all") else length
        room = self._size if not self._is("last slot unused") else max(self._size - 1, 1)
        opens = not table or (counted % room == 0 if self._is("one length for all") else length == len(table) * room)
        if self._is("page for each token"):
            opens = True
        if self._is("a refused token counts") and seq in self._tables:
            self._lengths[seq] = length + 1
        if opens:
            table = self._tables[seq] = [*table, self._take(seq)]
        slot = counted % room
        if self._is("always slot 0") or self._is("page for each token"):
            slot = 0
        newest = self._is("page for each token") or self._is("one length for all")
        self._page(table[-1] if newest else table[length // room])[slot] = torch.stack([k, v])
        if self._is("keeps what it is given"):
            self._kept[seq, length] = (k, v)
        self._lengths[seq] = length + 1
        if self._is("page too early") and self._lengths[seq] == len(table) * self._size and self._unused:
            table.append(self._take(seq))
        return (table[-1], slot) if self._is("highest page first") else None

    def gather(self, seq: str, start: int, stop: int) -> tuple[Tensor, Tensor]:
        self._count()
        size, length = self._size, self._lengths[seq]
        if self._is("empty anywhere") and start == stop:
            length = stop
        if not self._is("beyond the end") and not 0 <= start <= stop <= length:
            said = f"tokens {start} to {stop} of {length}"
            raise ValueError(said) if self._is("another error behind the end") else OutOfRange(said)
        if self._is("no empty range") and start == stop:
            raise RuntimeError("expected a non-empty list of tensors")
        if self._is("from the page's start"):
            start, stop = start // size * size, start // size * size + stop - start
        if self._is("drops the last part") and stop < length:
            stop = max(stop // size * size, start)
        if self._is("whole last page"):
            stop = -(-stop // size) * size
        if self._is("gives a view") and start < stop and start // size == (stop - 1) // size:
            page = self._page(self._tables[seq][start // size])[start % size : start % size + stop - start]
            return page[:, 0], page[:, 1]
        rows = [self._row(seq, token) for token in range(start, stop)]
        both = torch.stack(rows) if rows else torch.empty(0, 2, HEADS, HEAD_DIM)
        if self._is("half precision"):
            both = both.bfloat16().float()
        k, v = both[:, 0].clone(), both[:, 0 if self._is("values are keys") else 1].clone()
        return k, v

    def free(self, seq: str) -> None:
        self._count()
        table = self._tables.pop(seq)
        if not self._is("free forgets the name only"):
            del self._lengths[seq]
        if self._is("free keeps a page"):
            table = table[:-1] if len(table) > 1 else table
        if self._is("page given back twice"):
            table = [*table, table[-1]]
        self._unused = self._unused + table if self._is("highest page first") else table[::-1] + self._unused

    def _take(self, seq: str) -> int:
        others = [table for name, table in self._tables.items() if name != seq and table]
        if self._is("takes another's page") and not self._unused and others:
            return others[0][0]
        if len(self._unused) <= self._is("keeps one page"):
            said = f"all {self._num_pages} pages are in use"
            raise IndexError(said) if self._is("another error when full") else OutOfPages(said)
        place = self._random.randrange(len(self._unused)) if self._is("any page") else 0
        return self._unused.pop(place)

    def _page(self, page: int) -> Tensor:
        if page not in self._memory:
            self._memory[page] = torch.randn(self._size, 2, HEADS, HEAD_DIM, generator=self._draw)
        return self._memory[page]

    def _row(self, seq: str, token: int) -> Tensor:
        """[2, heads, dim] of one token, where this cache believes that it lies."""
        table = self._tables[seq]
        if (seq, token) in self._kept and self._is("keeps what it is given"):
            return torch.stack(self._kept[seq, token])
        room = self._size if not self._is("last slot unused") else max(self._size - 1, 1)
        if self._is("sorted pages"):
            table = sorted(table)
        if self._is("pages in a row"):
            table = [table[0] + index for index in range(len(table))]
        index = token if self._is("page for each token") else token // room
        slot = 0 if self._is("page for each token") else token % room
        return self._page(table[index] if index < len(table) else -1)[slot]


def turn_of(kind: str, form: int) -> int:
    """The second number of a cache of this kind whose first one is `form`."""
    return zlib.crc32(f"{form} {kind}".encode())


def cache_maker(form: int, turn: int, seed: int, calls: list[int] | None = None) -> Callable[[int, int], Cache]:
    """make(num_pages, page_size) -> a fresh cache; calls: [0], which counts the calls of all methods of all of them."""
    counted = [0] if calls is None else calls

    def make(num_pages: int, page_size: int) -> Cache:
        return Cache(num_pages, page_size, form, turn, seed, counted)

    return make
