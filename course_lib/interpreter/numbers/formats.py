"""Narrow float formats, bit for bit: what bf16 and fp8 values are, and what storing a number in them does.

Why     numpy has neither, so the interpreter holds such values as float32 and rounds after every operation. A GPU does the
        same with the same rules; here they are as data (NARROW), as casts (encode, decode), as the rounding alone
        (round_to), and as the unit in which tests state errors (ulp_distance). Names are Triton's.
Layout  arrays of any shape, also 0-d; the result has the same shape and never shares memory with the argument.
Rules   what compiled Triton does with a float32 on sm_90 (and on gfx942 for fp8e4b8 and fp8e5b16): one rounding, to nearest
        even. On sm_80 to sm_89 it cuts float32 down to fp16 first, so a value just above a tie may fall the other way.
NaN     decode gives each NaN code its own payload, so that a copy changes no code. A cast makes any NaN the code that
        `cvt` writes (positive, all ones), whatever its sign and payload; bf16 keeps the upper half of any NaN instead.
"""

from dataclasses import dataclass, field
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, slots=True)
class Format:
    """sign | exponent | mantissa, from the top bit down."""

    name: str
    bits: int
    exponent_bits: int
    mantissa_bits: int
    bias: int
    max_finite: float  # the largest value that rounding gives
    has_inf: bool
    saturates: bool  # a compiled cast turns overflow and inf into max_finite
    nan_codes: tuple[int, ...] = field(repr=False)  # the first is the one written for a NaN; none: NaN becomes max_finite
    storage: np.dtype

    @property
    def min_exponent(self) -> int:
        """Exponent of the smallest normal number; subnormals share its spacing."""
        return 1 - self.bias

    @property
    def sign_bit(self) -> int:
        return 1 << (self.bits - 1)

    @property
    def inf_code(self) -> int | None:
        return ((1 << self.exponent_bits) - 1) << self.mantissa_bits if self.has_inf else None

    @property
    def has_negative_zero(self) -> bool:
        return self.sign_bit not in self.nan_codes


_U8, _U16 = np.dtype(np.uint8), np.dtype(np.uint16)
_BF16_MAX = float.fromhex("0x1.fep127")
_BF16_NANS = (0x7FFF, *range(0x7F81, 0x7FFF), *range(0xFF81, 0x10000))
NARROW: dict[str, Format] = {
    f.name: f
    for f in (
        Format("bf16", 16, 8, 7, 127, _BF16_MAX, True, False, _BF16_NANS, _U16),
        Format("fp8e4nv", 8, 4, 3, 7, 448.0, False, True, (0x7F, 0xFF), _U8),  # OCP E4M3
        # OCP E5M2. `cvt.rn.satfinite` turns overflow and inf into 57344, torch into inf: set `saturates` to flip it
        Format("fp8e5", 8, 5, 2, 15, 57344.0, True, True, (0x7F, 0x7D, 0x7E, 0xFD, 0xFE, 0xFF), _U8),
        # AMD's: no inf, no -0, one NaN. Triton sets FP16_OVFL on gfx942, which clamps; torch makes overflow NaN
        Format("fp8e4b8", 8, 4, 3, 8, 240.0, False, True, (0x80,), _U8),
        Format("fp8e5b16", 8, 5, 2, 16, 57344.0, False, True, (0x80,), _U8),
        # Triton's own, for GPUs without fp8: fp16 halved. No inf, no NaN; 0x7f reads as 1.875, but casts stop at 1.75
        # (NaN included), round ties away from zero, and ignore the rounding mode that the kernel asks for
        Format("fp8e4b15", 8, 4, 3, 15, 1.75, False, True, (), _U8),
    )
}
_WIDE = {"fp16": np.float16, "fp32": np.float32, "fp64": np.float64}

# 0-d arrays: a Python int would cost a conversion in each of the calls below, which run after every bf16 operation
_ZERO, _ONE, _SIXTEEN = (np.array(n, np.uint32) for n in (0, 1, 16))
_BELOW_HALF, _UPPER, _LOWER = (np.array(n, np.uint32) for n in (0x7FFF, 0xFFFF0000, 0xFFFF))
_FLOAT32 = np.dtype(np.float32)  # compared in half the time that np.float32 takes
_INF_DOUBLED = 0xFF000000  # the bits of inf without its sign, shifted left by one: NaNs lie above


def format_of(name: str) -> Format:
    """The format that Triton calls `name`; ValueError for one that is not narrow."""
    try:
        return NARROW[name]
    except KeyError:
        raise ValueError(f"{name!r} is no narrow float format; use one of {list(NARROW)}") from None


def decode(bits: ArrayLike, name: str) -> NDArray[np.float32]:
    """Codes (integers of the format's width) -> the values they stand for, all exact."""
    form, codes = format_of(name), np.asarray(bits)
    if codes.dtype.kind not in "iu" or codes.dtype.itemsize != form.storage.itemsize:
        raise TypeError(f"{name} codes are {form.storage}, got {codes.dtype}; pass the bits, as x.view(np.{form.storage})")
    codes = codes.view(form.storage)
    if name == "bf16":
        wide = np.asarray(codes.astype(np.uint32))
        return np.asarray(np.left_shift(wide, _SIXTEEN)).view(np.float32)
    return np.asarray(_values(name)[codes])


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
    return np.asarray(_codes(name, toward_zero, saturate, copies)[upper])


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


@cache
def _values(name: str) -> NDArray[np.float32]:
    """The value of each of the 256 codes."""
    form, codes = NARROW[name], np.arange(256)
    exponent = (codes & 0x7F) >> form.mantissa_bits
    mantissa = codes & ((1 << form.mantissa_bits) - 1)
    significand = np.where(exponent > 0, mantissa + (1 << form.mantissa_bits), mantissa).astype(np.float64)
    magnitude = np.ldexp(significand, np.maximum(exponent, 1) - form.bias - form.mantissa_bits)
    if form.has_inf:
        magnitude[codes & 0x7F == form.inf_code] = np.inf
    values = np.where(codes & form.sign_bit, -magnitude, magnitude).astype(np.float32)
    for place, code in enumerate(form.nan_codes):  # quiet NaNs, 0x7fc00000 and up, that encode can tell apart
        values.view(np.uint32)[code] = (0xFFC00000 if code & 0x80 and place else 0x7FC00000) + (place << 16)
    values.flags.writeable = False
    return values


@cache
def _codes(name: str, toward_zero: bool, saturate: bool, copies: bool) -> NDArray[np.uint8]:
    """The fp8 code for each upper half of a float32 (65536 of them), found by comparing with every value of the format."""
    form = NARROW[name]
    halves = np.arange(0x8000, dtype=np.uint32) << 16
    with np.errstate(invalid="ignore"):  # signalling NaNs
        wide = halves.view(np.float32).astype(np.float64)
    values = _values(name)[:128].astype(np.float64)
    bounded = saturate or form.has_inf or form.nan_codes
    top = int(np.flatnonzero(values == form.max_finite)[0]) if bounded else 127
    values = np.append(values[: top + 1], 2 * values[top] - values[top - 1])  # and the one that would come next
    ties = (values[1:] + values[:-1]) / 2
    if name == "fp8e4b15":
        codes = np.searchsorted(ties, wide, side="right")
    elif toward_zero:
        codes = np.minimum(np.searchsorted(values, wide, side="right") - 1, top)
    else:
        codes = np.searchsorted(ties, wide, side="left")
        codes += (codes & 1) & np.isin(wide, ties)
    overflow = top if saturate or not bounded else form.inf_code if form.has_inf else form.nan_codes[0]
    codes = np.where((codes > top) | np.isinf(wide), overflow, codes)
    codes = np.where(np.isnan(wide), form.nan_codes[0] if form.nan_codes else top, codes)
    negative = np.where((codes > 0) | form.has_negative_zero, codes | form.sign_bit, codes)
    if form.nan_codes:
        negative = np.where(np.isnan(wide), form.nan_codes[0], negative)
    table = np.concatenate([codes, negative]).astype(form.storage)
    for code in form.nan_codes if copies else ():
        table[_values(name).view(np.uint32)[code] >> 16] = code
    table.flags.writeable = False
    return table


def ulp_distance(got: ArrayLike, exact: ArrayLike, name: str) -> NDArray[np.float64]:
    """How far values of a format lie from float64 results, in units of the format's last place at `exact`.

    Correct rounding to nearest gives at most 0.5. `name`: a narrow format, or "fp16", "fp32", "fp64".
    NaN            0 from NaN, infinitely far from all else.
    exact is inf   0 from what the format makes of it (inf, or max_finite if it saturates), infinitely far from all else.
    beyond range   a saturating format measures from max_finite. In others inf counts as the value that would follow
                   max_finite: fp16 65504 has 32 as its last place, so 65504 and inf are both 0.5 from 65520.
    Raises ValueError when `got` holds a value that the format does not have.
    """
    got, exact = np.broadcast_arrays(np.asarray(got, np.float64), np.asarray(exact, np.float64))
    if name in _WIDE:
        info = np.finfo(_WIDE[name])
        mantissa_bits, min_exponent, max_finite, saturates = info.nmant, int(info.minexp), float(info.max), False
        with np.errstate(all="ignore"):
            held = got.astype(_WIDE[name]) == got
    else:
        form = format_of(name)
        mantissa_bits, min_exponent = form.mantissa_bits, form.min_exponent
        max_finite, saturates = form.max_finite, form.saturates
        held = np.isin(got, _values(name)) if form.bits == 8 else round_to(got, name) == got
    wrong = ~(held | np.isnan(got))
    if wrong.any():
        first = np.argwhere(wrong)[0].tolist()
        raise ValueError(f"got[{first}] = {got[wrong][0]!r} is no {name} value; round it first, or name the format it is in")

    def last_place(x: NDArray[np.float64]) -> NDArray[np.float64]:
        exponent = np.where(x == 0, min_exponent, np.frexp(x)[1] - 1)
        return np.ldexp(1.0, np.maximum(exponent, min_exponent) - mantissa_bits)

    with np.errstate(all="ignore"):
        edge = np.float64(max_finite) if saturates else max_finite + last_place(np.float64(max_finite))
        reached = got if saturates else np.clip(got, -edge, edge)
        place = last_place(np.clip(exact, -max_finite, max_finite))
        distance = np.abs(reached - np.clip(exact, -edge, edge)) / place
        limit = np.where(saturates, np.copysign(max_finite, exact), exact)
        distance = np.where(np.isinf(exact), np.where(got == limit, 0.0, np.inf), distance)
    both, either = np.isnan(got) & np.isnan(exact), np.isnan(got) | np.isnan(exact)
    return np.where(both, 0.0, np.where(either, np.inf, distance))
