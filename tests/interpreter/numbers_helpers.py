"""What the number tests share: types by name, hard values of each, torch tensors that hold them, and the limit in ulps.

Values travel as float64 (or int64) arrays of numpy; `tensor` stores them bit for bit, `values` reads them back.
"""

from typing import Any

import numpy as np
import pytest
import torch
import triton.language as tl
from hypothesis import settings
from hypothesis import strategies as st

from course_lib.interpreter import switch
from course_lib.interpreter.numbers.format_codes import decode, encode, round_to
from course_lib.interpreter.numbers.formats import NARROW

from .ulps import ulp_distance

MODEST, MANY = settings(deadline=None, max_examples=12), settings(deadline=None, max_examples=60)
TORCH = {
    "fp64": torch.float64, "fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16,
    "fp8e4nv": torch.float8_e4m3fn, "fp8e5": torch.float8_e5m2,
    "int8": torch.int8, "int16": torch.int16, "int32": torch.int32, "int64": torch.int64,
    "uint8": torch.uint8, "uint16": torch.uint16, "uint32": torch.uint32, "uint64": torch.uint64, "int1": torch.bool,
}  # fmt: skip
TRITON = {
    "fp64": tl.float64, "fp32": tl.float32, "fp16": tl.float16, "bf16": tl.bfloat16,
    "fp8e4nv": tl.float8e4nv, "fp8e5": tl.float8e5,
    "int8": tl.int8, "int16": tl.int16, "int32": tl.int32, "int64": tl.int64,
    "uint8": tl.uint8, "uint16": tl.uint16, "uint32": tl.uint32, "uint64": tl.uint64, "int1": tl.int1,
}  # fmt: skip
FLOATS = ("fp64", "fp32", "fp16", "bf16")
FP8 = ("fp8e4nv", "fp8e5")
INTS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
NUMPY = {name: np.dtype(name) for name in INTS} | {
    "fp64": np.dtype(np.float64), "fp32": np.dtype(np.float32), "fp16": np.dtype(np.float16), "int1": np.dtype(bool),
}  # fmt: skip
_SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 3.0, 1 / 3, 448.0, 464.0, 57344.0, 65504.0, 65520.0, 1e30]


@pytest.fixture(autouse=True)
def interpreted():
    """Every test here runs in the course's interpreter, with all its checks on: a false alarm fails the test."""
    with switch.interpreting():
        yield


def rounded(data: Any, name: str) -> np.ndarray:
    """float64 -> the nearest values of a format, as float64."""
    data = np.asarray(data, np.float64)
    with np.errstate(all="ignore"):
        if name in NARROW:
            return round_to(data, name).astype(np.float64)
        return data.astype(NUMPY[name]).astype(np.float64)


def tensor(data: Any, name: str) -> torch.Tensor:
    """Values that the type has -> a tensor with exactly their bits."""
    data = np.ascontiguousarray(data)
    if name in NARROW:
        bits = encode(data.astype(np.float64), name, saturate=False)
        return torch.from_numpy(bits.view(f"i{bits.itemsize}").copy()).view(TORCH[name])
    with np.errstate(all="ignore"):
        return torch.from_numpy(data.astype(NUMPY[name]))


def empty(shape: Any, name: str) -> torch.Tensor:
    return torch.empty(shape, dtype=TORCH[name])


def values(result: torch.Tensor, name: str) -> np.ndarray:
    """A tensor -> float64 for floats, numpy's own type for integers."""
    if name in NARROW:
        bits = result.view(torch.int8 if NARROW[name].bits == 8 else torch.int16).numpy()
        return decode(bits.view(NARROW[name].storage), name).astype(np.float64)
    data = result.numpy()
    with np.errstate(invalid="ignore"):  # a signalling NaN, which is what random bits can be, becomes a quiet one
        return data.astype(np.float64) if name in FLOATS else data


def random_floats(rng: np.random.Generator, size: int, name: str, special: bool = True, spread: float = 3.0) -> np.ndarray:
    """Values of a format over many magnitudes; with `special` also zeros, infinities, NaN, subnormals and the largest value."""
    data = rng.standard_normal(size) * 2.0 ** rng.normal(0, spread, size)
    if special:
        form = NARROW.get(name)
        tiny = 2.0 ** (form.min_exponent - form.mantissa_bits) if form else float(np.finfo(NUMPY[name]).smallest_subnormal)
        most = form.max_finite if form else float(np.finfo(NUMPY[name]).max)
        pool = np.array([*_SPECIAL, tiny, -3 * tiny, most, -most])
        chosen = rng.random(size) < 0.4
        data = np.where(chosen, rng.choice(pool, size), data)
    return rounded(data, name)


def random_ints(rng: np.random.Generator, size: int, name: str) -> np.ndarray:
    """Integers of a type: small ones, any ones, and its ends."""
    kind = NUMPY[name]
    info = np.iinfo(kind)
    small = rng.integers(max(info.min, -9), 10, size).astype(kind)
    anywhere = rng.integers(info.min, info.max, size, dtype=kind, endpoint=True)
    ends = rng.choice(np.array([info.min, info.max, 0, 1], kind), size)
    return np.choose(rng.integers(0, 3, size), [small, anywhere, ends]).astype(kind)


def close(got: np.ndarray, exact: np.ndarray, name: str, ulps: float) -> None:
    """Fails when an element lies more than `ulps` units of the last place from the float64 result."""
    far = ulp_distance(got, exact, name)
    wrong = far > ulps
    if wrong.any():
        where = tuple(np.argwhere(wrong)[0])
        raise AssertionError(
            f"{wrong.sum()} of {wrong.size} differ; first at {[int(i) for i in where]}: got {np.asarray(got)[where]!r}, "
            f"exact {np.asarray(exact)[where]!r}, {far[where]:.2f} ulps of {name}, allowed {ulps}"
        )


seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 64)  # awkward on purpose: blocks are powers of two and the rest is masked
