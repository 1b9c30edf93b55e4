"""The memory of one launch: the tensors passed to it, and which address belongs to which element of which argument.

A pointer that came from an argument may reach that argument's tensor and other tensors passed to the launch that share
its storage; anything else is out of bounds, even where another tensor happens to lie. Nothing is read or written before
every active address of a block has been checked, so a wild pointer ends the launch and not the process.
"""

import ctypes
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

UINT = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class Storage:
    """A run of bytes that tensors share, as numpy arrays of each element size."""

    def __init__(self, start: int, num_bytes: int, keep: Any = None):
        self.start, self.num_bytes, self.keep = start, num_bytes, keep
        self.regions: list[Region] = []
        self._views: dict[int, np.ndarray] = {}

    def view(self, itemsize: int) -> np.ndarray:
        """The storage as unsigned integers of `itemsize` bytes (what is left over at the end is cut off)."""
        if itemsize not in self._views:
            count = self.num_bytes // itemsize
            kind = {1: ctypes.c_uint8, 2: ctypes.c_uint16, 4: ctypes.c_uint32, 8: ctypes.c_uint64}[itemsize]
            self._views[itemsize] = np.ctypeslib.as_array((kind * count).from_address(self.start)) if count else np.empty(0, kind)
        return self._views[itemsize]


@dataclass(eq=False)
class Region:
    """The elements of one tensor argument. first and end: bytes from the start of the storage; strides in elements."""

    arg: str
    storage: Storage
    first: int
    end: int
    itemsize: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dense: bool
    dtype: str = ""
    names: list[str] = field(default_factory=list)

    @cached_property
    def num_elements(self) -> int:
        """Elements between the first and the last one, gaps of a strided view included."""
        return (self.end - self.first) // self.itemsize

    @cached_property
    def members(self) -> np.ndarray:
        """[num_elements] True where an element of the tensor lies, False in the gaps of a strided view."""
        inside = np.zeros(self.num_elements, bool)
        steps = [stride * inside.itemsize for stride in self.strides]
        np.lib.stride_tricks.as_strided(inside, self.shape, steps)[...] = True
        return inside

    def contains(self, offsets: np.ndarray, itemsize: int) -> np.ndarray:
        """For byte offsets from the storage's start: does an access of `itemsize` bytes there stay inside the tensor?"""
        inside = (offsets >= self.first) & (offsets + itemsize <= self.end)
        if not self.dense and inside.any():
            place = np.where(inside, offsets - self.first, 0)
            inside &= self.members[place // self.itemsize] & self.members[(place + itemsize - 1) // self.itemsize]
        return inside

    def index_of(self, offset: int) -> str:
        """An element as the kernel counts it from the argument's pointer, and as an index into the shape where there is one."""
        flat, rest = divmod(offset - self.first, self.itemsize)
        text = f"{self.arg}[{flat}]" if not rest else f"{self.arg}[{flat}] + {rest} bytes"
        inside = self.first <= offset < self.end
        if inside and len(self.shape) > 1 and self.dense and self.strides == _contiguous(self.shape):
            text += f" = {list(map(int, np.unravel_index(flat, self.shape)))}"
        return text

    @property
    def extent(self) -> str:
        """Shape and bounds in words."""
        shape = "x".join(map(str, self.shape)) or "scalar"
        gaps = "" if self.dense else f", strides {self.strides}, gaps between them belong to others"
        last = f"0..{self.num_elements - 1}" if self.num_elements else "none, the tensor is empty"
        return f"{shape} {self.dtype}, offsets {last}{gaps}"


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    steps, step = [], 1
    for size in reversed(shape):
        steps.append(step)
        step *= size
    return tuple(reversed(steps))


class Memory:
    """All that a launch may touch: `tensors` are (argument name, CPU tensor) pairs."""

    def __init__(self, tensors: Iterable[tuple[str, Any]]):
        self.storages: dict[int, Storage] = {}
        self.by_name: dict[str, Region] = {}
        for name, tensor in tensors:
            self._add(name, tensor)

    def _add(self, name: str, tensor: Any) -> None:
        raw = tensor.untyped_storage()
        storage = self.storages.get(raw.data_ptr())
        if storage is None:
            storage = self.storages[raw.data_ptr()] = Storage(raw.data_ptr(), raw.nbytes(), raw)
        itemsize, shape, strides = tensor.element_size(), tuple(tensor.shape), tuple(tensor.stride())
        first = tensor.storage_offset() * itemsize
        count = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True)) if tensor.numel() else 0
        region = Region(
            name, storage, first, first + count * itemsize, itemsize, shape, strides,
            dense=tensor.numel() >= count, dtype=str(tensor.dtype).removeprefix("torch."),
        )  # fmt: skip
        storage.regions.append(region)
        self.by_name[name] = region

    def region_at(self, address: int) -> Region | None:
        """The tensor that an address lies in, for pointers whose argument is not known."""
        for storage in self.storages.values():
            if storage.start <= address < storage.start + storage.num_bytes:
                near = [r for r in storage.regions if r.first <= address - storage.start < r.end]
                return near[0] if near else storage.regions[0]
        return None
