"""A decoder's keys and values in blocks: KeyValues over kvcache, and an `attend` that goes with it.

    model = load("course-target", parts=paged_parts(block_size=16))       # every cache it makes is paged
    cache = PagedCache(store, ["a", "b"])                                 # rows of a shared pool (paged_store.py)

Two ways to the same numbers
gather   append copies each row's tokens out of its blocks into [batch, keys, ...], and any `attend` reads them: what a CPU does,
         and what runs for windows and MLA. It reads and writes the cache once more than the kernels do.
kernel   append hands out PagedViews, and attend_paged gives what they name to the paged kernels of course_lib.attention.

Rules    a step's slots are taken at its first layer: for all rows, or, with OutOfBlocks, for none; lengths change in `advance`.
         A step that failed halfway leaves slots without tokens, and the next one of this cache starts again from the rows'
         lengths; another cache of the same sequence would take those slots for tokens: truncate(cache.lengths) first.
         Positions before a row's end cut it there first. Shared blocks are copied before they are written. Slots that no token
         of the row fills are read as zeros, whatever lies there: a masked NaN would still spoil a product.
"""

from collections.abc import Hashable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from .attend import attend_dense
from .cache import refuse_other_model
from .config import ModelConfig
from .paged_step import PagedStep, PagedView, attend_blocks, kernels_refuse, table_width
from .paged_store import PagedStore
from .parts import CacheFactory, Parts
from .span import Span

Impl = Literal["auto", "kernel", "gather"]


class PagedCache:
    """KeyValues of some sequences of a store, one row each, in the order given."""

    def __init__(
        self, store: PagedStore, seqs: Sequence[Hashable], *, capacity: int | None = None, impl: Impl = "gather"
    ) -> None:
        """capacity  tokens that a row may have; None: as many as the whole pool holds
        impl      "gather" goes with any attend; "kernel" and "auto" (kernel where it can run, else gather) go with attend_paged
        """  # fmt: skip
        if impl not in ("auto", "kernel", "gather"):
            raise ValueError(f"impl is {impl!r}; use 'auto', 'kernel' or 'gather'")
        if not seqs or len(set(seqs)) < len(seqs):
            raise ValueError(f"a cache for the sequences {list(seqs)}; use at least one, each once")
        why = kernels_refuse(store)
        if impl == "kernel" and why:
            raise ValueError(f"impl='kernel' for {store.config.name}: {why}; use 'gather' or 'auto'")
        self.store, self.seqs = store, list(seqs)
        self.batch = len(self.seqs)
        self.capacity = store.pool.num_blocks * store.pool.block_size if capacity is None else capacity
        self.lengths = [store.written(seq) for seq in self.seqs]
        self.kernel = impl == "kernel" or (impl == "auto" and why is None and store.storage.device.type == "cuda")
        self._plans: dict[tuple[int, ...], Any] = {}
        self._step: PagedStep | None = None

    def append(self, layer: int, new: Sequence[Tensor], span: Span) -> tuple[Any, ...]:
        """Write a step's keys and values -> what attend reads: all slots up to span.keys, gathered, or a PagedView each."""
        refuse_other_model(self.store.config, layer, new)
        if self._step is None or self._step.span is not span:
            self._step = self._begin(span)
        step, storage = self._step, self.store.storage
        rows = [values.flatten(0, 1) if step.live is None else values[step.live] for values in new]
        if self.kernel:
            from course_lib.attention.paged_write import paged_write

            keys, values = storage.tensors[layer]
            paged_write(*rows, keys, values, step.slots)
            return PagedView(keys, step), PagedView(values, step)
        storage.write(layer, step.slots, rows)
        slots, dead = step.gathered(self.store.pool.block_size)
        return tuple(held.to(made.dtype) for held, made in zip(storage.read(layer, slots, dead), new, strict=True))

    def advance(self, span: Span) -> None:
        """After the last layer of a step: its tokens count."""
        step = self._step
        assert step, "advance without append"
        assert step.span is span, "advance ends the step that was appended"
        self.lengths = [first + new if new else held for (first, new), held in zip(step.rows, self.lengths, strict=True)]
        self.store.end_step(self.seqs)
        self._step = None

    def truncate(self, lengths: Sequence[int]) -> None:
        """Forget the tokens from lengths[row] on, and give back the blocks that hold none of the others."""
        for row, (wanted, held) in enumerate(zip(lengths, self.lengths, strict=True)):
            if not 0 <= wanted <= held:
                raise ValueError(f"row {row} holds {held} tokens and cannot be cut to {wanted}; use 0 to {held}")
        for seq, wanted in zip(self.seqs, lengths, strict=True):
            self.store.tables.truncate(seq, wanted)
        self.lengths = list(lengths)

    def free(self) -> None:
        """End all rows."""
        for seq in self.seqs:
            self.store.free(seq)

    @property
    def held_bytes(self) -> int:
        """Bytes of the tokens that are held, those in shared blocks once for each row: what a decode step reads, at least."""
        return sum(self.lengths) * self.store.storage.bytes_per_token

    def _begin(self, span: Span) -> PagedStep:
        """Slots for every token of the step. With OutOfBlocks there are none; a row that had to be cut stays cut."""
        tables, size, device = self.store.tables, self.store.pool.block_size, self.store.storage.device
        rows = [(span.start, span.q_len)] * self.batch if span.start is not None else list(span.rows)
        kept = [min(held, first) if new else held for held, (first, new) in zip(self.lengths, rows, strict=True)]
        for seq, length in zip(self.seqs, kept, strict=True):
            tables.truncate(seq, length)
        self.lengths = kept
        self.store.begin_step({seq: new for seq, (_, new) in zip(self.seqs, rows, strict=True) if new})
        places = [tables.slots(seq, first, first + new) for seq, (first, new) in zip(self.seqs, rows, strict=True)]
        slots = torch.tensor([slot for row in places for slot in row], dtype=torch.int64, device=device)
        live = None if span.start is not None else span.positions >= 0
        width = table_width(max(map(tables.length, self.seqs)), size) if self.kernel else None
        return PagedStep(span, rows, slots, live, tables.as_tensor(self.seqs, width).to(device), self._plans)


def paged_parts(*, block_size: int = 16, num_blocks: int | None = None, impl: Impl = "auto", **parts: Any) -> Parts:
    """Parts of a decoder whose caches are paged. num_blocks None: enough for every row's capacity. parts: the other parts."""
    cache = paged_factory(block_size=block_size, num_blocks=num_blocks, impl=impl)
    return Parts(attend=attend_paged, cache=cache, **parts)


def paged_factory(*, block_size: int = 16, num_blocks: int | None = None, impl: Impl = "gather") -> CacheFactory:
    """Makes caches with a store of their own, rows named 0, 1, ...; with "gather" any attend reads them."""

    def make(config: ModelConfig, batch: int, capacity: int, dtype: torch.dtype, device: torch.device) -> PagedCache:
        if batch < 1 or capacity < 1:
            raise ValueError(f"a cache of {batch} rows and {capacity} tokens; use at least 1 of both")
        blocks = batch * -(-capacity // block_size) if num_blocks is None else num_blocks
        store = PagedStore(config, num_blocks=blocks, block_size=block_size, dtype=dtype, device=device)
        for row in range(batch):
            store.begin(row)
        return PagedCache(store, range(batch), capacity=capacity, impl=impl)

    return make


def attend_paged(q: Tensor, k: Tensor | PagedView, v: Tensor | PagedView, span: Span, scale: float) -> Tensor:
    """Attention over what PagedCache.append gave; plain tensors go to attend_dense. -> [batch, q_len, heads, head_dim]"""
    if isinstance(k, PagedView) and isinstance(v, PagedView):
        return attend_blocks(q, k, v, scale)
    return attend_dense(q, k, v, span, scale)  # type: ignore[arg-type]
