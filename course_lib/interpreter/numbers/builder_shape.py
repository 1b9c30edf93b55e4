"""Operations that move elements without changing them; pointers keep their argument, and doubt moves along."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import triton.language as tl

from ..values import Value, assembled, joined
from .numpy_types import computed


class Shape:
    """Mixin of the builder: reshape, transpose, broadcast, splat, join, split, gather, ranges, histogram."""

    launch: Any

    def create_reshape(self, arg: Value, shape: Sequence[int], allow_reorder: bool) -> Value:
        return arg.moved(lambda x: x.reshape(shape))

    def create_trans(self, arg: Value, perm: Sequence[int]) -> Value:
        return arg.moved(lambda x: np.transpose(x, perm))

    def create_expand_dims(self, arg: Value, axis: int) -> Value:
        return arg.moved(lambda x: np.expand_dims(x, axis))

    def create_broadcast(self, arg: Value, shape: Sequence[int]) -> Value:
        return arg.moved(lambda x: np.broadcast_to(x, shape))

    def create_splat(self, ret_ty: Any, arg: Value) -> Value:
        """A scalar as a block: a view of one element, which numpy repeats without copying."""
        shape = ret_ty.shape
        return arg.moved(lambda x: np.broadcast_to(x.reshape(-1)[:1].reshape((1,) * len(shape)), shape), ret_ty.scalar)

    def create_unsplat(self, arg: Value) -> Value:
        return arg.moved(lambda x: x.reshape(-1)[:1])

    def create_cat(self, lhs: Value, rhs: Value) -> Value:
        return _together(lhs, rhs, np.concatenate)

    def create_join(self, lhs: Value, rhs: Value) -> Value:
        return _together(lhs, rhs, lambda parts: np.stack(parts, axis=-1))

    def create_split(self, value: Value) -> tuple[Value, Value]:
        return value.moved(lambda x: x[..., 0]), value.moved(lambda x: x[..., 1])

    def create_gather(self, src: Value, indices: Value, axis: int) -> Value:
        index, size = indices.data, src.data.shape[axis]
        wrong = (index < 0) | (index >= size)
        if wrong.any():
            first = int(index[tuple(np.argwhere(wrong)[0])])
            raise self.launch.mistake(
                "out of bounds", f"tl.gather cannot take element {first} along axis {axis}: the block has 0..{size - 1} there"
            )
        result = src.moved(lambda x: np.take_along_axis(x, index, axis=axis))
        result.doubt = joined(result.data.shape, result.doubt, indices.doubt)
        return result

    def create_make_range(self, ret_ty: Any, start: int, stop: int) -> Value:
        return Value(np.arange(start, stop, dtype=np.int32), tl.int32, bound=max(abs(start), abs(stop - 1)))

    def create_histogram(self, data: Value, bins: int, mask: Value | None) -> Value:
        kept = data.data if mask is None else data.data[mask.data]
        kept = kept[(kept >= 0) & (kept < bins)]
        counts = np.bincount(kept.astype(np.int64), minlength=bins).astype(np.int32)
        doubt = data.doubt
        if doubt is not None:  # a doubtful element may be in any bin; one that is masked off is in none
            live = True if mask is None else mask.data
            doubt = doubt.map(lambda kinds: np.broadcast_to(np.bitwise_or.reduce(kinds[live], axis=None), (bins,)))
        return Value(counts, tl.int32, doubt=doubt)

    def get_all_ones_value(self, type: Any) -> Value:
        kind = computed(type)
        return Value(np.full(1, True if kind == np.bool_ else -1).astype(kind), type.scalar)

    def get_null_value(self, type: Any) -> Value:
        return Value(np.zeros(1, computed(type)), type.scalar, bound=0)


def _together(lhs: Value, rhs: Value, put: Callable[[list[np.ndarray]], np.ndarray]) -> Value:
    """Two values side by side; pointers into one argument still point into it."""
    value = assembled([lhs, rhs], put)
    value.arg = lhs.arg if lhs.arg == rhs.arg else None
    return value
