"""Exercise 2.2, online softmax as a Triton kernel: right at every edge, each score read once, wide loads, near the read roof.

Cases, the oracle and the bounds of traffic are in attend_rows_cases.py.
"""

from collections.abc import Iterator
from typing import Any

from ...grading.criteria import Case, Correct, Counted, Timed
from ...grading.exercise import Exercise
from ...grading.outcome import Mistake
from ..kernel_criteria import CompiledWide, confirmed
from .attend_rows_cases import (
    apart_cases,
    compile_cases,
    device_cases,
    expected,
    large_cases,
    masked_cases,
    row_cases,
    traffic_bounds,
    traffic_cases,
)

RTOL = 1e-5  # float32 sums of thousands of terms, in any order
EXPONENT = 4 * 2.0**-24  # of a score's size: score * log2(e) and the maximum are rounded before they are subtracted
LSE_RTOL = 1e-6
BAR = 0.7  # to be set from five runs on an H200: not yet measured
ZERO_AT = 0.4
NAMES = ("out", "lse")
UNWRITTEN = "A weight of 0 does not silence a NaN: 0 * NaN is NaN."
NOTHING_MINUS_NOTHING = "What is -inf - (-inf), and in which block does it come up?"
NO_NUMBER = "Did a program store this row's result? And does an exponential overflow? inf / inf is NaN."
BESIDE = "NaN lies behind the end of each row. Which lanes of the last block are real, and how far apart do rows begin?"


def _check(case: Case, output: Any) -> Mistake | None:
    from ...grading.compare import compare_tensor, describe

    if not isinstance(output, (tuple, list)) or len(output) != 2:
        return Mistake(f"expected two tensors (out, lse), got {describe(output)}")
    relative = _tolerance(case)
    largest_value = float(case["values"].double().nan_to_num().abs().max())
    wanted = expected(case)
    for name, got, want in zip(NAMES, output, wanted, strict=True):
        # of values of both signs little may be left, and the error is that of the largest; an error of lse is one of the sum
        rtol, atol = (relative, relative * largest_value) if name == "out" else (LSE_RTOL, relative)
        if mistake := compare_tensor(got, want.float(), rtol=rtol, atol=atol):
            return Mistake(f"{name}: {mistake.reason}", _known_slip(case, name, got, wanted) or mistake.hint)
    return None


def _tolerance(case: Case) -> float:
    scores = case["scores"].double()
    return RTOL + EXPONENT * float(scores[scores.isfinite()].abs().max())


def _known_slip(case: Case, name: str, got: Any, wanted: tuple[Any, Any]) -> str:
    """The hint for the slip that explains every value of an answer, or ""."""
    import torch

    from ...grading.compare import compare_tensor

    if isinstance(got, torch.Tensor) and got.isnan().any():
        if "keys" in case:
            return BESIDE
        if case["values"].isnan().any():
            return UNWRITTEN
        masked = (case["scores"] == -torch.inf).any(1)
        return NOTHING_MINUS_NOTHING if masked[got.isnan()].all() else NO_NUMBER
    slips = ((hint, value) for slip, hint, value in _slips(case, wanted) if slip == name)
    return next((hint for hint, value in slips if compare_tensor(got, value.float(), rtol=1e-4, atol=1e-5) is None), "")


def _slips(case: Case, wanted: tuple[Any, Any]) -> Iterator[tuple[str, str, Any]]:
    """(part, hint, what this slip leads to)"""
    import math

    out, lse = wanted
    scores = case["scores"].double()[:, : case.get("keys")]
    largest = scores.amax(1)
    yield "lse", "This is the logarithm in base 2. lse is the natural one.", lse / math.log(2)
    yield "lse", "This is the largest score of the row. Where is the sum?", largest
    yield "lse", "The logarithm of the sum is there. Where is the maximum?", lse - largest
    yield "out", "Is out divided by the sum of the weights?", out * (lse - largest).exp()
    seen = (scores > -math.inf).any(0)
    values = case["values"].double().where(seen, 0.0)
    yield "out", "These are weights of 2 ** s. What makes e ** s of them?", (scores * math.log(2)).softmax(1) @ values


def _correct(name: str, claim: str, points: float, cases: Any, run: str = "attend_rows") -> Correct:
    return Correct(name=name, claim=claim, points=points, cases=cases, check=_check, run=run, launches=True)


ATTEND_ROWS = Exercise(
    id="2.2",
    title="Online softmax as a kernel",
    entry="attend_rows",
    params=("scores", "values"),
    returns="(out [rows], lse [rows]), float32",
    runner="phase2_attend_rows",
    may_import=frozenset({"math", "torch", "triton"}),
    seconds=60.0,  # the interpreter takes its time for small blocks
    criteria=(
        _correct("rows", "rows of every length and dtype give the weighted sum and the log-sum-exp", 2.0, row_cases),
        _correct("masked keys", "masked keys weigh nothing, whole blocks and whole rows of them included", 1.5, masked_cases),
        _correct("large scores", "scores of any size, without overflow", 0.5, large_cases),
        _correct("rows apart", "what lies between rows of a wider buffer is never used", 1.0, apart_cases, "attend_rows_apart"),
        Counted(
            name="traffic",
            claim="each score is loaded once",
            points=1.0,
            cases=traffic_cases,
            check=_check,
            run="attend_rows",
            bounds=traffic_bounds,
            launches=True,
        ),
        CompiledWide(
            name="compiled",
            claim="compiles for A100 and H100 without spills, 16 bytes for each thread at a time",
            points=1.0,
            cases=compile_cases,
            check=_check,
            run="attend_rows",
            targets=("sm_80", "sm_90"),
            accesses=("load",),
            narrow_hint="How many neighbouring scores does each thread get? Does the mask, or the stride, break them up?",
            launches=True,
        ),
        Timed(
            name="this device",
            claim="takes hardly longer than torch takes to read the scores once, and rows lie right beyond 2**31 elements",
            points=2.0,
            cases=device_cases,
            check=_check,
            run="attend_rows",
            observe="attend_rows_on_this_device",
            confirm=confirmed(
                wrong="the results were not those of the scores",
                fresh="scores have",
                far="a row that begins 2**31 elements behind the first was not attended to right",
                offset="row * stride",
            ),
            bar=BAR,
            zero_at=ZERO_AT,
            goal=0.95,
            devices=("NVIDIA H200",),
        ),
    ),
)
