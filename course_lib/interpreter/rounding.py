"""Roundings of single operations that numpy does otherwise than a GPU."""

from typing import Any

import numpy as np

from .formats import NARROW, round_to


def narrow(data: np.ndarray, dtype: Any) -> np.ndarray:
    """The result of an operation, rounded to what its type can hold (bf16 and fp8 are computed in float32)."""
    return round_to(data, dtype.name) if dtype.name in NARROW else data


def tf32(values: np.ndarray) -> np.ndarray:
    """float32 with 10 bits of mantissa, to nearest with ties away from zero (PTX cvt.rna.tf32.f32)."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    kept = ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
    return np.where(np.isfinite(values), kept, values)


def float_to_int(values: np.ndarray, target: np.dtype) -> np.ndarray:
    """Towards zero; what does not fit ends at the nearest integer of 32 or 64 bits, and NaN gives 0 (PTX cvt.rzi).

    Narrower integers are converted through 32 bits and cut off, as the compiler does.
    """
    if target == np.bool_:
        return values != 0
    wide = target if target.itemsize >= 4 else np.dtype(f"{target.kind}4")
    limits = np.iinfo(wide)
    whole = np.trunc(values.astype(np.float64))
    inside = np.clip(whole, float(limits.min), float(limits.max))
    top = whole >= float(limits.max)
    result = np.where(top | np.isnan(whole), 0.0, inside).astype(wide)
    return np.where(top, wide.type(limits.max), result).astype(target)
