"""Errors in units of the last place, the unit in which the tests of numbers state what they allow."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from course_lib.interpreter.numbers.format_codes import round_to
from course_lib.interpreter.numbers.formats import format_of, values_of

_WIDE = {"fp16": np.float16, "fp32": np.float32, "fp64": np.float64}


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
        held = np.isin(got, values_of(name)) if form.bits == 8 else round_to(got, name) == got
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
