"""Roundings of single operations that numpy does otherwise than a GPU."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from .formats import NARROW, round_to
from .numpy_types import computed


def narrow(data: np.ndarray, dtype: Any) -> np.ndarray:
    """The result of an operation, rounded to what its type can hold (bf16 and fp8 are computed in float32)."""
    return round_to(data, dtype.name) if dtype.name in NARROW else data


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


def tf32(values: np.ndarray) -> np.ndarray:
    """float32 with 10 bits of mantissa, to nearest with ties away from zero (PTX cvt.rna.tf32.f32)."""
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
    product, wide = x.astype(np.float64) * y.astype(np.float64), z.astype(np.float64)  # at most 48 bits: exact
    total = product + wide
    part = total - product
    lost = (product - (total - part)) + (wide - part)  # what the float64 sum left out, exactly
    bits = total.view(np.int64)
    # round to odd: an even last bit with something left out moves one step towards what was left out
    step = np.where((lost > 0) == (total > 0), 1, -1)
    odd = np.where((lost != 0) & np.isfinite(lost) & (bits & 1 == 0), bits + step, bits).view(np.float64)
    return to_float(odd, dtype)


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
    the source or the target has 64 bits (PTX ISA, cvt).
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
