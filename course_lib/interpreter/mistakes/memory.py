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
    """A run of bytes that tensors share, as numpy arrays of each element size. keep: what owns those bytes."""

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
        kind = f"{self.dtype} {list(self.shape)}" if self.shape else f"one {self.dtype}"
        if not self.num_elements:
            return f"{kind}, which is empty"
        last = self.num_elements - 1
        return f"{kind}, offsets 0..{last}" if self.dense else f"{kind} with strides {self.strides}, offsets 0..{last} with gaps"


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    steps, step = [], 1
    for size in reversed(shape):
        steps.append(step)
        step *= size
    return tuple(reversed(steps))


def _is_dense(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """No gaps: every place between the first and the last element is an element (of one or, in an expanded tensor, of many)."""
    covered = 1
    for stride, size in sorted(zip(strides, shape, strict=True)):
        if size > 1 and stride:
            if stride > covered:
                return False
            covered += (size - 1) * stride
    return True


class Memory:
    """All that a launch may touch: `tensors` are (argument name, CPU tensor) pairs."""

    def __init__(self, tensors: Iterable[tuple[str, Any]]):
        tensors = list(tensors)
        self.storages = _storages([tensor.untyped_storage() for _, tensor in tensors if tensor.untyped_storage().nbytes()])
        self._starts = np.array([storage.start for storage in self.storages], np.uint64)
        self._ends = np.array([storage.start + storage.num_bytes for storage in self.storages], np.uint64)
        self.by_name: dict[str, Region] = {}
        for name, tensor in tensors:
            self._add(name, tensor)

    def _add(self, name: str, tensor: Any) -> None:
        raw = tensor.untyped_storage()
        storage = self.storage_at(raw.data_ptr()) if raw.nbytes() else Storage(raw.data_ptr(), 0)
        itemsize, shape, strides = tensor.element_size(), tuple(tensor.shape), tuple(tensor.stride())
        first = raw.data_ptr() - storage.start + tensor.storage_offset() * itemsize
        if not tensor.numel():  # torch passes a null pointer for it
            storage, first = Storage(0, 0), 0
        count = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True)) if tensor.numel() else 0
        region = Region(
            name, storage, first, first + count * itemsize, itemsize, shape, strides,
            dense=_is_dense(shape, strides), dtype=str(tensor.dtype).removeprefix("torch."),
        )  # fmt: skip
        storage.regions.append(region)
        self.by_name[name] = region

    def storages_of(self, addresses: np.ndarray, nearest: bool = False) -> np.ndarray:
        """For addresses: the place in `storages` of the one that each lies in; -1 (`nearest`: the one below) if in none."""
        if not self.storages:
            return np.full(addresses.shape, -1)
        place = np.searchsorted(self._starts, addresses, side="right") - 1
        if nearest:
            return np.maximum(place, 0)
        return np.where(addresses < self._ends[place], place, -1)  # place -1, before the first: the last one's end is above it

    def storage_at(self, address: int) -> Storage | None:
        place = int(self.storages_of(np.array([address], np.uint64))[0])
        return self.storages[place] if place >= 0 else None

    def region_at(self, address: int) -> Region | None:
        """The tensor that an address lies in; one that shares the storage where none does; None outside all storages."""
        storage = self.storage_at(address)
        if storage is None:
            return None
        offset = np.array([address - storage.start])
        return next((region for region in storage.regions if region.contains(offset, 1)[0]), storage.regions[0])


def _storages(raws: Iterable[Any]) -> list[Storage]:
    """One Storage for each run of bytes: torch storages that overlap (two tensors made from one numpy array) become one."""
    found: list[Storage] = []
    for raw in sorted(raws, key=lambda raw: raw.data_ptr()):
        start, end = raw.data_ptr(), raw.data_ptr() + raw.nbytes()
        if found and start < found[-1].start + found[-1].num_bytes:
            found[-1].num_bytes = max(found[-1].num_bytes, end - found[-1].start)
            found[-1].keep.append(raw)
        else:
            found.append(Storage(start, end - start, [raw]))
    return found
