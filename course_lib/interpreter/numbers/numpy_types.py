"""Triton types as numpy types: what a value is computed in, and what it is stored as."""

from typing import Any

import numpy as np

from .format_codes import decode, encode
from .formats import NARROW

COMPUTED = {
    "int1": np.dtype(bool),
    **{name: np.dtype(name) for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")},
    "fp16": np.dtype(np.float16),
    "fp32": np.dtype(np.float32),
    "fp64": np.dtype(np.float64),
    **{name: np.dtype(np.float32) for name in NARROW},  # rounded after each operation
}
ADDRESS = np.dtype(np.uint64)


def computed(dtype: Any) -> np.dtype:
    """The numpy type in which values of a Triton type (scalar, pointer or block) are computed."""
    scalar = dtype.scalar
    return ADDRESS if scalar.is_ptr() else COMPUTED[scalar.name]


def stored(dtype: Any) -> np.dtype:
    """The numpy type whose bits lie in memory: uint16 for bf16, uint8 for fp8 and int1, else as computed."""
    scalar = dtype.scalar
    if scalar.is_ptr():
        return ADDRESS
    if scalar.name in NARROW:
        return NARROW[scalar.name].storage
    return np.dtype(np.uint8) if scalar.name == "int1" else COMPUTED[scalar.name]


def from_memory(bits: np.ndarray, dtype: Any) -> np.ndarray:
    """Bits as they lie in memory -> values to compute with."""
    name = dtype.scalar.name
    if name in NARROW:
        return decode(bits, name)
    return bits != 0 if name == "int1" else bits


def to_memory(values: np.ndarray, dtype: Any) -> np.ndarray:
    """Values -> the bits that lie in memory."""
    scalar = dtype.scalar
    if scalar.is_ptr():
        return values
    if scalar.name in NARROW:
        return encode(values, scalar.name, saturate=False)  # a copy: the value is one that the format has
    return values.astype(stored(dtype), copy=False)
