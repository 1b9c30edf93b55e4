"""Loads and stores, as pointers plus a mask; what an access may touch is decided in mistakes/access.py."""

from typing import Any

import numpy as np

from ..mistakes import access, tell
from ..values import MASKED_OFF, UNWRITTEN, Doubt, Value, joined, kinds_of, origins_of
from .numpy_types import from_memory, stored, to_memory


class Memory:
    """Mixin of the builder. `self.launch` is the running Launch."""

    launch: Any

    def create_addptr(self, ptr: Value, offset: Value) -> Value:
        itemsize = stored(ptr.get_element_ty()).itemsize
        step = offset.data if offset.data.dtype.itemsize == 8 else offset.data.astype(np.int64)
        data = ptr.data + (step.view(np.uint64) * np.uint64(itemsize))
        return Value(data, ptr.dtype, ptr.arg, joined(data.shape, ptr.doubt, offset.doubt))

    def create_load(self, ptr: Value, cache: Any, eviction: Any, is_volatile: bool) -> Value:
        return self.create_masked_load(ptr, None, None, cache, eviction, is_volatile)

    def create_masked_load(self, ptr: Value, mask: Value | None, other: Value | None, *_: Any) -> Value:
        return self._load(ptr, mask, other)

    def _load(self, ptr: Value, mask: Value | None, other: Value | None, cure: str = tell.MASK_IT) -> Value:
        dtype = ptr.get_element_ty()
        launch = self.launch
        if parts := access.apart(launch, ptr, mask):
            return laid_together([(self._load(*part, other, cure), part[1]) for part in parts])
        found = access.locate(launch, ptr, mask, stored(dtype).itemsize, "load from", cure)
        access.count(launch, found, "load")
        fill = None if other is None else to_memory(other.data, dtype).view(f"u{stored(dtype).itemsize}")
        checked = launch.checks.masked or launch.checks.unwritten
        bits, doubt = access.load(launch, found, ptr.data.shape, fill, checked)
        if other is not None and other.doubt is not None and found.mask is not None:
            doubt = joined(bits.shape, doubt, other.doubt.map(lambda kinds: np.where(found.mask, np.uint8(0), kinds)))
        return Value(from_memory(bits.view(stored(dtype)), dtype), dtype, doubt=doubt)

    def create_store(self, ptr: Value, value: Value, cache: Any, eviction: Any) -> None:
        self.create_masked_store(ptr, value, None, cache, eviction)

    def create_masked_store(self, ptr: Value, value: Value, mask: Value | None, *_: Any) -> None:
        self._store(ptr, value, mask)

    def _store(self, ptr: Value, value: Value, mask: Value | None, cure: str = tell.MASK_IT) -> None:
        dtype = ptr.get_element_ty()
        launch = self.launch
        if parts := access.apart(launch, ptr, mask):
            for pointers, active in parts:
                self._store(pointers, value, active, cure)
            return
        found = access.locate(launch, ptr, mask, stored(dtype).itemsize, "store to", cure)
        tell.refuse_doubt(launch, value.doubt, found.mask, "value stored here", MASKED_OFF | UNWRITTEN)
        access.count(launch, found, "store")
        bits = to_memory(value.data, dtype).view(f"u{stored(dtype).itemsize}")
        access.store(launch, found, np.broadcast_to(bits, ptr.data.shape))


def laid_together(parts: list[tuple[Value, Value]]) -> Value:
    """(what was loaded, its mask) from each of several tensors -> one block."""
    first, _ = parts[0]
    data = first.data
    kinds = kinds_of(first)
    for value, mask in parts:
        data = np.where(mask.data, value.data, data)
        kinds = np.where(mask.data, kinds_of(value), kinds)
    return Value(data, first.dtype, doubt=Doubt(kinds, origins_of([v for v, _ in parts])) if kinds.any() else None)
