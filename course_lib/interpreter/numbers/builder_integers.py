"""Integer arithmetic: it wraps as compiled code does, and an int32 result that did is doubtful as an address (`overflow`)."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..values import WRAPPED, Doubt, Origin, Value, joined, unless_decided, without

_ONE_BIT = {  # arithmetic modulo 2, which numpy does not do with its bool
    np.add: np.bitwise_xor, np.subtract: np.bitwise_xor, np.multiply: np.bitwise_and, np.left_shift: np.greater,
}  # fmt: skip


class Integers:
    """Mixin of the builder, beside Arithmetic. `self.launch` is the running Launch."""

    launch: Any
    binary_op: Callable

    def _int_op(self, lhs: Value, rhs: Value, op: Callable, bound: Callable[[int, int], int]) -> Value:
        """An integer operation that may wrap: `bound` says how large the result can get from the operands' magnitudes."""
        if lhs.data.dtype == bool:
            op = _ONE_BIT[op]
        data = op(lhs.data, rhs.data)
        dtype = lhs.dtype.scalar
        doubt = joined(data.shape, lhs.doubt, rhs.doubt)
        result = Value(data, dtype, doubt=doubt)
        if dtype.is_int_signed() and dtype.int_bitwidth == 32:
            most = bound(_magnitude(lhs), _magnitude(rhs))
            if most < 2**31:
                result.bound = most
            elif self.launch.checks.overflow:
                exact = op(lhs.data.astype(np.int64), rhs.data.astype(np.int64))
                wrapped = exact != data
                if wrapped.any():
                    line = self.launch.line()
                    worst = int(exact.ravel()[int(np.flatnonzero(wrapped.ravel())[0])])
                    origin = Origin(line.number, line.text, f"{worst:,} does not fit in int32")
                    result.doubt = joined(
                        data.shape, doubt, Doubt(wrapped.astype(np.uint8) * np.uint8(WRAPPED), {WRAPPED: origin})
                    )
        return result

    def create_add(self, lhs: Value, rhs: Value) -> Value:
        return self._int_op(lhs, rhs, np.add, lambda a, b: a + b)

    def create_sub(self, lhs: Value, rhs: Value) -> Value:
        return self._int_op(lhs, rhs, np.subtract, lambda a, b: a + b)

    def create_mul(self, lhs: Value, rhs: Value) -> Value:
        result = self._int_op(lhs, rhs, np.multiply, lambda a, b: a * b)
        result.doubt = unless_decided(result.doubt, lhs, rhs, 0)
        return result

    def create_shl(self, lhs: Value, rhs: Value) -> Value:
        return self._int_op(lhs, rhs, np.left_shift, lambda a, b: a << min(b, 64))

    def create_sdiv(self, lhs: Value, rhs: Value) -> Value:
        """Towards zero, as C does and Triton does for its // (Python rounds down)."""
        divisor = np.where(rhs.data == 0, rhs.data.dtype.type(1), rhs.data)
        data = (lhs.data - np.fmod(lhs.data, divisor)) // divisor
        return Value(data, lhs.dtype.scalar, doubt=joined(data.shape, lhs.doubt, rhs.doubt))

    create_udiv = create_sdiv

    def create_ashr(self, lhs: Value, rhs: Value) -> Value:
        signed = np.dtype(f"i{lhs.data.itemsize}")
        data = np.right_shift(lhs.data.view(signed), rhs.data.view(signed)).view(lhs.data.dtype)
        return Value(data, lhs.dtype.scalar, doubt=joined(data.shape, lhs.doubt, rhs.doubt))

    def create_and(self, lhs: Value, rhs: Value) -> Value:
        result = self.binary_op(lhs, rhs, np.bitwise_and)
        doubt = unless_decided(result.doubt, lhs, rhs, 0)
        if doubt is not None and any(side.doubt is None and side.data.min() >= 0 for side in (lhs, rhs)):
            doubt = without(doubt, WRAPPED)  # the low bits of a number that wrapped around are right: a hash
        result.doubt = doubt
        return result

    def create_or(self, lhs: Value, rhs: Value) -> Value:
        result = self.binary_op(lhs, rhs, np.bitwise_or)
        result.doubt = unless_decided(result.doubt, lhs, rhs, ~lhs.data.dtype.type(0))
        return result

    def create_umulhi(self, lhs: Value, rhs: Value) -> Value:
        bits = lhs.data.itemsize * 8
        if bits == 64:
            wide = [int(a) * int(b) >> 64 for a, b in np.broadcast(lhs.data.view(np.uint64), rhs.data.view(np.uint64))]
            data = np.array(wide, np.uint64).reshape(np.broadcast_shapes(lhs.data.shape, rhs.data.shape))
        else:
            double, unsigned = np.dtype(f"u{bits // 4}"), np.dtype(f"u{bits // 8}")
            wide = lhs.data.view(unsigned).astype(double) * rhs.data.view(unsigned).astype(double)
            data = (wide >> double.type(bits)).astype(unsigned)
        return Value(data.view(lhs.data.dtype), lhs.dtype.scalar, doubt=joined(data.shape, lhs.doubt, rhs.doubt))


def _magnitude(value: Value) -> int:
    """The largest magnitude among a value's integers, found once."""
    if value.bound is None:
        data = value.data
        value.bound = max(abs(int(data.max())), abs(int(data.min()))) if data.size else 0
    return value.bound
