"""Exercise 2.9, split-KV and GQA packing: a plan that spreads the work, a decode that follows any and reads K and V once.

The plan is judged in split_plan.py; cases of decode are in split_decode_cases.py, its bounds in split_decode_traffic.py, the
slips that a hint names in split_decode_slips.py.
"""

from typing import Any

from ...grading.criteria import Case, Correct, Counted, Timed
from ...grading.exercise import Exercise
from ...grading.outcome import Mistake
from ..kernel_criteria import CompiledWide, confirmed
from .attention_rounding import EXPONENT, largest_score, tolerance
from .split_decode_cases import (
    compile_cases,
    device_cases,
    edge_cases,
    expected,
    head_cases,
    inputs,
    part_cases,
    traffic_cases,
    view_cases,
)
from .split_decode_slips import known_slip
from .split_decode_traffic import split_decode_bounds, split_decode_hint
from .split_plan import balance_cases, check_balance, check_cover, check_few, cover_cases, few_cases

LONG_BAR = 0.6  # right answers reach 0.66 to 0.85 on an H200, an unsplit one 0.038: timed_bars.json
BATCH_BAR = 0.8  # right answers reach 0.90 to 0.95 there, a program for each head 0.245
LONG_ZERO_AT, BATCH_ZERO_AT = 0.3, 0.4
NAMES = ("out", "lse")


def _check(case: Case, output: Any) -> Mistake | None:
    from ...grading.compare import compare_tensor, describe

    if not isinstance(output, (tuple, list)) or len(output) != 2:
        return Mistake(f"expected two tensors (out, lse), got {describe(output)}")
    wanted, tolerances = expected(case), _tolerances(case)
    for name, got, want, dtype in zip(NAMES, output, wanted, (inputs(case)[0].dtype, None), strict=True):
        relative, absolute = tolerances[name]
        want = want.float() if dtype is None else want.to(dtype)
        if mistake := compare_tensor(got, want, rtol=relative, atol=absolute):
            hint = known_slip(case, name, output, wanted, (2 * relative, 2 * absolute)) or mistake.hint
            return Mistake(f"{name}: {mistake.reason}", hint)
    return None


def _tolerances(case: Case) -> dict[str, tuple[float, float]]:
    """(relative, absolute)"""
    q, k, v = inputs(case)
    unit, absolute = tolerance(q, k, v)
    return {"out": (unit, absolute), "lse": (1e-6, 1e-5 + (unit + EXPONENT) * largest_score(q, k))}


def _decode(name: str, claim: str, points: float, cases: Any, run: str = "split_decode") -> Correct:
    return Correct(name=name, claim=claim, points=points, cases=cases, check=_check, run=run, launches=True)


def _plan(name: str, claim: str, points: float, cases: Any, check: Any) -> Correct:
    return Correct(name=name, claim=claim, points=points, cases=cases, check=check, run="plan_splits")


def _timed(name: str, claim: str, sequences: int, tokens: int, bar: float, zero_at: float, goal: float) -> Timed:
    return Timed(
        name=name,
        claim=claim,
        points=2.0,
        cases=lambda seed: device_cases(seed, sequences, tokens),
        check=_check,
        run="split_decode",
        observe="split_decode_on_this_device",
        confirm=confirmed(
            wrong="out was not the attention of q over the blocks",
            fresh="q has",
            far="blocks that begin 2**31 elements behind the first were not attended to right",
            offset="block * stride",
        ),
        bar=bar,
        zero_at=zero_at,
        goal=goal,
        devices=("NVIDIA H200",),
    )


SPLIT_DECODE = Exercise(
    id="2.9",
    title="Split-KV and GQA packing for long contexts",
    entry="split_kv",
    params=(),
    returns="(plan_splits, split_decode), the two functions",
    runner="phase2_split_decode",
    may_import=frozenset({"bisect", "collections", "heapq", "itertools", "math", "torch", "triton"}),
    seconds=120.0,  # the interpreter takes its time for small tiles
    criteria=(
        _plan(
            "every block once", "a work list has each block of each pair once, and nothing else", 1.0, cover_cases, check_cover
        ),
        _plan("balanced", "no program has much more than its share, whatever the batch", 1.0, balance_cases, check_balance),
        _plan("no crumbs", "no more items than balance takes", 0.5, few_cases, check_few),
        _decode("parts", "one part or many, whole blocks or not, both head dims and dtypes", 2.0, part_cases),
        _decode("heads", "the query heads of each KV head, 1, 5, 7 or 8 of them", 1.0, head_cases),
        _decode("views", "q, K and V by their strides", 0.25, view_cases, "split_decode_of_views"),
        _decode("edges", "sequences, items and parts without a token, and scores of any size", 0.75, edge_cases),
        Counted(
            name="traffic",
            claim="each live K and V element is read once in all, each part written and read once",
            points=1.0,
            cases=traffic_cases,
            check=_check,
            run="split_decode",
            bounds=split_decode_bounds,
            hint=split_decode_hint,
            launches=True,
        ),
        CompiledWide(
            name="compiled",
            claim="compiles for A100 and H100 with tensor cores, without spills, 16 bytes for each thread at a time",
            points=0.5,
            cases=compile_cases,
            check=_check,
            run="split_decode",
            targets=("sm_80", "sm_90"),
            tensor_cores=True,
            accesses=("load",),
            narrow_hint="Which axis of a tile of K is contiguous, and do neighbouring lanes lie along it?",
            large_hint="Fewer tokens in a tile, or more warps for it.",
            launches=True,
        ),
        _timed("one long context", "1 x 131072 tokens beside a plain read of K and V", 1, 131_072, LONG_BAR, LONG_ZERO_AT, 0.8),
        _timed("a batch", "64 x 8192 tokens beside a plain read of K and V", 64, 8192, BATCH_BAR, BATCH_ZERO_AT, 0.9),
    ),
)
