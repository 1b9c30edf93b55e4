"""Casts between numbers and the codes of a narrow format: decode and encode, and the rounding alone.

Layout  arrays of any shape, also 0-d; the result has the same shape and never shares memory with the argument.
Rules   what compiled Triton does with a float32 on sm_90 (and on gfx942 for fp8e4b8 and fp8e5b16): one rounding, to nearest
        even. On sm_80 to sm_89 it cuts float32 down to fp16 first, so a value just above a tie may fall the other way.
NaN     decode gives each NaN code its own payload, so that a copy changes no code. A cast makes any NaN the code that
        `cvt` writes (positive, all ones), whatever its sign and payload; bf16 keeps the upper half of any NaN instead.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .formats import codes_of, format_of, values_of

# 0-d arrays: a Python int would cost a conversion in each of the calls below, which run after every bf16 operation
_ZERO, _ONE, _SIXTEEN = (np.array(n, np.uint32) for n in (0, 1, 16))
_BELOW_HALF, _UPPER, _LOWER = (np.array(n, np.uint32) for n in (0x7FFF, 0xFFFF0000, 0xFFFF))
_FLOAT32 = np.dtype(np.float32)  # compared in half the time that np.float32 takes
_INF_DOUBLED = 0xFF000000  # the bits of inf without its sign, shifted left by one: NaNs lie above


def decode(bits: ArrayLike, name: str) -> NDArray[np.float32]:
    """Codes (integers of the format's width) -> the values they stand for, all exact."""
    form, codes = format_of(name), np.asarray(bits)
    if codes.dtype.kind not in "iu" or codes.dtype.itemsize != form.storage.itemsize:
        raise TypeError(f"{name} codes are {form.storage}, got {codes.dtype}; pass the bits, as x.view(np.{form.storage})")
    codes = codes.view(form.storage)
    if name == "bf16":
        wide = np.asarray(codes.astype(np.uint32))
        return np.asarray(np.left_shift(wide, _SIXTEEN)).view(np.float32)
    return np.asarray(values_of(name)[codes])


def encode(
    values: ArrayLike, name: str, *, toward_zero: bool = False, saturate: bool | None = None
) -> NDArray[np.uint8] | NDArray[np.uint16]:
    """float16, float32 or float64 -> codes, rounded once (float64 too: it passes through float32 rounded to odd).

    toward_zero  cut instead of rounding to nearest even; a finite value then never overflows. fp8e4b15 ignores it.
    saturate     True: overflow and inf become max_finite. False: they become inf, NaN where the format has no inf, and 1.875
                 in fp8e4b15, which has neither. None: what a compiled cast does, which is `Format.saturates`; toward
                 zero, inf stays inf where there is one.
    A store is no cast: with saturate=False values that are of the format already get the very codes that decode read, those
    of NaNs too; any other `saturate` writes the format's first NaN code for every NaN.
    """
    form, wide = format_of(name), _float32_bits(values)
    if name == "bf16":
        rounded = _cut_bf16(wide) if toward_zero else _round_bf16(wide)
        codes = np.asarray(np.right_shift(rounded, _SIXTEEN).astype(form.storage))
        return np.asarray(np.where(codes & 0x7FFF == form.inf_code, codes - 1, codes)) if saturate else codes
    copies = saturate is False
    if saturate is None:
        saturate = not form.has_inf if toward_zero else form.saturates
    # the upper half of a float32, odd where the lower half is not zero, still tells both sides of every fp8 tie apart
    upper = np.bitwise_or(np.right_shift(wide, _SIXTEEN), np.bitwise_and(wide, _LOWER) != _ZERO)
    return np.asarray(codes_of(name, toward_zero, saturate, copies)[upper])


def round_to(values: ArrayLike, name: str, *, toward_zero: bool = False, saturate: bool | None = None) -> NDArray[np.float32]:
    """Values -> the nearest values of the format, as float32. Options as in encode; nothing warns, whatever comes in."""
    if name == "bf16" and not toward_zero and not saturate:
        return _round_bf16(_float32_bits(values)).view(np.float32)
    return decode(encode(values, name, toward_zero=toward_zero, saturate=saturate), name)


def _float32_bits(values: ArrayLike) -> NDArray[np.uint32]:
    """Bits of a float32 that rounds to any narrow format as `values` would; may share memory with them."""
    array = np.asarray(values)
    if array.dtype == _FLOAT32:
        return array.view(np.uint32)
    if array.dtype not in (np.float16, np.float64):
        raise TypeError(f"a cast to a narrow float takes float16, float32 or float64, got {array.dtype}; convert it first")
    with np.errstate(all="ignore"):
        nearest = np.asarray(array.astype(np.float32))
        if array.dtype == np.float16:
            return nearest.view(np.uint32)
        too_far = np.abs(nearest) > np.abs(array)
        inexact = (nearest != array) & ~np.isnan(array)
    return np.asarray(nearest.view(np.uint32) - too_far | inexact)  # cut, then made odd: never on a tie by accident


def _round_bf16(wide: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Adds just under half of the last bf16 place, or half where that place is odd, and cuts."""
    # two buffers in turn: numpy takes a slow path where a single element is overwritten in place
    one, two = np.empty(wide.shape, np.uint32), np.empty(wide.shape, np.uint32)
    if wide.size and int(np.add(wide, wide, out=one).max()) > _INF_DOUBLED:
        is_nan = np.asarray(one > _INF_DOUBLED)
        return np.where(is_nan, _cut_bf16(wide), _round_bf16(np.where(is_nan, np.uint32(0), wide)))
    np.right_shift(wide, _SIXTEEN, out=one)
    np.bitwise_and(one, _ONE, out=two)
    np.add(two, _BELOW_HALF, out=one)
    np.add(one, wide, out=two)
    return np.bitwise_and(two, _UPPER, out=one)


def _cut_bf16(wide: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The upper half; a NaN whose payload lies in the lower half becomes a quiet one, not inf."""
    cut = np.asarray(wide & _UPPER)
    lost = (cut & 0x7FFFFFFF == 0x7F800000) & (wide != cut)
    return np.asarray(cut | np.where(lost, np.uint32(0x400000), np.uint32(0)))
