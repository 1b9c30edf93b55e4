"""Exercise 1.4, a copy kernel: right wherever it is cut, each byte moved once, compiled to wide loads, and near the roof.

The criterion for its bytes is in copy_traffic.py, cases for the others in copy_cases.py.
"""

from typing import Any

from ...grading.criteria import Case, Correct, Timed
from ...grading.exercise import Exercise
from ...grading.outcome import Mistake
from ..kernel_criteria import CompiledWide, confirmed
from .copy_cases import compile_cases, device_cases, neighbour_cases, refused_cases, value_cases
from .copy_traffic import NOTHING_STORED, check_copy, counted_copy, left_as_it_came

BAR = 0.88  # on an H200 six right copies reach 0.91 to 1.00 of torch's, one through a buffer 0.48, one of tiny blocks 0.10


def _check_neighbours(case: Case, output: Any) -> Mistake | None:
    """What lies beside `out` keeps its poison, and `out` itself is what was filled."""
    import torch

    from ...grading.compare import compare_tensor

    poison = torch.tensor(case["poison"], dtype=case["x"].dtype)
    for side, words in (("before", "before the first"), ("after", "behind the last")):
        beside = output[side]
        same = beside.isnan() if poison.isnan() else beside == poison
        if not same.all():
            count = int((~same).sum())
            return Mistake(f"{count} elements {words} element of out were overwritten", "Which lanes of a block may store?")
    if mistake := compare_tensor(output["out"], case["x"], rtol=0):
        hint = NOTHING_STORED if left_as_it_came(output["out"], case["x"]) else mistake.hint
        hint = hint if _differs(output["returned"], case["x"]) else "Copy into the `out` that you were given."
        return Mistake(f"what lies in out afterwards: {mistake.reason}", hint)
    if _differs(output["returned"], case["x"]):
        return Mistake("out holds x, but your function returned something else", "Return out.")
    if output["torch_wrote"]:
        names = ", ".join(output["torch_wrote"])
        return Mistake(f"torch filled out ({names}), not your kernel", "Launch a kernel that stores to out.")
    return None


def _differs(got: Any, expected: Any) -> bool:
    from ...grading.compare import compare_tensor

    return compare_tensor(got, expected, rtol=0) is not None


def _check_refused(case: Case, output: Any) -> Mistake | None:
    if output["instead"]:
        first = output["instead"].partition(". ")[0]  # advice about the kernel's indices would lead astray here
        return Mistake(f"a ValueError was asked for, and what came is {first}", case["hint"])
    if output["refused"] is None:
        return Mistake("your function copied, where a ValueError was asked for", case["hint"])
    if not output["refused"].strip():
        return Mistake("the ValueError says nothing", "Name what came, what is allowed, and what to do.")
    return None


FROM_LAUNCHES = {"run": "copy_into", "launches": True, "may_alias": True, "may_change": ("out",)}
COPY = Exercise(
    id="1.4",
    title="A copy kernel",
    entry="copy",
    params=("x", "out"),
    returns="out, holding what x holds",
    runner="phase1_copy",
    may_import=frozenset({"math", "torch", "triton"}),
    seconds=60.0,  # one element in a program is right, and takes its time in the interpreter
    criteria=(
        Correct(
            name="values",
            claim="your kernel copies every length, shape and dtype",
            points=2.0,
            cases=value_cases,
            check=check_copy,
            **FROM_LAUNCHES,
        ),
        Correct(
            name="neighbours",
            claim="only out changes, and nothing beside it",
            points=1.5,
            cases=neighbour_cases,
            check=_check_neighbours,
            run="copy_between_neighbours",
        ),
        Correct(
            name="refusals",
            claim="what the kernel cannot copy is refused with a ValueError",
            points=1.0,
            cases=refused_cases,
            check=_check_refused,
            run="copy_refused",
            may_change=("x", "out"),
        ),
        counted_copy(points=2.0),
        CompiledWide(
            name="compiled",
            claim="compiles for A100 and H100 without spills, 16 bytes for each thread at a time",
            points=1.5,
            cases=compile_cases,
            check=check_copy,
            targets=("sm_80", "sm_90"),
            narrow_hint="How many neighbouring elements does each of the 128 threads of a program get?",
            **FROM_LAUNCHES,
        ),
        Timed(
            name="this device",
            claim="copies 1 GiB as fast as torch does, and more than 2**31 elements right",
            points=3.0,
            cases=device_cases,
            check=check_copy,
            run="copy_into",
            observe="copy_on_this_device",
            may_alias=True,
            may_change=("out",),
            confirm=confirmed(
                wrong="out did not hold x when the copy was over",
                fresh="x has",
                far="a tensor of 2**31 + 65,536 elements was not copied right",
                offset="program_id * BLOCK",
            ),
            bar=BAR,
            zero_at=0.5,
            goal=1.0,
            devices=("NVIDIA H200",),
        ),
    ),
)
