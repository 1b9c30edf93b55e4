"""Narrow float formats as data: what bf16 and the fp8 types can hold, under Triton's names, and the fp8 codes as tables.

numpy has neither, so the interpreter holds such values as float32 and rounds after every operation (format_codes.py).
Sources  OCP 8-bit Floating Point Specification (E4M3, E5M2); PTX ISA, `cvt`, for what a cast does with overflow and NaN
"""

from dataclasses import dataclass, field
from functools import cache

import numpy as np
from numpy.typing import NDArray


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

def format_of(name: str) -> Format:
    """The format that Triton calls `name`; ValueError for one that is not narrow."""
    try:
        return NARROW[name]
    except KeyError:
        raise ValueError(f"{name!r} is no narrow float format; use one of {list(NARROW)}") from None


@cache
def values_of(name: str) -> NDArray[np.float32]:
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
def codes_of(name: str, toward_zero: bool, saturate: bool, copies: bool) -> NDArray[np.uint8]:
    """The fp8 code for each upper half of a float32 (65536 of them), found by comparing with every value of the format."""
    form = NARROW[name]
    halves = np.arange(0x8000, dtype=np.uint32) << 16
    with np.errstate(invalid="ignore"):  # signalling NaNs
        wide = halves.view(np.float32).astype(np.float64)
    values = values_of(name)[:128].astype(np.float64)
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
        table[values_of(name).view(np.uint32)[code] >> 16] = code
    table.flags.writeable = False
    return table
