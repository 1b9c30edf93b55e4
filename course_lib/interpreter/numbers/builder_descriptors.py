"""Tensor descriptors and block pointers of the interpreter: a base, a shape and strides, from which a block's addresses follow.

Their accesses are those of builder_memory.py, with the addresses and the mask that are worked out here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import triton.language as tl

from ..mistakes import tell
from ..values import MASKED_OFF, UNWRITTEN, WRAPPED, Value, assembled, joined
from .numpy_types import computed, stored

_DESCRIBED = "The descriptor's base, shape and strides reach beyond the tensor: make them those of the tensor"
_BLOCK_POINTER = "Pass boundary_check with every axis that can run over, and a shape and strides that are those of the tensor"


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
        shape = tuple(self.block_shape)
        doubt = joined(shape, *(part.doubt for part in (self.base, *offsets, *self.strides)))
        bounds = joined(shape, *(part.doubt for axis in checked for part in (offsets[axis], self.shape[axis])))
        mask = Value(np.broadcast_to(inside, self.block_shape), tl.int1, doubt=bounds)
        return Value(address, self.base.dtype.scalar, self.base.arg, doubt), mask


class Descriptors:
    """Mixin of the builder, beside the mixins of `_load`, `_store` and `_atomic`."""

    launch: Any
    _load: Callable
    _store: Callable
    _atomic: Callable

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

    def _described(self, desc: Descriptor, indices: Sequence[Value]) -> tuple[Value, Value]:
        """-> (addresses, mask) of a block. Coordinates that wrapped around are wrong even where the whole block is masked off."""
        for index in indices:
            tell.refuse_doubt(self.launch, index.doubt, None, "coordinate of this block", MASKED_OFF | UNWRITTEN | WRAPPED)
        itemsize, start = stored(desc.base.dtype.element_ty).itemsize, int(indices[-1].data.reshape(-1)[0])
        if start * itemsize % 16:  # an H200 stops with an illegal instruction
            raise self.launch.mistake(
                "refused",
                f"a block of a tensor descriptor starts at whole 16 bytes in its row, got element {start} x {itemsize} bytes; "
                f"use a multiple of {16 // itemsize}",
            )
        return desc.pointers(indices, range(len(desc.block_shape)))

    def _written(self, desc: Descriptor, indices: Sequence[Value]) -> tuple[Value, Value]:
        """-> (addresses, mask) of a block that is stored or added. Unlike a load, it may only hang over the far edges.

        Source: CUDA C++ Programming Guide, tensor memory accelerator, "Negative indices and out of bounds". An H200 stops with
        an illegal instruction.
        """
        starts = [int(index.data.reshape(-1)[0]) for index in indices]
        if min(starts) < 0:
            raise self.launch.mistake(
                "refused",
                f"a block that is stored through a tensor descriptor starts at no negative element, got {starts}; "
                "only a load may start before the tensor",
            )
        return self._described(desc, indices)

    def create_descriptor_load(self, desc: Descriptor, indices: list[Value], *_: Any) -> Value:
        pointers, inside = self._described(desc, indices)
        return self._load(pointers, inside, self._padding(desc.padding, pointers), _DESCRIBED)

    def _padding(self, padding: Any, pointers: Value) -> Value:
        dtype = pointers.get_element_ty()
        fill = float("nan") if "NAN" in str(padding).upper() else 0
        return Value(np.full(pointers.data.shape, fill).astype(computed(dtype)), dtype)

    def create_descriptor_store(self, desc: Descriptor, value: Value, indices: list[Value]) -> None:
        pointers, inside = self._written(desc, indices)
        self._store(pointers, value, inside, _DESCRIBED)

    def create_descriptor_reduce(self, kind: Any, desc: Descriptor, value: Value, indices: list[Value]) -> None:
        pointers, inside = self._written(desc, indices)
        self._atomic(str(kind).rsplit(".", 1)[-1], pointers, value, inside)

    def create_descriptor_gather(self, desc: Descriptor, x_offsets: Value, y_offset: Value, type: Any) -> Value:
        rows = [self.create_descriptor_load(desc, [_element(x_offsets, i), y_offset]) for i in range(x_offsets.data.size)]
        return assembled(rows, np.concatenate)

    def create_descriptor_scatter(self, desc: Descriptor, value: Value, x_offsets: Value, y_offset: Value) -> None:
        for i in range(x_offsets.data.size):
            self.create_descriptor_store(desc, value.moved(lambda v, i=i: v[i : i + 1]), [_element(x_offsets, i), y_offset])

    def create_make_block_ptr(
        self, base: Value, shape: Any, strides: Any, offsets: Any, block_shape: Any, order: Any
    ) -> Descriptor:
        return Descriptor(base, shape, strides, list(block_shape), None, [o.clone() for o in offsets], order)

    def create_advance(self, ptr: Descriptor, offsets: list[Value]) -> Descriptor:
        moved = [self.create_add(old, step) for old, step in zip(ptr.offsets, offsets, strict=True)]
        return Descriptor(ptr.base, ptr.shape, ptr.strides, ptr.block_shape, ptr.padding, moved, ptr.order)

    def create_tensor_pointer_load(self, ptr: Descriptor, boundary_check: Any, padding: Any, *_: Any) -> Value:
        pointers, inside = ptr.pointers(ptr.offsets, boundary_check)
        other = self._padding(padding, pointers) if padding is not None else None
        return self._load(pointers, inside if boundary_check else None, other, _BLOCK_POINTER)

    def create_tensor_pointer_store(self, ptr: Descriptor, value: Value, boundary_check: Any, *_: Any) -> None:
        pointers, inside = ptr.pointers(ptr.offsets, boundary_check)
        self._store(pointers, value, inside if boundary_check else None, _BLOCK_POINTER)


def _element(offsets: Value, place: int) -> Value:
    return offsets.moved(lambda x: x.reshape(-1)[place : place + 1])
