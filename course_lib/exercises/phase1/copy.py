"""Exercise 1.4, a copy kernel: right wherever it is cut, each byte moved once, compiled to wide loads, and near the roof.

The criterion for its bytes is in copy_traffic.py, cases for the others in copy_cases.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...grading.criteria import Case, Compiled, Correct, Finding, Timed
from ...grading.exercise import Exercise
from ...grading.outcome import Mistake, State
from .copy_cases import compile_cases, device_cases, neighbour_cases, refused_cases, value_cases
from .copy_traffic import NOTHING_STORED, check_copy, counted_copy, left_as_it_came

WIDE_BITS = 128  # the widest load that one thread of an A100 or H100 can ask for
BAR = 0.88  # on an H200 six right copies reach 0.91 to 1.00 of torch's, one through a buffer 0.48, one of tiny blocks 0.10
INT32_HINT = "Which type has program_id * BLOCK, and what is the largest number in it?"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledWide(Compiled):
    """Compiled, and on every target some load and some store is `wide_bits` wide: 16 bytes for each thread at a time."""

    wide_bits: int = WIDE_BITS

    def _weigh(self, case: Case, evidence: Any) -> Finding:
        found = Compiled._weigh(self, case, evidence)
        if found.state is not State.PASSED:
            return found
        for what, field in (("load", "widest_load_bits"), ("store", "widest_store_bits")):
            for target in self.targets:
                widest = max((_bits(kernel, target, field) for kernel in evidence["kernels"]), default=0)
                if widest < self.wide_bits:
                    reason = f"{target}: the widest {what} of a thread is {widest // 8} bytes, {self.wide_bits // 8} are possible"
                    hint = f"How many neighbouring elements does each of the {32 * 4} threads of a program get?"
                    return Finding(State.FAILED, reason, hint, 0.0, evidence)
        return found


def _bits(kernel: Mapping[str, Any], target: str, field: str) -> int:
    return next((row[field] for row in kernel["targets"] if row["target"] == target), 0)


def _confirm_device(case: Case, evidence: Any) -> Mistake | None:
    if evidence["torch_operations"]:
        what = ", ".join(evidence["torch_operations"])
        return Mistake(f"torch worked inside your function ({what}), so it was not your kernel that was timed")
    if evidence["wrong_rounds"]:
        words = f"in {evidence['wrong_rounds']} of {evidence['rounds']} rounds out did not hold x when the copy was over"
        return Mistake(words, "x has new content in each round.")
    if evidence["far"] == "wrong":
        return Mistake("a tensor of 2**31 + 65,536 elements was not copied right", INT32_HINT)
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
            confirm=_confirm_device,
            bar=BAR,
            zero_at=0.5,
            goal=1.0,
            devices=("NVIDIA H200",),
        ),
    ),
)
