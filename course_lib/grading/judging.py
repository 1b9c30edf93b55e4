"""From an exercise to jobs, from attempts to a verdict. The attempts are made elsewhere: live, or in a child process.

plan() and conclude() are the same for both ways; only what stands between them differs.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .criteria import Case, Criterion, Finding
from .evidence import json_safe
from .exercise import Exercise
from .inside.border import printable
from .outcome import Kind, Outcome, State
from .verdict import Verdict


@dataclass(frozen=True, slots=True)
class Job:
    """One call of the learner's function: which criterion asks, with which case."""

    criterion: int
    case: Case

    def request(self, criteria: Sequence[Criterion]) -> dict:
        """What the process beside the learner's code needs to know, as plain data."""
        criterion = criteria[self.criterion]
        return {"run": criterion.run, "observe": criterion.observe, "launches": criterion.launches, "case": self.case}


def plan(exercise: Exercise, cell: str, seed: int) -> list[Job]:
    """The jobs of a grade cell, in order. Each criterion draws its cases from a seed of its own."""
    import torch

    jobs = []
    with torch.device("cpu"):  # whatever default a notebook has set
        for index, criterion in enumerate(exercise.in_cell(cell)):
            cases = criterion.cases(derive_seed(seed, exercise.id, criterion.name))
            assert cases, f"criterion {criterion.name!r} of {exercise.id} has no cases"
            jobs += [Job(index, case) for case in cases]
    return jobs


def derive_seed(seed: int, *names: str) -> int:
    """A 63-bit seed from a seed and names; different names give unrelated seeds."""
    digest = hashlib.sha256("\0".join([str(seed), *names]).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def conclude(
    exercise: Exercise,
    cell: str,
    jobs: Sequence[Job],
    attempts: Sequence[Mapping[str, Any]],
    context: Mapping[str, Any] | None = None,
) -> Verdict:
    """The verdict, from one attempt for each job. Attempts are untrusted: they come from beside the learner's code."""
    assert len(jobs) == len(attempts), f"{len(jobs)} jobs, {len(attempts)} attempts"
    import torch

    attempted = not _is_open(exercise, attempts)
    outcomes = []
    with torch.device("cpu"):
        for index, criterion in enumerate(exercise.in_cell(cell)):
            mine = [(job.case, attempt) for job, attempt in zip(jobs, attempts, strict=True) if job.criterion == index]
            outcomes.append(_outcome(criterion, [_finding(criterion, case, attempt) for case, attempt in mine], mine))
    printed = next((printable(attempt["printed"]) for attempt in attempts if attempt["printed"]), "")
    note = "" if attempted else printable(attempts[0]["message"])
    return Verdict(exercise.id, cell, tuple(outcomes), attempted, note, {**(context or {}), "printed": printed})


def _is_open(exercise: Exercise, attempts: Sequence[Mapping[str, Any]]) -> bool:
    """True for a stub: every case raised NotImplementedError with the exercise's number. torch raises that error as well."""
    stub = f"{exercise.id}:"
    return bool(attempts) and all(a["status"] == "open" and str(a["message"]).startswith(stub) for a in attempts)


def refused(exercise: Exercise, cell: str, reason: str, context: Mapping[str, Any] | None = None) -> Verdict:
    """A verdict without any attempt: every criterion failed for one reason (no function, a wrong signature, a dead process)."""
    outcomes = tuple(
        Outcome(c.name, c.kind, c.claim, State.FAILED, 0.0, c.points, printable(reason)) for c in exercise.in_cell(cell)
    )
    return Verdict(exercise.id, cell, outcomes, context=dict(context or {}))


def _finding(criterion: Criterion, case: Case, attempt: Mapping[str, Any]) -> Finding:
    status = attempt["status"]
    if status == "returned":
        return criterion.judge(case, attempt)
    return Finding(State.FAILED, _failure(status, attempt), share=0.0)


def _failure(status: str, attempt: Mapping[str, Any]) -> str:
    where = f" ({attempt['where']})" if attempt["where"] else ""
    message = str(attempt["message"])
    return {
        "open": f"raised NotImplementedError: {message}{where}",
        "raised": f"raised {message}{where}",
        "exited": f"called {message}{where}; an answer must return",
        "interrupted": f"was interrupted after {attempt['seconds']:.1f} s{where}",
        "timeout": f"ran longer than its limit: {message}",
        "died": f"took its process down: {message}",
        "malformed": message,
    }.get(status, f"ended as {status!r}: {message}")


def _outcome(criterion: Criterion, findings: Sequence[Finding], cases: Sequence[tuple[Case, Any]]) -> Outcome:
    """One outcome from its cases: the first failed one decides, then the first blocked; partial points are the least share."""
    order = (State.FAILED, State.BLOCKED, State.PASSED)
    place = min(range(len(findings)), key=lambda i: (order.index(findings[i].state), i))
    worst, case = findings[place], cases[place][0]
    state = worst.state
    partial = criterion.kind is Kind.TIMED and state is State.FAILED
    share = min(f.share for f in findings if f.state is not State.BLOCKED) if partial else float(state is State.PASSED)
    many = len(findings) > 1 and state is State.FAILED and cases[place][1]["status"] == "returned"
    reason = f"case '{case.get('name', place)}': {worst.reason}" if many else worst.reason
    ratios = [f.evidence["ratio"] for f in findings if f.evidence and "ratio" in f.evidence]
    evidence = json_safe(worst.evidence or {}) | ({"ratio": min(ratios)} if ratios else {})
    points = criterion.points * share
    texts = printable(reason), printable(worst.hint)
    return Outcome(criterion.name, criterion.kind, criterion.claim, state, points, criterion.points, *texts, evidence)
