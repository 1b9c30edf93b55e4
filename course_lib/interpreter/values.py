"""What a value of an interpreted kernel is: a numpy array, Triton's type for it, where it points, and what is doubtful about it.

Layout   a scalar is an array of shape (1,), as in Triton's own interpreter; a block has the block's shape
         bf16 and fp8 are held as float32 whose values the narrow format can represent (formats.py); pointers are uint64 addresses
Doubt    per element, which of DOUBTS apply; it travels through the arithmetic and is a mistake only where it reaches a
         result, an address or a branch
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

MASKED_OFF, UNWRITTEN, WRAPPED = 1, 2, 4
DOUBTS = (  # in the order in which they are told
    MASKED_OFF,  # a lane that was masked off, of a load without other=
    UNWRITTEN,  # memory that nobody wrote
    WRAPPED,  # int32 arithmetic that passed 2**31 and wrapped around
)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a doubt began: the source line, what was read there or computed, and for a read of which argument's element."""

    line: int
    text: str
    detail: str
    argument: str = ""
    index: int | None = None


@dataclass(slots=True)
class Doubt:
    """kinds: uint8, one bit for each of DOUBTS, of the value's shape; origins: the first origin of each kind."""

    kinds: np.ndarray
    origins: dict[int, Origin]

    def map(self, change: Callable[[np.ndarray], np.ndarray]) -> "Doubt | None":
        """The doubt of a value made of this one by moving elements (reshape, broadcast, transpose, a slice)."""
        kinds = change(self.kinds)
        return Doubt(kinds, self.origins) if kinds.any() else None


def joined(shape: tuple[int, ...], *doubts: Doubt | None) -> Doubt | None:
    """The doubt of a value computed element by element from others: whatever any of them has."""
    known = [doubt for doubt in doubts if doubt is not None]
    if not known:
        return None
    kinds = np.zeros(shape, np.uint8)
    origins: dict[int, Origin] = {}
    for doubt in known:
        kinds |= doubt.kinds
        origins = doubt.origins | origins
    return Doubt(kinds, origins)


def without(doubt: Doubt | None, kind: int) -> Doubt | None:
    """The doubt of a value made in a way that settles one kind of it."""
    if doubt is None or not (doubt.kinds & kind).any():
        return doubt
    kinds = doubt.kinds & np.uint8(~kind & 0xFF)
    return Doubt(kinds, doubt.origins) if kinds.any() else None


def unless_decided(doubt: Doubt | None, lhs: "Value", rhs: "Value", deciding: Any) -> Doubt | None:
    """The doubt of a binary operation in which one operand can decide alone: False & anything, 0 times any integer."""
    if doubt is None:
        return None
    sure = [(side.data == deciding) & (side.doubt.kinds == 0 if side.doubt is not None else True) for side in (lhs, rhs)]
    kinds = np.where(sure[0] | sure[1], np.uint8(0), doubt.kinds)
    return Doubt(kinds, doubt.origins) if kinds.any() else None


def over_axis(doubt: Doubt | None, axis: int | None, keepdims: bool = False) -> Doubt | None:
    """The doubt of a reduction: one doubtful element makes the whole sum doubtful."""
    if doubt is None:
        return None
    kinds = np.bitwise_or.reduce(doubt.kinds, axis=axis, keepdims=keepdims)
    return Doubt(np.atleast_1d(kinds), doubt.origins)


@dataclass(slots=True)
class Value:
    """One value of a kernel.

    data   numpy array (see Layout); dtype: Triton's scalar or pointer type
    arg    for a pointer: name of the kernel argument that it came from, None when unknown (made from an integer)
    bound  for an integer: no element is larger in magnitude; None when not known
    attr   hints such as tl.multiple_of, kept as Triton's interpreter keeps them
    """

    data: np.ndarray
    dtype: Any
    arg: str | None = None
    doubt: Doubt | None = None
    bound: int | None = None
    attr: dict[str, Any] = field(default_factory=dict)

    def get_element_ty(self) -> Any:
        dtype = self.dtype
        while hasattr(dtype, "element_ty"):
            dtype = dtype.element_ty
        return dtype

    def set_attr(self, key: str, value: Any) -> None:
        self.attr[key] = value

    def clone(self) -> "Value":
        return Value(self.data.copy(), self.dtype, self.arg, self.doubt, self.bound)

    def moved(self, change: Callable[[np.ndarray], np.ndarray], dtype: Any = None) -> "Value":
        """The same elements elsewhere: `change` is applied to the data and to the doubt."""
        doubt = self.doubt.map(change) if self.doubt is not None else None
        return Value(change(self.data), dtype or self.dtype, self.arg, doubt, self.bound)

    def __bool__(self) -> bool:
        return bool(self.data.all())


def kinds_of(value: Value) -> np.ndarray:
    """Which kinds of doubt each element has, zeros where there is none."""
    return value.doubt.kinds if value.doubt is not None else np.zeros(value.data.shape, np.uint8)


def origins_of(values: Sequence[Value]) -> dict[int, Origin]:
    """The first origin of each kind, in the order of the values."""
    return {kind: origin for value in reversed(values) if value.doubt for kind, origin in value.doubt.origins.items()}


def assembled(parts: Sequence[Value], put: Callable[[list[np.ndarray]], np.ndarray]) -> Value:
    """One value that `put` makes of the elements of several (concatenate, stack); each element keeps its doubt."""
    origins = origins_of(parts)
    doubt = Doubt(put([kinds_of(part) for part in parts]), origins) if origins else None
    return Value(put([part.data for part in parts]), parts[0].dtype.scalar, doubt=doubt)
