"""The memory of a replay: it holds what the launches themselves wrote, and lets nothing else in that cannot be explained.

A recorded value that is not what the memory holds is explained when it is
  an input    the whole storage equals one of the judge's own copies, or all of the argument's elements do, in order; a buffer
              that the function may write to is told apart, because what a launch leaves of it may stand in the answer
  fresh       memory that nobody wrote (the canary's pattern), or a box of the argument filled with one value
  metadata    the argument is one of those that the exercise lets the host compute
Anything else was computed outside the launches (or left by those of an earlier recording, in a buffer that is used again) and
stays out: a launch may write there, and not read. Where each byte came from is kept, because an answer made of unwritten
copies of an input follows from no launch.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..mistakes import canary
from ..mistakes.memory import Storage
from .plain import tensor_bytes
from .told import bits_of

FRESH, OWN, INPUT, FILL, GIVEN, WRITTEN = range(6)  # where a byte came from; OWN: a buffer to fill, GIVEN: metadata
MAX_STORAGE_BYTES = 2**28


class Unexplained(ValueError):
    """A launch was given, or an answer holds, what no launch wrote. at: these elements, counted from the storage's start."""

    def __init__(self, message: str, at: Any = ()):
        super().__init__(message)
        self.at = at


class Damaged(ValueError):
    """Data that no recorder wrote."""


@dataclass(slots=True)
class _Place:
    """One storage: its tensor, its bytes, the recorded bytes, which of these wait for an explanation, and the bytes' origins."""

    tensor: Any
    now: np.ndarray
    recorded: np.ndarray
    waiting: np.ndarray
    origin: np.ndarray


class ReplayMemory:
    """sizes: bytes of each storage; inputs: (bytes of the storage, bytes of the elements) of the judge's own copies.

    buffers  likewise, of those inputs that the function may write to
    """

    def __init__(
        self,
        sizes: Sequence[int],
        inputs: Sequence[tuple[np.ndarray, np.ndarray]],
        buffers: Sequence[tuple[np.ndarray, np.ndarray]] = (),
    ):
        if not all(type(size) is int and size >= 0 for size in sizes):
            raise Damaged(f"storages of {str(list(sizes))[:80]} bytes")
        if sum(sizes) > MAX_STORAGE_BYTES:
            limit = f"{MAX_STORAGE_BYTES / 2**20:g} MiB"
            raise Unexplained(f"your launches are given {sum(sizes):,} bytes of memory, the limit is {limit}; allocate less")
        self._sizes = sizes
        self.told_bits = 0  # what fills, metadata and the choice of inputs can carry (told.py)
        self._places: dict[int, _Place] = {}
        self._known = [(OWN, *pair) for pair in buffers if pair[1].size] + [(INPUT, *pair) for pair in inputs if pair[1].size]

    def find(self, change: Mapping[str, Any]) -> None:
        """Take in recorded bytes that no launch wrote; `explain` is asked when a launch is given them."""
        place = self._place(change["storage"])
        if "word" in change:
            found = np.resize(np.array([change["word"]], np.uint64).view(np.uint8), place.now.size)
        else:
            found = tensor_bytes(change["bytes"])
        changed = np.ones(place.now.size, bool)
        if "changed" in change:
            changed = np.unpackbits(tensor_bytes(change["changed"]))[: place.now.size].astype(bool)
        if found.size != place.now.size or changed.size != place.now.size:
            raise Damaged(f"{found.size} bytes recorded of a storage of {place.now.size}")
        place.recorded[:] = found
        place.waiting |= changed

    def tensor(self, arg: Mapping[str, Any]) -> Any:
        """The torch tensor of a recorded place."""
        import torch

        dtype = getattr(torch, str(arg["dtype"]), None)
        size, stride, offset = list(arg["size"]), list(arg["stride"]), arg["offset"]
        good = isinstance(dtype, torch.dtype) and len(size) == len(stride) and len(size) <= 32
        if not good or not all(type(n) is int and n >= 0 for n in (*size, *stride, offset)):
            raise Damaged(f"no tensor {str(dict(arg))[:120]}")
        if math.prod(size) > MAX_STORAGE_BYTES:  # a stride of 0 makes many elements of one
            raise Damaged(f"a tensor of {math.prod(size):,} elements; the limit is {MAX_STORAGE_BYTES:,}")
        raw = self._place(arg["storage"]).tensor.untyped_storage()
        last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
        if 0 not in size and (last + 1) * dtype.itemsize > raw.nbytes():
            raise Damaged(f"a tensor of {size} that ends beyond its storage of {raw.nbytes()} bytes")
        return torch.tensor([], dtype=dtype).set_(raw, offset, size, stride)

    def explain(self, what: str, arg: Mapping[str, Any], metadata: bool) -> None:
        """Let in what one argument of a launch (or the answer) was found to hold. Raises Unexplained, with the first place."""
        tensor, place = self.tensor(arg), self._place(arg["storage"])
        if not tensor.numel() or not place.waiting.any():
            return
        at, unit = _elements(arg, tensor), tensor.element_size()
        recorded, now = _units(place.recorded, unit)[at], _units(place.now, unit)[at]  # [size...]
        wrong = _lanes(place.waiting, unit).any(-1)[at] & (recorded != now)
        if wrong.any() and metadata:
            self._let_in(place, at, unit, GIVEN)
            whole = np.ceil(np.log2(tensor.double().abs().numpy() + 1)) if not tensor.dtype.is_floating_point else 8 * unit
            self.told_bits += int(np.broadcast_to(np.maximum(1, whole), at.shape).sum())
        elif wrong.any() and not self._is_input(place, at, unit, recorded):
            self._explain_fill(what, place, at, unit, recorded, wrong)
        _lanes(place.waiting, unit)[at] = False

    def _is_input(self, place: _Place, at: np.ndarray, unit: int, recorded: np.ndarray) -> bool:
        for origin, storage, elements in self._known:
            if np.array_equal(place.recorded, storage) or np.array_equal(place.recorded, elements):
                self._let_in(place, np.flatnonzero(place.waiting), 1, origin)
                self.told_bits += 1
                return True
        for origin, _, elements in self._known:
            if np.array_equal(np.ascontiguousarray(recorded).reshape(-1).view(np.uint8), elements):
                self._let_in(place, at, unit, origin)
                self.told_bits += 1
                return True
        return False

    def _explain_fill(
        self, what: str, place: _Place, at: np.ndarray, unit: int, recorded: np.ndarray, wrong: np.ndarray
    ) -> None:
        """A box of elements that all hold one value: torch.zeros, x.fill_, x[:, 5:] = 0."""
        fresh = np.resize(np.frombuffer(canary.WORD.to_bytes(8, "little"), np.uint8), place.now.size + 8)
        wrong = wrong & (recorded != _units(fresh, unit)[at])  # what is still fresh needs no explanation
        if not wrong.any():
            return
        places = np.argwhere(wrong) if wrong.ndim else np.zeros((1, 0), int)
        box = tuple(slice(low, high + 1) for low, high in zip(places.min(0), places.max(0), strict=True))
        if (recorded[box] == recorded[box].flat[0]).all():
            self._let_in(place, at[box], unit, FILL)
            self.told_bits += 8 + bits_of(int(recorded[box].flat[0]))
            return
        flat = int(np.flatnonzero(wrong.reshape(-1))[0])
        where = f"index {[int(i) for i in places[0]]}" if wrong.ndim > 1 else f"index {flat}"
        raise Unexplained(
            f"{what} holds values that no launch of yours wrote and that are no input: "
            f"{int(wrong.sum())} of {wrong.size} elements, first at {where}",
            at[wrong],
        )

    @staticmethod
    def _let_in(place: _Place, at: np.ndarray, unit: int, origin: int) -> None:
        _units(place.now, unit)[at] = _units(place.recorded, unit)[at]
        _lanes(place.origin, unit)[at] = origin

    def wrote(self, arg: Mapping[str, Any], stores: np.ndarray) -> None:
        """Mark what a launch stored through an argument. stores: [elements from the argument's first on] how often."""
        place, unit = self._place(arg["storage"]), self.tensor(arg).element_size()
        at = np.flatnonzero(stores) + arg["offset"]
        _lanes(place.origin, unit)[at] = WRITTEN
        _lanes(place.waiting, unit)[at] = False

    def foreign(self, arg: Mapping[str, Any]) -> np.ndarray:
        """Which elements of a tensor, counted in order, no launch wrote, apart from those left blank (0, inf, NaN)."""
        if 0 in arg["size"]:
            return np.zeros(0, np.int64)
        tensor = self.tensor(arg)
        origin = _lanes(self._place(arg["storage"]).origin, tensor.element_size())[_elements(arg, tensor), 0].reshape(-1)
        values = tensor.reshape(-1).double() if not tensor.dtype.is_complex else tensor.reshape(-1).abs().double()
        blank = ((values == 0) | ~values.isfinite()).numpy()
        return np.flatnonzero((origin == INPUT) | (origin == GIVEN) | ((origin == FILL) & ~blank))

    def _place(self, index: int) -> _Place:
        if type(index) is not int or not 0 <= index < len(self._sizes):
            raise Damaged(f"storage {str(index)[:20]} of {len(self._sizes)}")
        if index not in self._places:
            import torch

            size = self._sizes[index]
            tensor = canary.plant(torch.zeros(size, dtype=torch.uint8))  # nothing may be left of what lay there before
            now = Storage(tensor.data_ptr(), size).view(1)
            self._places[index] = _Place(tensor, now, now.copy(), np.zeros(size, bool), np.full(size, FRESH, np.uint8))
        return self._places[index]


def _units(raw: np.ndarray, unit: int) -> np.ndarray:
    """Bytes as elements of `unit` bytes (a view)."""
    return raw[: raw.size // unit * unit].view(f"u{unit}")


def _lanes(flags: np.ndarray, unit: int) -> np.ndarray:
    """[elements, unit]: what is kept for each byte, by element (a view)."""
    return flags[: flags.size // unit * unit].reshape(-1, unit)


def _elements(arg: Mapping[str, Any], tensor: Any) -> np.ndarray:
    """[size...] where each element lies, in elements from the storage's start."""
    if tensor.element_size() > 8:
        raise Damaged(f"a tensor of {arg['dtype']}, which no kernel takes")
    place = np.full((1,) * len(arg["size"]), arg["offset"], np.int64)
    for axis, (size, step) in enumerate(zip(arg["size"], arg["stride"], strict=True)):
        along = [1] * len(arg["size"])
        along[axis] = size
        place = place + (np.arange(size, dtype=np.int64) * step).reshape(along)
    return place
