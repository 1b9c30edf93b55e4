"""The four kinds of criteria. Each one is judged in three parts, so that it works across a process border:

cases(seed) -> [case]             outside; a case is a dict of plain data (see inside/border.py) and has a "name"
run(entry, case) -> output        named here, lives in exercises/runners: the only part that sees the learner's code
judge(case, attempt) -> Finding   outside; looks at the output first, and at the evidence only when the output is right

Evidence is what `observe(entry, case)`, also a runner's, wrote down beside the output. It is data of one of these shapes:
  counted    {"counts": {name: number}}
  compiled   {"targets": [{"target", "compiles", "why_not", "shared_bytes", "shared_limit_bytes", "spills", "tensor_cores"}]}
  timed      {"device", "peer", "ratios": [peer time / own time, ...], "roof_share": 0..1}
  any        {"blocked": "why it could not be had here"}
A criterion with `launches` asks for no `observe`: its evidence comes from the launches of the very attempt, recorded beside the
learner's code and replayed apart (launches.py), and an answer that does not follow from them is {"failed": "why", "hint"}.
Its `run` returns what the learner's function returned, unchanged.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from .inside.border import short
from .outcome import Kind, Mistake, State

Case = dict[str, Any]
UNTRUSTWORTHY_ROOF_SHARE = 1.05  # above this share of the roof a time is an error of measurement, never a record


@dataclass(frozen=True, slots=True)
class Finding:
    """What one case says about a criterion. `share` of the points is 1 unless the criterion gives partial points."""

    state: State
    reason: str = ""
    hint: str = ""
    share: float = 1.0
    evidence: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """One thing that an exercise proves. `check(case, output)` says what is wrong with an output, or None.

    claim     what a pass proves, one plain sentence, shown to the learner
    run       name of the runner's function; observe: the one that gathers evidence, "" for none
    may_alias an output may share memory with an input; may_change: inputs that the call may write to (out= buffers)
    launches  the answer must follow from the kernels that were launched; may_compute: names of kernel arguments that the host
              may compute all the same (offsets, work lists)
    """

    kind: ClassVar[Kind]
    name: str
    claim: str
    points: float
    cases: Callable[[int], list[Case]]
    check: Callable[[Case, Any], Mistake | None]
    run: str
    observe: str = ""
    may_alias: bool = False
    may_change: Sequence[str] = ()
    launches: bool = False
    may_compute: Sequence[str] = ()

    def judge(self, case: Case, attempt: Mapping[str, Any]) -> Finding:
        """-> the finding for one attempt that returned; what it returned is untrusted data."""
        mistake = self.mistake(case, attempt)
        if mistake:
            return Finding(State.FAILED, mistake.reason, mistake.hint, 0.0)
        if self.launches and (finding := _not_from_launches(attempt["evidence"])):
            return finding
        try:
            return self._weigh(case, attempt["evidence"])
        except (AttributeError, IndexError, KeyError, TypeError, ValueError, ArithmeticError) as error:
            reason = f"the {self.kind} evidence does not make sense ({type(error).__name__}: {short(error, 100)})"
            return Finding(State.BLOCKED, reason, share=0.0)  # evidence is untrusted; whatever it holds, it proves nothing

    def mistake(self, case: Case, attempt: Mapping[str, Any]) -> Mistake | None:
        """What is wrong with the output, evidence apart."""
        if mistake := self._conduct(attempt):
            return mistake
        try:
            return self.check(case, attempt["output"])
        except Exception as error:  # the output may be anything, and a check that stumbles over it must not stop the others
            said = f"what came back cannot be compared ({type(error).__name__}: {short(str(error), 100)})"
            return Mistake(said, "Compare its type, and the types in it, with what the exercise asks for.")

    def _conduct(self, attempt: Mapping[str, Any]) -> Mistake | None:
        changed = [name for name in attempt["changed"] if name not in self.may_change]
        if changed:
            return Mistake(f"your function changed its input {', '.join(changed)}", "Work on a copy, or out of place.")
        if attempt["aliases"] and not self.may_alias:
            names = ", ".join(attempt["aliases"])
            return Mistake(f"the result shares memory with the input {names}", "Return a tensor of its own.")
        return None

    def _weigh(self, case: Case, evidence: Any) -> Finding:
        raise NotImplementedError(f"{type(self).__name__} says how its evidence is weighed")


def _not_from_launches(evidence: Any) -> Finding | None:
    """A finding when the answer was not shown to follow from its launches."""
    if isinstance(evidence, dict) and "failed" in evidence:
        return Finding(State.FAILED, str(evidence["failed"]), str(evidence.get("hint", "")), 0.0)
    return _blocked(evidence, "launch")


def _blocked(evidence: Any, wanted: str) -> Finding | None:
    """A finding when there is nothing to weigh: no evidence, or a reason why there is none."""
    if not isinstance(evidence, dict):
        return Finding(State.BLOCKED, f"no {wanted} evidence was gathered here", share=0.0)
    if "blocked" in evidence:
        return Finding(State.BLOCKED, str(evidence["blocked"]), share=0.0)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Correct(Criterion):
    """The output equals the oracle's."""

    kind: ClassVar[Kind] = Kind.CORRECT

    def _weigh(self, case: Case, evidence: Any) -> Finding:
        return Finding(State.PASSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted(Criterion):
    """Counts (bytes, FLOPs, blocks, passes) stay within bounds that the text derives.

    An atomic reads and writes: where the bounds name no atomic_bytes, they count as loaded and as stored bytes.
    """

    kind: ClassVar[Kind] = Kind.COUNTED
    bounds: Callable[[Case], Mapping[str, float]]  # name of a count -> the most it may be for this case
    hint: Callable[[Case, str, float], str] | None = None  # of a count beyond its bound: (case, its name, what it is)

    def _weigh(self, case: Case, evidence: Any) -> Finding:
        if blocked := _blocked(evidence, "counted"):
            return blocked
        counts, bounds = evidence.get("counts", {}), self.bounds(case)
        for name, most in bounds.items():
            got = counts.get(name)
            got = got + _atomics(name, counts, bounds) if isinstance(got, int) else got
            if not isinstance(got, (int, float)) or not math.isfinite(got) or got < 0:
                return Finding(State.FAILED, f"{name} was not counted ({short(got, 40)})", share=0.0)
            if got > most:
                reason = f"{name}: {got:,.0f}, {got / most:.2f} times the bound of {most:,.0f}" if most else f"{name}: {got}"
                return Finding(State.FAILED, reason, self.hint(case, name, got) if self.hint else "", 0.0, evidence)
        return Finding(State.PASSED, evidence=evidence)


def _atomics(name: str, counts: Mapping[str, Any], bounds: Mapping[str, float]) -> int:
    """Bytes of atomics that count as loaded or stored ones."""
    what, bracket, argument = name.partition("[")
    atomics = f"atomic_bytes{bracket}{argument}"
    if what not in ("loaded_bytes", "stored_bytes") or {atomics, "atomic_bytes"} & bounds.keys():
        return 0
    return int(counts.get(atomics, 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled(Criterion):
    """The kernel compiles for each target named, fits its shared memory, does not spill, and uses tensor cores.

    Of recorded launches the worst kernel counts, but tensor cores are added up: put a Counted bound on elementwise_flops
    beside it, or a product by plain arithmetic passes next to a small tl.dot.
    """

    kind: ClassVar[Kind] = Kind.COMPILED
    targets: Sequence[str]
    tensor_cores: bool = False
    max_spills: int = 0

    def _weigh(self, case: Case, evidence: Any) -> Finding:
        if blocked := _blocked(evidence, "compiled"):
            return blocked
        reports = {report.get("target"): report for report in evidence.get("targets", ())}
        wrong = [f"{target}: {fault}" for target in self.targets if (fault := self._fault(reports.get(target)))]
        if wrong:
            return Finding(State.FAILED, "; ".join(wrong), share=0.0, evidence=evidence)
        return Finding(State.PASSED, evidence=evidence)

    def _fault(self, report: Mapping[str, Any] | None) -> str:
        if report is None:
            return "was not compiled"
        if not report.get("compiles"):
            return f"does not compile: {report.get('why_not', 'no reason was given')}"
        shared, limit = report.get("shared_bytes", math.inf), report.get("shared_limit_bytes", 0)
        if shared > limit:
            return f"needs {shared:,} bytes of shared memory, the limit is {limit:,}"
        if report.get("spills", math.inf) > self.max_spills:
            return f"spills {report.get('spills')} registers to memory, at most {self.max_spills} may"
        if self.tensor_cores and not report.get("tensor_cores"):
            return "uses no tensor core"
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed(Criterion):
    """The median of paired ratios to a named peer reaches `bar`; between `zero_at` and `bar` points grow in a straight line.

    devices  device names on which the bar was calibrated; on others the ratio is shown and the points are blocked
    goal     a ratio that earns a badge, beyond the points
    confirm  says what is wrong with the evidence of a case, or None (for what a ratio alone does not show)
    """

    kind: ClassVar[Kind] = Kind.TIMED
    bar: float
    zero_at: float = 0.0
    goal: float | None = None
    devices: Sequence[str] = ()
    confirm: Callable[[Case, Mapping[str, Any]], Mistake | None] | None = None

    def __post_init__(self) -> None:
        assert 0 <= self.zero_at < self.bar or self.bar == self.zero_at == 0, f"no line from {self.zero_at} up to {self.bar}"

    def _weigh(self, case: Case, evidence: Any) -> Finding:
        if blocked := _blocked(evidence, "timed"):
            return blocked
        ratios = [r for r in evidence.get("ratios", ()) if isinstance(r, (int, float)) and math.isfinite(r) and r > 0]
        if not ratios or len(ratios) != len(evidence["ratios"]):
            return Finding(State.BLOCKED, f"the ratios {short(evidence.get('ratios'), 80)} cannot be trusted", share=0.0)
        ratio, device = statistics.median(ratios), str(evidence.get("device", "an unnamed device"))
        shown = dict(evidence) | {"ratio": ratio}
        against = f"{ratio:.2f} of {evidence.get('peer', 'the peer')} on {device}"
        roof_share = evidence.get("roof_share", math.inf)
        if not isinstance(roof_share, (int, float)) or not roof_share <= UNTRUSTWORTHY_ROOF_SHARE:
            beyond = f"{short(roof_share, 20)} of the roof cannot be true (limit {UNTRUSTWORTHY_ROOF_SHARE})"
            reason = f"{against}, but {beyond}; measure again"
            return Finding(State.BLOCKED, reason, share=0.0)
        if self.confirm and (mistake := self.confirm(case, evidence)):
            return Finding(State.FAILED, mistake.reason, mistake.hint, 0.0, shown)
        if self.devices and device not in self.devices:
            reason = f"{against}; the bar was calibrated on {', '.join(self.devices)}, so these points wait for one of them"
            return Finding(State.BLOCKED, reason, share=0.0, evidence=shown)
        if ratio >= self.bar:
            badge = " (goal reached)" if self.goal is not None and ratio >= self.goal else ""
            return Finding(State.PASSED, against + badge, evidence=shown)
        share = max(0.0, (ratio - self.zero_at) / (self.bar - self.zero_at))
        return Finding(State.FAILED, f"{against}, the bar is {self.bar:.2f}", share=share, evidence=shown)
