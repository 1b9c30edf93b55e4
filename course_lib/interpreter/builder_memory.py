"""Loads, stores, atomics, tensor descriptors and block pointers of the interpreter. All of them end in access.py."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import triton.language as tl

from . import access
from .numpy_types import computed, from_memory, stored, to_memory
from .rounding import narrow
from .values import MASKED_OFF, UNWRITTEN, Value, joined

_ANY = MASKED_OFF | UNWRITTEN


@dataclass(slots=True)
class Descriptor:
    """A tensor descriptor or block pointer: base pointer, shape and strides (Values), block shape, padding."""

    base: Value
    shape: list[Value]
    strides: list[Value]
    block_shape: list[int]
    padding: Any = None
    offsets: list[Value] | None = None
    order: Any = None

    def pointers(self, offsets: Sequence[Value], checked: Sequence[int]) -> tuple[Value, Value]:
        """-> (addresses of the block at `offsets`, mask of what lies inside the shape along the `checked` axes)."""
        itemsize = stored(self.base.dtype.element_ty).itemsize
        rank = len(self.block_shape)
        place, inside = np.zeros((1,) * rank, np.int64), np.ones((1,) * rank, bool)
        for axis, size in enumerate(self.block_shape):
            along = [1] * rank
            along[axis] = size
            index = (offsets[axis].data.astype(np.int64).reshape(-1)[0] + np.arange(size, dtype=np.int64)).reshape(along)
            place = place + index * int(self.strides[axis].data.reshape(-1)[0])
            if axis in checked:
                inside = inside & (index >= 0) & (index < int(self.shape[axis].data.reshape(-1)[0]))
        address = self.base.data.reshape(-1)[0] + np.broadcast_to(place * itemsize, self.block_shape).astype(np.uint64)
        doubt = joined(address.shape, *(o.doubt for o in offsets)) if any(o.doubt for o in offsets) else None
        mask = Value(np.broadcast_to(inside, self.block_shape), tl.int1)
        return Value(address, self.base.dtype.scalar, self.base.arg, doubt), mask


class MemoryOperations:
    """Mixin of the builder. `self.launch` is the running Launch."""

    launch: Any

    def create_addptr(self, ptr: Value, offset: Value) -> Value:
        itemsize = stored(ptr.get_element_ty()).itemsize
        step = offset.data if offset.data.dtype.itemsize == 8 else offset.data.astype(np.int64)
        data = ptr.data + (step.view(np.uint64) * np.uint64(itemsize))
        doubt = joined(data.shape, ptr.doubt, offset.doubt) if ptr.doubt is not None or offset.doubt is not None else None
        return Value(data, ptr.dtype, ptr.arg, doubt)

    # -- loads and stores ----------------------------------------------------------------------------------------------

    def create_load(self, ptr: Value, cache: Any, eviction: Any, is_volatile: bool) -> Value:
        return self.create_masked_load(ptr, None, None, cache, eviction, is_volatile)

    def create_masked_load(self, ptr: Value, mask: Value | None, other: Value | None, *_: Any) -> Value:
        return self._load(ptr, mask, None if other is None else other, "load from")

    def _load(self, ptr: Value, mask: Value | None, other: Value | None, verb: str) -> Value:
        dtype = ptr.get_element_ty()
        launch = self.launch
        found = access.locate(launch, ptr, mask, stored(dtype).itemsize, verb)
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
        dtype = ptr.get_element_ty()
        launch = self.launch
        found = access.locate(launch, ptr, mask, stored(dtype).itemsize, "store to")
        if value.doubt is not None:
            access.refuse_doubt(launch, value.doubt, found.mask, "is stored", _ANY)
        access.count(launch, found, "store")
        bits = to_memory(value.data, dtype).view(f"u{stored(dtype).itemsize}")
        access.store(launch, found, np.broadcast_to(bits, ptr.data.shape))

    # -- atomics -------------------------------------------------------------------------------------------------------

    def create_atomic_rmw(self, operation: Any, ptr: Value, value: Value, mask: Value, sem: Any, scope: Any) -> Value:
        """Lanes update one after the other, each returning what it found; programs do as well, in the order they run."""
        name, dtype = str(operation).rsplit(".", 1)[-1], value.dtype.scalar
        if name not in _UPDATES:
            raise self.launch.mistake("refused", f"the atomic operation {name} is not known; known: {', '.join(_UPDATES)}")
        return self._atomic(ptr, value, mask, lambda old, new: narrow(_UPDATES[name](old, new), dtype))

    def create_atomic_cas(self, ptr: Value, expected: Value, value: Value, sem: Any, scope: Any) -> Value:
        return self._atomic(ptr, value, None, np.equal, expected)

    def _atomic(self, ptr: Value, value: Value, mask: Value | None, update: Callable, expected: Value | None = None) -> Value:
        launch, dtype = self.launch, value.dtype.scalar
        itemsize, shape = stored(dtype).itemsize, ptr.data.shape
        found = access.locate(launch, ptr, mask, itemsize, "update")
        for used in (value, expected):
            if used is not None and used.doubt is not None:
                access.refuse_doubt(launch, used.doubt, found.mask, "is used by an atomic", _ANY)
        access.count(launch, found, "atomic")
        old = np.zeros(shape, computed(dtype))
        if found.storage is None:
            return Value(old, dtype)
        lanes = np.ones(shape, bool) if found.mask is None else found.mask
        memory, places = found.storage.view(itemsize), found.elements.ravel()
        new = np.broadcast_to(value.data, shape)[lanes]
        wanted = None if expected is None else np.broadcast_to(expected.data, shape)[lanes]
        before = np.empty(places.size, computed(dtype))
        for turn in _turns(places):
            at = places[turn]
            current = from_memory(memory[at].view(stored(dtype)), dtype)
            before[turn] = current
            after = update(current, new[turn]) if wanted is None else np.where(current == wanted[turn], new[turn], current)
            memory[at] = to_memory(after.astype(computed(dtype)), dtype).view(memory.dtype)
        old[lanes] = before
        return Value(old, dtype)

    # -- tensor descriptors and block pointers -------------------------------------------------------------------------

    def create_make_tensor_descriptor(
        self, base: Value, shape: list[Value], strides: list[Value], block_shape: list[int], is_signed: bool, padding: Any = None
    ) -> Descriptor:
        itemsize = stored(base.dtype.element_ty).itemsize
        if int(base.data.reshape(-1)[0]) % 16:
            raise self.launch.mistake("refused", f"a tensor descriptor needs a base aligned to 16 bytes, {base.arg} is not")
        steps = [int(stride.data.reshape(-1)[0]) for stride in strides]
        wrong = [step for step in steps[:-1] if step * itemsize % 16]
        if steps[-1] != 1 or wrong:
            raise self.launch.mistake(
                "refused",
                f"a tensor descriptor needs strides of whole 16 bytes and a last stride of 1, got {steps} x {itemsize} bytes",
            )
        if block_shape[-1] * itemsize < 16:
            raise self.launch.mistake(
                "refused", f"the last block dimension must have at least 16 bytes, got {block_shape[-1]} x {itemsize}"
            )
        return Descriptor(base, shape, strides, list(block_shape), padding)

    def create_descriptor_load(self, desc: Descriptor, indices: list[Value], *_: Any) -> Value:
        pointers, inside = desc.pointers(indices, range(len(desc.block_shape)))
        return self._load(pointers, inside, self._padding(desc, pointers), "load from")

    def _padding(self, desc: Descriptor, pointers: Value) -> Value:
        dtype = pointers.get_element_ty()
        fill = float("nan") if "NAN" in str(desc.padding).upper() else 0
        return Value(np.full(pointers.data.shape, fill).astype(computed(dtype)), dtype)

    def create_descriptor_store(self, desc: Descriptor, value: Value, indices: list[Value]) -> None:
        pointers, inside = desc.pointers(indices, range(len(desc.block_shape)))
        self.create_masked_store(pointers, value, inside)

    def create_descriptor_reduce(self, kind: Any, desc: Descriptor, value: Value, indices: list[Value]) -> None:
        pointers, inside = desc.pointers(indices, range(len(desc.block_shape)))
        name, dtype = str(kind).rsplit(".", 1)[-1], value.dtype.scalar
        self._atomic(pointers, value, inside, lambda old, new: narrow(_UPDATES[name](old, new), dtype))

    def create_descriptor_gather(self, desc: Descriptor, x_offsets: Value, y_offset: Value, type: Any) -> Value:
        rows = [self.create_descriptor_load(desc, [_scalar(x), y_offset]) for x in x_offsets.data.reshape(-1)]
        return Value(np.concatenate([row.data for row in rows]), desc.base.dtype.element_ty)

    def create_descriptor_scatter(self, desc: Descriptor, value: Value, x_offsets: Value, y_offset: Value) -> None:
        for i, x in enumerate(x_offsets.data.reshape(-1)):
            self.create_descriptor_store(desc, value.moved(lambda v, i=i: v[i : i + 1]), [_scalar(x), y_offset])

    def create_make_block_ptr(
        self, base: Value, shape: Any, strides: Any, offsets: Any, block_shape: Any, order: Any
    ) -> Descriptor:
        return Descriptor(base, shape, strides, list(block_shape), None, [o.clone() for o in offsets], order)

    def create_advance(self, ptr: Descriptor, offsets: list[Value]) -> Descriptor:
        moved = [Value(old.data + step.data, old.dtype) for old, step in zip(ptr.offsets, offsets, strict=True)]
        return Descriptor(ptr.base, ptr.shape, ptr.strides, ptr.block_shape, ptr.padding, moved, ptr.order)

    def create_tensor_pointer_load(self, ptr: Descriptor, boundary_check: Any, padding: Any, *_: Any) -> Value:
        pointers, inside = ptr.pointers(ptr.offsets, boundary_check)
        ptr.padding = padding
        other = self._padding(ptr, pointers) if padding is not None else None
        return self._load(pointers, inside if boundary_check else None, other, "load from")

    def create_tensor_pointer_store(self, ptr: Descriptor, value: Value, boundary_check: Any, *_: Any) -> None:
        pointers, inside = ptr.pointers(ptr.offsets, boundary_check)
        self.create_masked_store(pointers, value, inside if boundary_check else None)


def _scalar(value: Any) -> Value:
    return Value(np.array([value], np.int32), tl.int32)


def _turns(places: np.ndarray) -> list[np.ndarray]:
    """Lanes in groups without a repeated address: the first lane of each address, then the second, and so on."""
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    rank = np.arange(places.size) - np.repeat(starts, np.diff(np.r_[starts, places.size]))
    return [np.sort(order[rank == turn]) for turn in range(int(rank.max()) + 1)]


_UPDATES: dict[str, Callable] = {
    "ADD": np.add, "FADD": np.add, "AND": np.bitwise_and, "OR": np.bitwise_or, "XOR": np.bitwise_xor,
    "MAX": np.maximum, "MIN": np.minimum, "UMAX": np.maximum, "UMIN": np.minimum, "XCHG": lambda old, new: new,
}  # fmt: skip
