"""Exercise 2.2, online softmax as a Triton kernel: right at every edge, each score read once, wide loads, near the read roof.

Cases, the oracle and the bounds of traffic are in attend_rows_cases.py, the slips that a hint names in attend_rows_slips.py.
"""

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
from .attend_rows_slips import known_slip

RTOL = 1e-5  # float32 sums of thousands of terms, in any order
EXPONENT = 4 * 2.0**-24  # of a score's size: score * log2(e) and the maximum are rounded before they are subtracted
LSE_RTOL = 1e-6
BAR = 0.8  # right answers reach 0.855 to 0.890 on an H200, one that reads the scores twice 0.48: timed_bars.json
ZERO_AT = 0.5
NAMES = ("out", "lse")


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
            return Mistake(f"{name}: {mistake.reason}", known_slip(case, name, output, wanted, (rtol, atol)) or mistake.hint)
    return None


def _tolerance(case: Case) -> float:
    scores = case["scores"].double()
    return RTOL + EXPONENT * float(scores[scores.isfinite()].abs().max())


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
            large_hint="A block of the whole row? Walk over it in smaller blocks.",
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
            goal=0.9,
            devices=("NVIDIA H200",),
        ),
    ),
)
