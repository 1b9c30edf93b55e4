"""Compare an untrusted output with the oracle's, and say in words where and how it differs.

NaN is never a wildcard: it must stand exactly where the oracle has NaN. Everything is compared in float64.
"""

import math
from typing import Any

from .inside.border import Opaque, short
from .outcome import Mistake


def compare_tensor(got: Any, expected: Any, *, rtol: float, atol: float = 0.0, dtype: Any = None) -> Mistake | None:
    """None when `got` is a tensor equal to `expected` within atol + rtol * |expected|, else what is wrong first.

    dtype  the dtype that the answer must have (default: the oracle's)
    """
    import torch

    if not isinstance(got, torch.Tensor):
        return Mistake(f"expected a tensor of shape {_shape(expected)}, got {describe(got)}")
    if got.shape != expected.shape:
        return Mistake(f"expected shape {_shape(expected)}, got {_shape(got)}", _shape_hint(got, expected))
    wanted = dtype or expected.dtype
    if got.dtype != wanted:
        boolean = str(wanted) == "torch.bool"
        hint = "A comparison gives bool; keep it." if boolean else "Mind what the inputs' dtypes make of it."
        return Mistake(f"expected dtype {_name(wanted)}, got {_name(got.dtype)}", hint)
    have, want = got.double(), expected.double()
    wrong = ~_equal(have, want, rtol, atol)
    if not wrong.any():
        return None
    first = tuple(int(i) for i in wrong.nonzero()[0])
    a, b = float(have[first]), float(want[first])
    digits = 6 if f"{a:.6g}" != f"{b:.6g}" else 12
    where = f" at {list(first)}" if first else ""
    tolerance = f"(rtol {rtol:g}, atol {atol:g})"
    count = f"{int(wrong.sum())} of {wrong.numel()} values differ {tolerance}; first" if first else f"differs {tolerance}"
    reason = f"{count}{where}: got {a:.{digits}g}, expected {b:.{digits}g}{_distance(a, b, rtol, atol)}"
    return Mistake(reason, _hint(have, want, wrong, wanted))


def describe(value: Any) -> str:
    """A value in a few words, safe for any type."""
    if isinstance(value, Opaque):
        return f"{value.type_name}, which is {value.why}" if value.why != "not plain data" else value.type_name
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"a tensor {_name(value.dtype)} of shape {_shape(value)}"
    if value is None:
        return "None (is a return missing?)"
    if isinstance(value, (list, tuple, dict)):
        return f"a {type(value).__name__} of {len(value)}"
    return f"{type(value).__name__} {short(value, 60)}"


def _equal(have: Any, want: Any, rtol: float, atol: float) -> Any:
    same_nan = have.isnan() & want.isnan()
    finite = want.isfinite() & have.isfinite()
    near = (have - want).abs() <= atol + rtol * want.abs()
    return same_nan | (finite & near) | (have == want)


def _distance(a: float, b: float, rtol: float, atol: float) -> str:
    tolerance = atol + rtol * abs(b)
    if not (math.isfinite(a) and math.isfinite(b) and tolerance > 0):
        return ""
    times = abs(a - b) / tolerance
    return f", {times:.2g} times the tolerance" if times < 1e6 else ""


def _hint(have: Any, want: Any, wrong: Any, dtype: Any) -> str:
    """Name the kind of mistake, when all wrong values show the same one."""
    a, b = have[wrong], want[wrong]
    if (a.isnan() & ~b.isnan()).all():
        return "Every wrong value is NaN. Where does the first NaN come from?"
    if (b.isnan() & ~a.isnan()).all():
        return "Every wrong value stands where the right answer is NaN (nothing is known there)."
    usable = a.isfinite() & b.isfinite() & (a != 0) & (b != 0)
    if not usable.all():
        return "Every wrong value is 0." if bool((a == 0).all()) else ""
    factor = a / b
    if bool(((factor - 1).abs() < 1e-5).all()):
        single = "The values agree to single precision only. In which dtype was this computed?"
        return single if str(dtype) == "torch.float64" else ""  # where float32 is asked for, the dtype is not what is wrong
    if bool(((a * b - 1).abs() <= 1e-6).all()):
        return "Every value is the inverse of the right one."
    middle = float(factor.median())
    every = not (wrong.logical_not() & want.isfinite()).any()
    if every and factor.numel() > 1 and bool(((factor - middle).abs() <= 1e-6 * abs(middle)).all()):
        return f"Every value is {middle:.6g} times the right one. Which unit or factor is that?"
    return ""


def _shape_hint(got: Any, expected: Any) -> str:
    if sorted(got.shape) == sorted(expected.shape):
        return "The dimensions are there in another order."
    if got.numel() == expected.numel():
        return "The number of values is right; the shape is not."
    return ""


def _shape(tensor: Any) -> str:
    return str(list(tensor.shape))


def _name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")
