"""Inputs and outputs as bit patterns: equal on every numpy, torch and device, whatever a library rounds to.

Layout   Bits.data holds unsigned integers of the type's width; `values` reads them as float64 (integers as they are).
Random   numpy's PCG64 through `integers` alone, whose stream numpy promises to keep for a seed; floats are made from these bits.
"""

from dataclasses import dataclass

import numpy as np

_WIDTH = {
    "fp64": 64, "fp32": 32, "fp16": 16, "bf16": 16, "fp8e4nv": 8, "fp8e5": 8, "int1": 8,
    "int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64,
}  # fmt: skip
FLOATS = ("fp64", "fp32", "fp16", "bf16", "fp8e4nv", "fp8e5")


def storage(dtype: str) -> np.dtype:
    return np.dtype(f"u{_WIDTH[dtype] // 8}")


@dataclass(frozen=True)
class Bits:
    """A tensor's bit pattern. dtype: Triton's name for the type; data: unsigned integers, any shape."""

    dtype: str
    data: np.ndarray

    def __post_init__(self) -> None:
        assert self.data.dtype == storage(self.dtype), f"{self.dtype} is stored as {storage(self.dtype)}, got {self.data.dtype}"

    def values(self) -> np.ndarray:
        """What the bits mean: float64 for float types, else the integer type itself."""
        if self.dtype in ("fp64", "fp32", "fp16"):
            narrow = self.data.view({"fp64": "f8", "fp32": "f4", "fp16": "f2"}[self.dtype])
        elif self.dtype == "bf16":
            narrow = (self.data.astype(np.uint32) << 16).view(np.float32)
        elif self.dtype in _FP8:
            return _FP8[self.dtype][self.data]
        else:
            return self.data.view("u1" if self.dtype == "int1" else self.dtype)
        with np.errstate(invalid="ignore"):  # said of a signalling NaN
            return narrow.astype(np.float64)

    def canonical(self) -> np.ndarray:
        """The bits with every NaN of a type of 16 bits or more made one: its payload and sign are no part of the claims."""
        if self.dtype not in ("fp64", "fp32", "fp16", "bf16"):
            return self.data
        nan = {"fp64": 0x7FF8 << 48, "fp32": 0x7FC00000, "fp16": 0x7E00, "bf16": 0x7FC0}[self.dtype]
        return np.where(np.isnan(self.values()), self.data.dtype.type(nan), self.data)


def floats(dtype: str, values: np.ndarray) -> Bits:
    """Values that the type holds exactly (fp8 has no encoder here on purpose: give codes)."""
    values = np.asarray(values, np.float64)
    with np.errstate(over="ignore"):
        if dtype == "bf16":
            wide = values.astype(np.float32).view(np.uint32)
            bits = Bits(dtype, (wide >> 16).astype(np.uint16))
        else:
            narrow = values.astype({"fp64": "f8", "fp32": "f4", "fp16": "f2"}[dtype])
            bits = Bits(dtype, narrow.view(storage(dtype)))
    back = bits.values()
    assert np.array_equal(back, values, equal_nan=True), f"{values[back != values][:3]} is no {dtype}"
    return bits


def integers(dtype: str, values: np.ndarray | list) -> Bits:
    return Bits(dtype, np.asarray(values).astype("u1" if dtype == "int1" else dtype).view(storage(dtype)))


def random_bits(dtype: str, shape: tuple[int, ...], seed: int) -> Bits:
    """Every code alike: NaN, inf and subnormals too."""
    return Bits(dtype, np.random.default_rng(seed).integers(0, 1 << _WIDTH[dtype], shape, dtype=storage(dtype)))


def uniform(dtype: str, shape: tuple[int, ...], seed: int, steps: int = 7) -> Bits:
    """Multiples of 2**-steps in [-1, 1); exact in a type with at least `steps` bits of mantissa."""
    whole = np.random.default_rng(seed).integers(-(1 << steps), 1 << steps, shape)
    return floats(dtype, whole / (1 << steps))


def wide(dtype: str, shape: tuple[int, ...], seed: int, exponent: int = 8) -> Bits:
    """+-m * 2**e with m of 8 bits (4 or 3 for fp8) and e uniform in [-exponent, exponent]: sums that cancel and swamp."""
    rng = np.random.default_rng(seed)
    if dtype in _FP8:
        bias, shift = {"fp8e4nv": (7, 3), "fp8e5": (15, 2)}[dtype]
        field = rng.integers(bias - min(exponent, bias - 1), bias + min(exponent, bias - 1), shape)
        code = (rng.integers(0, 2, shape) << 7) | (field << shift) | rng.integers(0, 1 << shift, shape)
        return Bits(dtype, code.astype(np.uint8))
    mantissa = rng.integers(128, 256, shape) / 128
    sign, power = rng.integers(0, 2, shape) * 2 - 1, rng.integers(-exponent, exponent + 1, shape)
    return floats(dtype, sign * mantissa * 2.0**power)


def small_integers(dtype: str, shape: tuple[int, ...], seed: int, limit: int = 3) -> Bits:
    """Whole numbers in [-limit, limit]: every product and sum in a short dot is exact, in any order."""
    whole = np.random.default_rng(seed).integers(-limit, limit + 1, shape)
    if dtype in _FP8:
        codes = {float(v): c for c, v in enumerate(_FP8[dtype][:128])}
        table = np.array([codes[abs(float(v))] | (0x80 if v < 0 else 0) for v in range(-limit, limit + 1)], np.uint8)
        return Bits(dtype, table[whole + limit])
    return floats(dtype, whole) if dtype in FLOATS else integers(dtype, whole)


def all_codes(dtype: str) -> Bits:
    return Bits(dtype, np.arange(1 << _WIDTH[dtype], dtype=np.uint32).astype(storage(dtype)))


def fp32_edges() -> Bits:
    """[8192] float32: specials; every value and every midpoint of the narrow types with its two neighbours; random bits."""
    specials = [0, 1, 2, 0x7FFFFF, 0x800000, 0x3F800000, 0x3F800001, 0x3F7FFFFF, 0x7F7FFFFF, 0x7F800000, 0x7F7F7FFF, 0x7F7F8000,
                0x7F800001, 0x7FA00000, 0x7FC00000, 0x7FC00001, 0x7FFFFFFF,
                0x3F808000, 0x3F818000, 0x3F807FFF, 0x3F808001]  # fmt: skip
    exact = []
    for table in _FP8.values():
        points = np.unique(table[np.isfinite(table) & (table >= 0)])
        exact += [points, (points[1:] + points[:-1]) / 2]
    exact.append(np.array([464.0, 480.0, 512.0, 61440.0, 65504.0, 65520.0, 65536.0, 2.0**-24, 2.0**-25, 3 * 2.0**-25, 2.0**-14]))
    exact.append(2.0 ** np.arange(-134, -125))
    at = np.concatenate(exact).astype(np.float32).view(np.uint32)
    near = np.concatenate([at, at + 1, at[at > 0] - 1, np.array(specials, np.uint32)])
    both = np.unique(np.concatenate([near, near | np.uint32(0x80000000)]))
    return Bits("fp32", np.concatenate([both, random_bits("fp32", (8192 - len(both),), 11).data]))


def special_values(dtype: str) -> Bits:
    """[32] of a type of 16 bits or more: zeros, subnormals, one, largest, inf, NaN, with both signs."""
    one, inf = {"fp32": (0x3F800000, 0x7F800000), "fp16": (0x3C00, 0x7C00), "bf16": (0x3F80, 0x7F80)}[dtype]
    top = 1 << (_WIDTH[dtype] - 1)
    step = {"fp32": 0x800000, "fp16": 0x400, "bf16": 0x80}[dtype]
    codes = [0, 1, step - 1, step, step + 3, one - 1, one, one + 1, one + step, one + step // 2, one + 5 * step + 3, inf - step,
             inf - 1, inf, inf | (step >> 1), inf | (step >> 1) | 1]  # fmt: skip
    return Bits(dtype, np.array(codes + [code | top for code in codes], np.uint64).astype(storage(dtype)))


def pairs(dtype: str, seed: int) -> tuple[Bits, Bits]:
    """Two [2048]: each special value with each, then pairs whose exponents are near enough to meet in one sum."""
    special = special_values(dtype).data
    left, right = np.repeat(special, 32), np.tile(special, 32)
    near = [wide(dtype, (1024,), seed + i, 5).data for i in (0, 1)]
    if dtype == "fp32":
        near = [bits | random_bits(dtype, (1024,), seed + 2 + i).data >> 17 for i, bits in enumerate(near)]
    return Bits(dtype, np.concatenate([left, near[0]])), Bits(dtype, np.concatenate([right, near[1]]))


def _fp8_table(bias: int, mantissa_bits: int, has_inf: bool) -> np.ndarray:
    code = np.arange(256)
    field, fraction = (code & 0x7F) >> mantissa_bits, code & ((1 << mantissa_bits) - 1)
    top = (1 << (7 - mantissa_bits)) - 1
    unit = 2.0**-mantissa_bits
    value = np.where(field > 0, (1 + fraction * unit) * 2.0 ** (field - bias), fraction * unit * 2.0 ** (1 - bias))
    if has_inf:
        value = np.where(field == top, np.where(fraction == 0, np.inf, np.nan), value)
    else:
        value = np.where((code & 0x7F) == 0x7F, np.nan, value)
    return np.where(code & 0x80, -value, value)


_FP8 = {"fp8e4nv": _fp8_table(7, 3, False), "fp8e5": _fp8_table(15, 2, True)}
