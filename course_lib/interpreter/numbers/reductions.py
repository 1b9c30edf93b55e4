"""tl.reduce and tl.associative_scan, which Triton's frontend cannot hand to a builder here: combine functions are Python.

Known combines (sum, max, min, xor, ...) are one numpy call with the NaN rules of compiled code: maximum and minimum drop a
NaN, as the maxnum instruction does, and order -0 below +0; a sum keeps it. A sum of bf16 or fp16 is rounded at each of
log2(n) steps: compiled code adds in the block's own type. Any other combine is called on halves of the block, log2(n)
times, in an order that needs it to be associative and commutative, as the shuffles of a compiled reduction do. tl.argmax and
tl.argmin are neither where a NaN comes in: which index a compiled one gives depends on the layout of the block.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl

from ..values import Value, assembled, over_axis
from .builder import builder
from .formats import NARROW
from .rounding import narrow

_standard = tl.standard


def _largest(data: np.ndarray, axis: int) -> np.ndarray:
    found = np.fmax.reduce(data, axis=axis)
    if data.dtype.kind != "f" or found.all():
        return found
    return np.where(found == 0, np.where(((data == 0) & ~np.signbit(data)).any(axis), 0.0, -0.0), found).astype(data.dtype)


def _smallest(data: np.ndarray, axis: int) -> np.ndarray:
    return -_largest(-data, axis) if data.dtype.kind == "f" else np.fmin.reduce(data, axis=axis)


_KNOWN: dict[Any, Callable] = {
    _standard._sum_combine: np.add.reduce,
    _standard._elementwise_max: _largest,
    _standard._elementwise_min: _smallest,
    _standard._xor_combine: np.bitwise_xor.reduce,
}
for _name, _op in (
    ("_or_combine", np.bitwise_or.reduce),
    ("_and_combine", np.bitwise_and.reduce),
    ("_prod_combine", np.multiply.reduce),
):
    if hasattr(_standard, _name):
        _KNOWN[getattr(_standard, _name)] = _op
_KNOWN_SCANS = {_standard._sum_combine: np.add.accumulate, _standard._prod_combine: np.multiply.accumulate}


def reduce(input: Any, axis: Any, combine_fn: Any, keep_dims: Any = False, **_: Any) -> Any:
    """tl.reduce: `input` a tensor or a tuple of tensors of one shape -> the same without `axis` (None: a scalar)."""
    axis, keep_dims = _plain(axis), bool(_plain(keep_dims))
    tensors = input if isinstance(input, (tuple, tl.tuple, list)) else (input,)
    rank = len(tensors[0].shape)
    if axis is not None and not -rank <= axis < rank:
        raise ValueError(f"axis {axis} does not exist in a block of {rank} dimensions; use {-rank}..{rank - 1}")
    _refuse_scalars(tensors)
    values = [tensor.handle for tensor in tensors]
    if axis is None:
        values, place = [value.moved(lambda x: x.reshape(-1)) for value in values], 0
    else:
        place = axis % rank
    known = _KNOWN.get(combine_fn) if len(values) == 1 else None
    out = _halves(values, combine_fn, place) if known is None else [_known(values[0], known, place)]
    scalar = not keep_dims and (axis is None or rank == 1)
    return _results(input, [_shaped(value, place, axis is None, keep_dims, rank) for value in out], scalar)


def _known(value: Value, op: Callable, axis: int) -> Value:
    scalar = value.dtype.scalar
    if scalar.is_fp8() and op == np.add.reduce:
        raise builder.launch.mistake("refused", f"no GPU computes in {scalar}; convert it first: x.to(tl.float32)")
    steps = op == np.add.reduce and scalar.is_floating() and scalar.primitive_bitwidth < 32
    data = _summed_in_steps(value.data, scalar, axis) if steps else op(value.data, axis=axis)
    if scalar.is_floating():
        builder.launch.count_elementwise(value.data.size - data.size)
    return Value(narrow(np.asarray(data).astype(value.data.dtype), scalar), scalar, doubt=over_axis(value.doubt, axis))


def _summed_in_steps(data: np.ndarray, dtype: Any, axis: int) -> np.ndarray:
    while (size := data.shape[axis]) > 1:
        first, second = np.split(data, [size // 2], axis)
        data = narrow(first + second, dtype)
    return np.take(data, 0, axis)


def _halves(values: list[Value], combine_fn: Any, axis: int) -> list[Value]:
    """Combine the first half of the axis with the second until one is left. Blocks have power-of-two sizes."""
    while (size := values[0].data.shape[axis]) > 1:
        half = size // 2
        first = [value.moved(lambda x: np.take(x, range(half), axis)) for value in values]  # noqa: B023
        second = [value.moved(lambda x: np.take(x, range(half, size), axis)) for value in values]  # noqa: B023
        values = _combined(combine_fn, first, second)
    return [value.moved(lambda x: np.take(x, 0, axis)) for value in values]


def _combined(combine_fn: Any, left: list[Value], right: list[Value]) -> list[Value]:
    result = combine_fn(*map(_tensor, left), *map(_tensor, right))
    result = result if isinstance(result, (tuple, tl.tuple)) else (result,)
    return [_value(item, like) for item, like in zip(result, left, strict=True)]


def _value(item: Any, like: Value) -> Value:
    """What a combine function returned, as a value of the operand's type and shape (it may return a constant)."""
    if isinstance(item, tl.tensor):
        value = item.handle
        return value if value.data.shape == like.data.shape else value.moved(lambda x: np.broadcast_to(x, like.data.shape))
    return Value(np.full(like.data.shape, _plain(item)).astype(like.data.dtype), like.dtype)


def _shaped(value: Value, axis: int, everything: bool, keep_dims: bool, rank: int) -> Value:
    if keep_dims:
        return value.moved(lambda x: x.reshape((1,) * rank) if everything else np.expand_dims(x, axis))
    return value.moved(np.atleast_1d)


def associative_scan(input: Any, axis: Any, combine_fn: Any, reverse: Any = False, **_: Any) -> Any:
    """tl.associative_scan: `input` a tensor or a tuple of tensors -> the same shape, combined along `axis`."""
    axis, reverse = _plain(axis), bool(_plain(reverse))
    tensors = input if isinstance(input, (tuple, tl.tuple, list)) else (input,)
    rank = len(tensors[0].shape)
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} does not exist in a block of {rank} dimensions; use {-rank}..{rank - 1}")
    axis %= rank
    values = [tensor.handle for tensor in tensors]
    if reverse:
        values = [value.moved(lambda x: np.flip(x, axis)) for value in values]
    known = _KNOWN_SCANS.get(combine_fn) if len(values) == 1 and values[0].dtype.scalar.name not in NARROW else None
    if known is not None:
        value = values[0]
        data = known(value.data, axis=axis, dtype=value.data.dtype)
        doubt = value.doubt and value.doubt.map(lambda kinds: np.bitwise_or.accumulate(kinds, axis))
        if value.dtype.scalar.is_floating():
            builder.launch.count_elementwise(data.size - data.size // data.shape[axis])
        values = [Value(data, value.dtype.scalar, doubt=doubt)]
    else:
        values = _running(values, combine_fn, axis)
    if reverse:
        values = [value.moved(lambda x: np.flip(x, axis)) for value in values]
    return _results(input, values, scalar=False)


def _running(values: list[Value], combine_fn: Any, axis: int) -> list[Value]:
    """Combine each slice with the result up to the one before it."""
    size = values[0].data.shape[axis]
    slices = [[value.moved(lambda x: np.take(x, [i], axis)) for value in values] for i in range(size)]  # noqa: B023
    for i in range(1, size):
        slices[i] = _combined(combine_fn, slices[i - 1], slices[i])
    return [assembled(column, lambda parts: np.concatenate(parts, axis)) for column in zip(*slices, strict=True)]


def _tensor(value: Value) -> Any:
    shape = value.data.shape
    return tl.tensor(value, tl.block_type(value.dtype.scalar, list(shape)) if shape else value.dtype.scalar)


def _results(input: Any, values: list[Value], scalar: bool) -> Any:
    tensors = [tl.tensor(value, value.dtype.scalar) if scalar else _tensor(value) for value in values]
    return tuple(tensors) if isinstance(input, (tuple, tl.tuple, list)) else tensors[0]


def _refuse_scalars(tensors: Any) -> None:
    scalar = next((tensor for tensor in tensors if not tensor.type.is_block()), None)
    if scalar is not None:
        raise builder.launch.mistake("refused", f"only a block can be reduced, got one value of {scalar.dtype}")


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, tl.constexpr) else value
