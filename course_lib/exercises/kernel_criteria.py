"""What exercises about kernels share: loads as wide as a thread can ask for, and what evidence from a device must confirm."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..grading.criteria import Case, Compiled, Finding
from ..grading.outcome import Mistake, State

WIDE_BITS = 128  # the widest load that one thread of an A100 or H100 can ask for


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledWide(Compiled):
    """Compiled, and on every target some of each of `accesses` is 16 bytes wide for each thread at a time.

    large_hint  for a kernel that the compiler takes too long for, or that spills: both come of a block that is too large
    """

    accesses: Sequence[str] = ("load", "store")
    narrow_hint: str
    large_hint: str = ""

    def _weigh(self, case: Case, evidence: Any) -> Finding:
        found = Compiled._weigh(self, case, evidence)
        if found.state is not State.PASSED:
            too_large = found.state is State.FAILED and any(map(self._too_large, evidence["targets"]))
            return replace(found, hint=self.large_hint) if too_large and not found.hint else found
        for what in self.accesses:
            for target in self.targets:
                widest = max((_bits(kernel, target, f"widest_{what}_bits") for kernel in evidence["kernels"]), default=0)
                if widest < WIDE_BITS:
                    reason = f"{target}: the widest {what} of a thread is {widest // 8} bytes, {WIDE_BITS // 8} are possible"
                    return Finding(State.FAILED, reason, self.narrow_hint, 0.0, evidence)
        return found

    def _too_large(self, row: Mapping[str, Any]) -> bool:
        if not row.get("compiles"):
            return "took longer than" in row.get("why_not", "")
        return row.get("target") in self.targets and row.get("spills", 0) > self.max_spills


def _bits(kernel: Mapping[str, Any], target: str, field: str) -> int:
    return next((row[field] for row in kernel["targets"] if row["target"] == target), 0)


def confirmed(*, wrong: str, fresh: str, far: str, offset: str) -> Callable[[Case, Any], Mistake | None]:
    """Timed.confirm for evidence of workloads.beside_peer: whose work it was, right in each round, right beyond 2**31 elements.

    wrong    what was wrong in a round: "out did not hold x when the copy was over"
    fresh    what is new in each, and its verb: "x has"
    far      what went wrong beyond 2**31 elements; offset: the product that may not be an int32 there
    """

    def confirm(case: Case, evidence: Any) -> Mistake | None:
        if evidence["torch_operations"]:
            what = ", ".join(evidence["torch_operations"])
            return Mistake(f"torch worked inside your function ({what}), so it was not your kernel that was timed")
        if evidence["wrong_rounds"]:
            words = f"in {evidence['wrong_rounds']} of {evidence['rounds']} rounds {wrong}"
            return Mistake(words, f"{fresh} new content in each round.")
        if evidence["far"] == "wrong":
            return Mistake(far, f"Which type has {offset}, and what is the largest number in it?")
        return None

    return confirm
