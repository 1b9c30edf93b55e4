"""What a criterion and an exercise end as: three states for a criterion, four for an exercise, and the words for them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """The four kinds of evidence."""

    CORRECT = "correct"
    COUNTED = "counted"
    COMPILED = "compiled"
    TIMED = "timed"


class State(StrEnum):
    """How one criterion ended."""

    PASSED = "passed"
    FAILED = "failed"
    BLOCKED = "blocked"


class ExerciseState(StrEnum):
    """How far an exercise is. WAITING: all that this machine can judge is done, the rest needs another one."""

    OPEN = "open"
    PARTIAL = "partial"
    WAITING = "done, timing waiting"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Mistake:
    """Why an answer is wrong: what differs and where, and a hint at the kind of mistake (never the answer)."""

    reason: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of one criterion. `points` were earned of `max_points`; a blocked one earns none and loses none."""

    name: str
    kind: Kind
    claim: str
    state: State
    points: float
    max_points: float
    reason: str = ""
    hint: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)

    @property
    def waiting_points(self) -> float:
        return self.max_points - self.points if self.state is State.BLOCKED else 0.0

    @property
    def ratio(self) -> float | None:
        """Measured speed as a ratio to the named peer, if it was measured."""
        return self.evidence.get("ratio")

    def to_json(self) -> dict:
        return {
            "name": self.name, "kind": str(self.kind), "claim": self.claim, "state": str(self.state),
            "points": self.points, "max_points": self.max_points, "reason": self.reason, "hint": self.hint,
            "evidence": dict(self.evidence),
        }  # fmt: skip
