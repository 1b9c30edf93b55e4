"""Arithmetic on floats, comparisons and selection: numbers as compiled code has them, with their doubt.

A bf16 operation is done in float32 and rounded to nearest even, which is what a GPU does (exactly so for + - * /: float32
has more than twice bf16's digits, so rounding twice changes nothing). Integers are in builder_integers.py.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl

from ..values import WRAPPED, Doubt, Value, joined, kinds_of, origins_of, without
from .numpy_types import from_memory, to_memory
from .rounding import flushed, fused, larger_of, narrow, remainder, smaller_of

_erf32 = np.vectorize(math.erf, otypes=[np.float32])
_erf64 = np.vectorize(math.erf, otypes=[np.float64])
_LOG2_E = np.float32(1.4426950216293335)


def _exp(x: np.ndarray) -> np.ndarray:
    """2 ** (x log2 e) with the product rounded to float32, as compiled: an error that grows with |x|, 54 ulp at x = 60."""
    return np.exp2(x * _LOG2_E) if x.dtype == np.float32 else np.exp(x)


def _erf(x: np.ndarray) -> np.ndarray:
    return _erf32(flushed(x)) if x.dtype == np.float32 else _erf64(x)


# Compiled float32 code takes a subnormal argument of these for zero (ex2, sqrt and rsqrt .approx.ftz, libdevice with ftz), and
# exp2 gives no subnormal either. exp, log and log2 do not.
_SPECIAL: dict[str, Callable] = {
    "exp": _exp, "log": np.log, "log2": np.log2, "exp2": lambda x: flushed(np.exp2(flushed(x))),
    "sqrt": lambda x: np.sqrt(flushed(x)), "sin": lambda x: np.sin(flushed(x)), "cos": lambda x: np.cos(flushed(x)),
    "rsqrt": lambda x: (1 / np.sqrt(flushed(x).astype(np.float64))).astype(x.dtype), "erf": _erf,
}  # fmt: skip


class Arithmetic:
    """Mixin of the builder: unary, binary and ternary operations. `self.launch` is the running Launch."""

    launch: Any

    # -- elementwise ---------------------------------------------------------------------------------------------------

    def binary_op(self, lhs: Value, rhs: Value, op: Callable) -> Value:
        dtype = lhs.dtype.scalar
        if dtype.is_fp8() and not getattr(op, "extreme", False):
            raise self.launch.mistake("refused", f"no GPU computes in {dtype}; convert it first: x.to(tl.float32)")
        data = op(lhs.data, rhs.data)
        if data.dtype != bool and dtype.is_floating():
            data = narrow(data, dtype)
            self.launch.count_elementwise(data.size)
        doubt = joined(data.shape, lhs.doubt, rhs.doubt)
        if data.dtype == bool:  # a comparison: no part of an address any more
            doubt = without(doubt, WRAPPED)
        return Value(data, tl.int1 if data.dtype == bool else dtype, doubt=doubt)

    def unary_op(self, arg: Value, op: Callable) -> Value:
        return Value(narrow(op(arg.data), arg.dtype.scalar), arg.dtype.scalar, doubt=arg.doubt)

    def _special(self, name: str, arg: Value, op: Callable) -> Value:
        self.launch.count_special(name, arg.data.size)
        return self.unary_op(arg, op)

    def create_fdiv(self, lhs: Value, rhs: Value) -> Value:
        if lhs.dtype.scalar.is_bf16():
            raise self.launch.mistake("refused", "no GPU divides in bf16; write x / y, which goes through float32")
        self.launch.count_special("divide", max(lhs.data.size, rhs.data.size))
        return self.binary_op(lhs, rhs, np.divide)

    create_precise_divf = create_fdiv

    # -- unary ---------------------------------------------------------------------------------------------------------

    def create_iabs(self, arg: Value) -> Value:
        return self.unary_op(arg, np.abs)

    def create_fabs(self, arg: Value) -> Value:
        if arg.dtype.scalar.name not in ("fp8e4nv", "fp8e5"):
            return self.unary_op(arg, np.abs)
        bits = to_memory(arg.data, arg.dtype) & np.uint8(0x7F)  # a NaN keeps its other bits too
        return Value(from_memory(bits, arg.dtype), arg.dtype.scalar, doubt=arg.doubt)

    # -- ternary -------------------------------------------------------------------------------------------------------

    def create_clampf(self, arg: Value, low: Value, high: Value, propagate_nans: Any) -> Value:
        every = "ALL" in str(propagate_nans)
        smaller, larger = (np.minimum, np.maximum) if every else (np.fmin, np.fmax)
        data = smaller_of(smaller)(larger_of(larger)(arg.data, low.data), high.data)
        self.launch.count_elementwise(2 * data.size)
        return Value(data, arg.dtype.scalar, doubt=joined(data.shape, arg.doubt, low.doubt, high.doubt))

    def create_select(self, condition: Value, lhs: Value, rhs: Value) -> Value:
        other = rhs.data  # signs may differ (float atomics do that); numpy would go through float64
        other = other if other.dtype == lhs.data.dtype else other.view(lhs.data.dtype)
        data = np.where(condition.data, lhs.data, other)
        doubt = None
        if condition.doubt is not None or lhs.doubt is not None or rhs.doubt is not None:
            taken = np.where(condition.data, kinds_of(lhs), kinds_of(rhs))
            doubt = joined(data.shape, condition.doubt, Doubt(taken, origins_of([condition, lhs, rhs])))
            doubt = doubt if doubt.kinds.any() else None
        same = lhs.arg if lhs.arg == rhs.arg else None
        return Value(data, lhs.dtype.scalar, arg=same, doubt=doubt)

    def create_fma(self, x: Value, y: Value, z: Value) -> Value:
        dtype = z.dtype.scalar
        if not dtype.is_floating() or dtype.is_fp8():
            raise self.launch.mistake("refused", f"tl.fma takes fp64, fp32, fp16 and bf16, got {dtype}")
        data = fused(x.data, y.data, z.data, dtype)
        self.launch.count_elementwise(2 * data.size)
        return Value(data, dtype, doubt=joined(data.shape, x.doubt, y.doubt, z.doubt))


def _install() -> None:
    """The operations that are one numpy function each, as the methods Triton's frontend calls."""
    floats = {"fadd": np.add, "fsub": np.subtract, "fmul": np.multiply, "frem": remainder}
    others = {"srem": np.fmod, "urem": np.fmod, "lshr": np.right_shift, "xor": np.bitwise_xor}
    smaller = {"minsi": np.minimum, "minui": np.minimum, "minimumf": smaller_of(np.minimum), "minnumf": smaller_of(np.fmin)}
    larger = {"maxsi": np.maximum, "maxui": np.maximum, "maximumf": larger_of(np.maximum), "maxnumf": larger_of(np.fmax)}
    compare = {"LE": np.less_equal, "LT": np.less, "GE": np.greater_equal, "GT": np.greater}
    compared = {f"icmp{sign}{name}": op for name, op in compare.items() for sign in "SU"} | {
        "icmpEQ": np.equal,
        "icmpNE": np.not_equal,
    }
    compared |= {
        f"fcmp{order}{name}": op for name, op in (compare | {"EQ": np.equal, "NE": np.not_equal}).items() for order in "OU"
    }
    for name, op in (floats | others | smaller | larger | compared).items():
        setattr(Arithmetic, f"create_{name}", lambda self, lhs, rhs, op=op: self.binary_op(lhs, rhs, op))
    for name, op in _SPECIAL.items():
        setattr(Arithmetic, f"create_{name}", lambda self, arg, name=name, op=op: self._special(name, arg, op))
    Arithmetic.create_precise_sqrt = lambda self, arg: self._special("sqrt", arg, np.sqrt)
    for name, op in (("floor", lambda x: np.floor(flushed(x))), ("ceil", lambda x: np.ceil(flushed(x)))):
        setattr(Arithmetic, f"create_{name}", lambda self, arg, op=op: self.unary_op(arg, op))


_install()
