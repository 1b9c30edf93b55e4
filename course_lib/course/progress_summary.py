"""From events to progress: the best result of each cell, the state of each exercise, the sums of each phase."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ..exercises.phases import Phase
from ..grading.exercise import Exercise
from ..grading.outcome import ExerciseState
from ..grading.verdict import combine

_RANK = (ExerciseState.OPEN, ExerciseState.PARTIAL, ExerciseState.WAITING, ExerciseState.DONE)


class PhaseState(StrEnum):
    EMPTY = "no exercises yet"
    OPEN = "not started"
    STARTED = "in progress"
    WAITING = "done, timing waiting"
    COMPLETE = "complete"


@dataclass(frozen=True, slots=True)
class ExerciseProgress:
    id: str
    title: str
    state: ExerciseState
    points: float
    max_points: float
    waiting_points: float
    best_ratio: float | None  # the best speed ever measured, as a ratio to the exercise's peer

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id, "title": self.title, "state": str(self.state), "points": self.points,
            "max_points": self.max_points, "waiting_points": self.waiting_points, "best_ratio": self.best_ratio,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class PhaseProgress:
    number: int
    name: str
    title: str
    exercises: tuple[ExerciseProgress, ...]

    @property
    def points(self) -> float:
        return sum(e.points for e in self.exercises)

    @property
    def max_points(self) -> float:
        return sum(e.max_points for e in self.exercises)

    @property
    def waiting_points(self) -> float:
        return sum(e.waiting_points for e in self.exercises)

    @property
    def best_ratio(self) -> float | None:
        return max((e.best_ratio for e in self.exercises if e.best_ratio is not None), default=None)

    @property
    def counts(self) -> dict[str, int]:
        """Number of exercises in each of the four states, zeros included."""
        counted = Counter(e.state for e in self.exercises)
        return {str(state): counted[state] for state in ExerciseState}

    @property
    def state(self) -> PhaseState:
        """Complete only when it has exercises and all are done; waiting when all are done but for timing."""
        states = {e.state for e in self.exercises}
        if not states:
            return PhaseState.EMPTY
        if states == {ExerciseState.OPEN}:
            return PhaseState.OPEN
        if states == {ExerciseState.DONE}:
            return PhaseState.COMPLETE
        return PhaseState.WAITING if states <= {ExerciseState.DONE, ExerciseState.WAITING} else PhaseState.STARTED

    def to_json(self) -> dict[str, Any]:
        return {
            "number": self.number, "name": self.name, "title": self.title, "state": str(self.state),
            "points": self.points, "max_points": self.max_points, "waiting_points": self.waiting_points,
            "best_ratio": self.best_ratio, "counts": self.counts, "exercises": [e.to_json() for e in self.exercises],
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Summary:
    """Progress in the whole course. `messages` are sentences for the user: what could not be read or saved, and what to do."""

    phases: tuple[PhaseProgress, ...]
    messages: list[str] = field(default_factory=list)

    @property
    def completed(self) -> int:
        return sum(phase.state is PhaseState.COMPLETE for phase in self.phases)

    @property
    def total(self) -> int:
        return len(self.phases)

    @property
    def percent(self) -> int:
        """Whole per cent of the phases, rounded down: 1 of 3 is 33."""
        return 100 * self.completed // self.total if self.total else 0

    @property
    def text(self) -> str:
        return f"{self.completed} of {self.total} phases ({self.percent}%)"

    def to_json(self) -> dict[str, Any]:
        return {
            "completed": self.completed, "total": self.total, "percent": self.percent, "text": self.text,
            "phases": [phase.to_json() for phase in self.phases], "messages": list(self.messages),
        }  # fmt: skip


def summarise(
    events: Sequence[dict[str, Any]], exercises: Iterable[Exercise], phases: Iterable[Phase], messages: Iterable[str] = ()
) -> Summary:
    """Events of exercises or cells that `exercises` does not have are passed over."""
    of_exercise: dict[str, list[dict]] = {}
    for event in events:
        of_exercise.setdefault(event["exercise"], []).append(event)
    known = [(e.phase, _of_exercise(e, of_exercise.get(e.id, []))) for e in exercises]
    return Summary(
        tuple(PhaseProgress(p.number, p.name, p.title, tuple(e for n, e in known if n == p.number)) for p in phases),
        list(messages),
    )


def _of_exercise(exercise: Exercise, events: list[dict[str, Any]]) -> ExerciseProgress:
    best = []
    ratios = [event["best_ratio"] for event in events if event["best_ratio"] is not None and event["cell"] in exercise.cells]
    for cell in exercise.cells:
        results = [_as_of_today(event, exercise.points(cell)) for event in events if event["cell"] == cell]
        if results:
            best.append(max(results, key=_merit))
    state = combine([result["state"] for result in best], len(exercise.cells))
    points, waiting = sum(r["score"] for r in best), sum(r["waiting_points"] for r in best)
    return ExerciseProgress(
        exercise.id, exercise.title, state, points, exercise.points(), waiting, max(ratios, default=None)
    )


def _as_of_today(event: dict[str, Any], cell_points: float) -> dict[str, Any]:
    """The event by the points its cell has now: clamped, and no longer done when a part was added since."""
    score = min(event["score"], cell_points)
    waiting = min(event["waiting_points"], cell_points - score)
    state = ExerciseState(event["state"])
    if state in (ExerciseState.DONE, ExerciseState.WAITING) and score + waiting < cell_points - 1e-9:
        state = ExerciseState.PARTIAL
    return {"score": score, "waiting_points": waiting, "state": state, "at": event["at"]}


def _merit(result: dict[str, Any]) -> tuple:
    """Highest score, then furthest state, then fewest waiting points, then newest.

    The state stands before the waiting points: a wrong answer (0 points, none waiting) must not hide the right one that
    came after it on a machine without a GPU (0 points, all waiting).
    """
    return result["score"], _RANK.index(result["state"]), -result["waiting_points"], result["at"]
