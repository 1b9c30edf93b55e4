"""Host memory for blocks: slots of one size in a few slabs, which a device can copy to and from directly.

Slab     rows that lie one behind the other, pinned where the storage is on a CUDA device (a copy from pageable memory goes
         through a buffer of the driver first), plain memory elsewhere. Neighbours among the rows travel in one copy.
Slot     a tensor [values] of its own. It goes back by itself, when neither it nor a view of it is left anywhere. The lowest free
         rows are given out first, so that a batch lies together as long as there is room to.
Bound    a slab has `SLAB_BYTES` at most (one block at least). Those without a slot in use are given up, but for one; so beside
         the blocks in use only gaps between them are held, and that one. torch may keep what was given up for the next slab.
"""

import heapq
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import torch
    from torch import Tensor

SLAB_BYTES = 64 << 20


class Row(NamedTuple):
    """Where a slot lies."""

    slab: int
    row: int

    def after(self, rows: int) -> "Row":
        return Row(self.slab, self.row + rows)


class HostSlots:
    """Slots of `words` words of `word` each, seen by their users as values of `dtype`. rows: of a slab, where these are few."""

    def __init__(self, words: int, word: "torch.dtype", dtype: "torch.dtype", *, rows: int, pinned: bool) -> None:
        self.words, self.word, self.dtype, self.pinned = words, word, dtype, pinned
        self.rows = max(1, min(rows, SLAB_BYTES // (words * word.itemsize)))
        self._slabs: dict[int, Tensor] = {}
        self._arrays: dict[int, Any] = {}  # the same memory for numpy, whose rows say when they die
        self._made = 0
        self._free: list[Row] = []  # a heap
        self._used: dict[int, Row] = {}  # by the address of the slot
        self._returned: deque[int] = deque()  # addresses. A slot may die at any moment, also inside of `take`

    @property
    def bytes_held(self) -> int:
        return len(self._slabs) * self.rows * self.words * self.word.itemsize

    @property
    def num_used(self) -> int:
        self._collect()
        return len(self._used)

    def take(self, n: int) -> "list[Tensor]":
        """n slots, their content undefined. When memory runs out, torch's error, and none is taken."""
        import torch

        self._collect()
        with torch.inference_mode(False):  # else nobody outside of it could write
            while len(self._free) < n:
                self._add_slab()
            return [self._slot(heapq.heappop(self._free)) for _ in range(n)]

    def row_of(self, content: "Tensor") -> Row | None:
        """None for a tensor that is no slot of these."""
        return self._used.get(content.data_ptr()) if content.is_contiguous() else None

    def words_of(self, first: Row, rows: int) -> "Tensor":
        """[rows, words], from this row on, for a copy of all of them."""
        return self._slabs[first.slab][first.row : first.row + rows]

    def _add_slab(self) -> None:
        import torch

        slab = torch.empty(self.rows, self.words, dtype=self.word, pin_memory=self.pinned)
        self._slabs[self._made], self._arrays[self._made] = slab, slab.numpy()
        for row in range(self.rows):
            heapq.heappush(self._free, Row(self._made, row))
        self._made += 1

    def _slot(self, place: Row) -> "Tensor":
        """The tensor keeps `memory` alive, and so does each view of it; when that dies, the row is free."""
        import torch

        memory = self._arrays[place.slab][place.row]
        content = torch.from_numpy(memory).view(self.dtype)
        address = content.data_ptr()
        self._used[address] = place
        weakref.finalize(memory, self._returned.append, address).atexit = False
        return content

    def _collect(self) -> None:
        """Rows that have come back are free; slabs with nothing but free rows go, one of them stays for the next batch."""
        if not self._returned:
            return
        while self._returned:
            heapq.heappush(self._free, self._used.pop(self._returned.popleft()))
        empty = sorted(self._slabs.keys() - {place.slab for place in self._used.values()})[1:]
        if empty:
            self._free = [place for place in self._free if place.slab not in empty]
            heapq.heapify(self._free)
            for slab in empty:
                del self._slabs[slab], self._arrays[slab]
