"""Roundings of single operations that numpy does otherwise than a GPU."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from .format_codes import round_to
from .formats import NARROW
from .numpy_types import computed


def narrow(data: np.ndarray, dtype: Any) -> np.ndarray:
    """The result of an operation, rounded to what its type can hold: bf16 is computed in float32.

    fp8 has no arithmetic: what it does have gives one of the operands, and an infinity among them is no overflow.
    """
    return round_to(data, dtype.name, saturate=False) if dtype.name in NARROW else data


def flushed(values: np.ndarray) -> np.ndarray:
    """float32 subnormals as zeros of their sign, which is what instructions with .ftz take them for; float64 has no such ones."""
    if values.dtype != np.float32:
        return values
    return np.where(np.abs(values) < np.finfo(np.float32).smallest_normal, np.copysign(np.float32(0), values), values)


def remainder(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """% on floats as compiled code has it, not C's fmod: x - trunc(x / y) * y with a rounded quotient and one rounding after.

    The sign of the dividend up to a quotient of about 2**23; an exact multiple gives +0, and where the quotient rounds up to
    a whole number the result has the other sign. fp16 goes through float32.
    """
    wide = np.float64 if x.dtype == np.float64 else np.float32
    x32, y32 = np.broadcast_arrays(x.astype(wide), y.astype(wide))
    quotient = np.trunc(x32 / y32)
    rest = _fused64(-quotient, y32, x32) if wide is np.float64 else _fused_odd(-quotient, y32, x32).astype(np.float32)
    return np.where(np.isinf(y32), x32, rest).astype(x.dtype)


def larger_of(op: Callable) -> Callable:
    """np.maximum or np.fmax, with -0 below +0 as PTX orders them (numpy takes either)."""

    def larger(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        data = op(left, right)
        zero = data == 0
        return np.where(zero & (left == right), left + right, data) if zero.any() else data

    larger.extreme = True  # the only operations that fp8 has
    return larger


def smaller_of(op: Callable) -> Callable:
    """np.minimum or np.fmin, likewise."""

    def smaller(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        data = op(left, right)
        zero = data == 0
        return np.where(zero & (left == right), -(-left - right), data) if zero.any() else data

    smaller.extreme = True
    return smaller


def cut_to_tf32(values: np.ndarray) -> np.ndarray:
    """float32 without its last 13 bits: what a tensor core reads of a float32 factor. A NaN stays one."""
    kept = (np.ascontiguousarray(values).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return np.where(np.isnan(values), values, kept)


def tf32(values: np.ndarray) -> np.ndarray:
    """float32 with 10 bits of mantissa, to nearest with ties away from zero (PTX cvt.rna.tf32.f32), which tf32x3 splits by."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    kept = ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
    return np.where(np.isfinite(values), kept, values)


def to_float(values: np.ndarray, dtype: Any, toward_zero: bool = False) -> np.ndarray:
    """Any number -> a float type, rounded once: to nearest even, or cut towards zero (which then never overflows)."""
    kind = computed(dtype)
    if values.dtype.kind not in "f":
        values = _exact_enough(values) if kind.itemsize < 8 else values
    if dtype.name in NARROW:
        return round_to(values, dtype.name, toward_zero=toward_zero)
    near = values.astype(kind)
    if not toward_zero or values.dtype.itemsize <= kind.itemsize:
        return near
    away = np.abs(near.astype(values.dtype)) > np.abs(values)
    return np.where(away, np.nextafter(near, kind.type(0)), near)


def _exact_enough(whole: np.ndarray) -> np.ndarray:
    """Integers -> float64 that rounds to any float of 32 bits or fewer as the integer would: beyond 53 bits the rest is
    kept as one odd bit (what a cast from int64 through float64 would lose at a tie)."""
    if whole.dtype.itemsize < 8:
        return whole.astype(np.float64)
    low = whole & whole.dtype.type(0x7FF)
    kept = (whole - low) | np.where(low != 0, whole.dtype.type(0x400), whole.dtype.type(0))
    small = np.abs(whole.astype(np.float64)) < 2.0**52
    return np.where(small, whole, kept).astype(np.float64)


def fused(x: np.ndarray, y: np.ndarray, z: np.ndarray, dtype: Any) -> np.ndarray:
    """x * y + z rounded once, as the fma instruction does."""
    if x.dtype == np.float64:
        return _fused64(x, y, z)
    return to_float(_fused_odd(x, y, z), dtype)


def _fused_odd(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """x * y + z of float32 or fewer bits as a float64 rounded to odd, which rounds to any of these types as the sum would."""
    product, wide = x.astype(np.float64) * y.astype(np.float64), z.astype(np.float64)  # at most 48 bits: exact
    total = product + wide
    part = total - product
    lost = (product - (total - part)) + (wide - part)  # what the float64 sum left out, exactly
    bits = total.view(np.int64)
    # round to odd: an even last bit with something left out moves one step towards what was left out
    step = np.where((lost > 0) == (total > 0), 1, -1)
    return np.where((lost != 0) & np.isfinite(lost) & (bits & 1 == 0), bits + step, bits).view(np.float64)


def _fused64(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """float64 by exact fractions: slow, and rare in kernels."""
    x, y, z = np.broadcast_arrays(x, y, z)
    plain = x * y + z
    out = plain.copy()
    for i in np.ndindex(x.shape):
        if np.isfinite(x[i]) and np.isfinite(y[i]) and np.isfinite(z[i]):
            exact = Fraction(float(x[i])) * Fraction(float(y[i])) + Fraction(float(z[i]))
            try:
                out[i] = float(exact) if exact else plain[i]  # an exact zero keeps the sign of the plain sum
            except OverflowError:
                out[i] = np.copysign(np.inf, 1.0 if exact > 0 else -1.0)
    return out


def float_to_int(values: np.ndarray, target: np.dtype) -> np.ndarray:
    """Towards zero, as PTX's cvt.rzi: what does not fit ends at the nearest integer of the type converted to.

    8 bits are the low half of a conversion to 16 bits, as the compiler does it. NaN gives 0, but the top bit alone where
    the source or the target has 64 bits (PTX ISA, cvt). Not here: of two neighbours cast to uint8 that one thread holds,
    Triton 3.6 and 3.7 write the upper half of the first over the second where the first is 256 or more.
    """
    if target == np.bool_:
        return values != 0
    wide = target if target.itemsize >= 2 else np.dtype(f"{target.kind}2")
    limits = np.iinfo(wide)
    whole = np.trunc(values.astype(np.float64))
    top = whole >= float(limits.max)
    nan = np.isnan(whole)
    inside = np.where(top | nan, 0.0, np.clip(whole, float(limits.min), float(limits.max))).astype(wide)
    result = np.where(top, wide.type(limits.max), inside)
    if nan.any() and 8 in (values.dtype.itemsize, wide.itemsize):
        top_bit = np.array(1 << (limits.bits - 1), f"u{wide.itemsize}").view(wide)
        result = np.where(nan, top_bit, result)
    return result.astype(target)
