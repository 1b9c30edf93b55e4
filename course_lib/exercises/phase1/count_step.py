"""Exercise 1.2, FLOPs and bytes of a step: what is asked, and how an answer is judged. Its cases and slips stand beside it."""

import math
from functools import partial
from typing import Any

from ...grading.criteria import Case, Correct
from ...grading.exercise import Exercise
from ...grading.outcome import Mistake
from .count_step_cases import awkward_cases, precision_cases, step_cases
from .count_step_slips import SLIPS

# sums of whole numbers, or of 33/64 of them: exact up to 2**53, and rounded at 1e-16 beyond; a count that is off by a token of
# thousands differs by more than 1e-6
RTOL = 1e-9
FLOAT32_RTOL = 2.5e-7  # a few roundings of 2**-24
PARTS = ("linear_flops", "attention_flops", "bytes")
STEP = ("new_tokens", "context", "batch", "weight_bytes", "kv_bytes")


def _expected(case: Case) -> dict[str, float]:
    from ...roofline import count_step

    return count_step(case["shape"], *(case[name] for name in STEP))


def _check(names: tuple[str, ...], case: Case, output: Any) -> Mistake | None:
    expected = _expected(case)
    for name in names:
        got = _number(output, name)
        if isinstance(got, Mistake):
            return got
        if not _near(got, expected[name]):
            digits = 6 if f"{got:.6g}" != f"{expected[name]:.6g}" else 12
            reason = f"{name}: got {got:.{digits}g}, expected {expected[name]:.{digits}g}; {_circumstances(case)}"
            return Mistake(reason, _known_slip(case, name, got))
    return None


def _number(output: Any, name: str) -> Any:
    """output[name] as a float, or a Mistake when there is none."""
    from ...grading.compare import describe

    if not isinstance(output, dict):
        return Mistake(f"expected a dict with {', '.join(PARTS)}, got {describe(output)}")
    if name not in output:
        return Mistake(f"the result has no {name!r}; it has {sorted(map(str, output))}"[:300])
    got = output[name]
    if isinstance(got, bool) or not isinstance(got, (int, float)):
        return Mistake(f"{name}: expected a number, got {describe(got)}")
    try:
        return float(got)
    except OverflowError:
        return Mistake(f"{name}: a number of more than 300 digits is no count of a step")


def _near(got: float, expected: float) -> bool:
    return math.isclose(got, expected, rel_tol=RTOL)


def _circumstances(case: Case) -> str:
    """What a learner needs to work the case out on paper."""
    values = {**case["shape"], **{name: case[name] for name in STEP}}
    return ", ".join(f"{name} {value}" for name, value in values.items())


def _known_slip(case: Case, name: str, got: float) -> str:
    """The hint for the slip that leads to this number, or what the factor says."""
    found = next((hint for hint, value in SLIPS[name](case) if _near(got, value)), "")
    expected = _expected(case)[name]
    factor = got / expected
    if found or not math.isfinite(factor):
        return found
    if abs(factor - 1) < FLOAT32_RTOL:
        return "The first seven digits are right: somewhere the count went through float32. Python's own numbers have more."
    if _near(factor, round(factor)) and 2 <= factor <= 1000:
        return f"It is {round(factor)} times as much as it should be. What is counted again and again?"
    if factor and _near(1 / factor, round(1 / factor)) and 2 <= 1 / factor <= 1000:
        return f"It is 1/{round(1 / factor)} of what it should be. What comes {round(1 / factor)} times?"
    return ""


COUNT_STEP = Exercise(
    id="1.2",
    title="FLOPs and bytes of a step",
    entry="count_step",
    params=("shape", "new_tokens", "context", "batch", "weight_bytes", "kv_bytes"),
    returns="dict: linear_flops, attention_flops and bytes, numbers",
    runner="phase1_count_step",
    criteria=(
        Correct(
            name="linear FLOPs",
            claim="the products with weights: every token through the layers, the last of a sequence through the head",
            points=2.0,
            cases=step_cases,
            check=partial(_check, ("linear_flops",)),
            run="count_step",
        ),
        Correct(
            name="attention FLOPs",
            claim="every pair of query and key that the causal mask leaves, over a context and without one",
            points=2.0,
            cases=step_cases,
            check=partial(_check, ("attention_flops",)),
            run="count_step",
        ),
        Correct(
            name="bytes",
            claim="weights once, keys and values read and written, and the residual stream",
            points=2.0,
            cases=step_cases,
            check=partial(_check, ("bytes",)),
            run="count_step",
        ),
        Correct(
            name="precision",
            claim="the bytes of FP8 and 4.125-bit weights, and of FP8 keys and values",
            points=1.0,
            cases=precision_cases,
            check=partial(_check, ("bytes",)),
            run="count_step",
        ),
        Correct(
            name="awkward shapes",
            claim="one KV head, odd heads, and heads that are together not as wide as the residual stream",
            points=1.0,
            cases=awkward_cases,
            check=partial(_check, PARTS),
            run="count_step",
        ),
    ),
)
