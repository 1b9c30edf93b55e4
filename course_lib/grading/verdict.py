"""A verdict: the outcomes of one exercise cell (its check or its timed part), as data that can be stored and compared."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .outcome import ExerciseState, Kind, Outcome, State

MIME = "application/vnd.course.verdict+json"
SCHEMA = 1
CELLS = ("check", "timed")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was decided about one grade cell.

    cell       "check" (everything but time) or "timed"
    attempted  False while the answer still raises NotImplementedError
    context    run id, seed, device, versions, what was printed: told beside the verdict, no part of it
    """

    exercise: str
    cell: str
    outcomes: tuple[Outcome, ...]
    attempted: bool = True
    note: str = ""
    context: Mapping[str, Any] = field(default_factory=dict)

    @property
    def max_points(self) -> float:
        return sum(outcome.max_points for outcome in self.outcomes)

    @property
    def score(self) -> float:
        """Points earned, between 0 and max_points whatever the outcomes say."""
        return float(min(max(sum(outcome.points for outcome in self.outcomes), 0.0), self.max_points))

    @property
    def waiting_points(self) -> float:
        return sum(outcome.waiting_points for outcome in self.outcomes)

    @property
    def best_ratio(self) -> float | None:
        return max((o.ratio for o in self.outcomes if o.ratio is not None), default=None)

    @property
    def state(self) -> ExerciseState:
        """State of this cell alone; the exercise's is worked out from all of its cells (`combine`)."""
        if not self.attempted:
            return ExerciseState.OPEN
        states = {outcome.state for outcome in self.outcomes}
        if not states or State.FAILED in states or self.score + self.waiting_points < self.max_points:
            return ExerciseState.PARTIAL
        return ExerciseState.WAITING if State.BLOCKED in states else ExerciseState.DONE

    def to_json(self) -> dict:
        return {
            "schema": SCHEMA, "exercise": self.exercise, "cell": self.cell, "state": str(self.state),
            "attempted": self.attempted, "score": self.score, "max_points": self.max_points,
            "waiting_points": self.waiting_points, "best_ratio": self.best_ratio, "note": self.note,
            "outcomes": [outcome.to_json() for outcome in self.outcomes], "context": dict(self.context),
        }  # fmt: skip

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Verdict":
        """Raises ValueError on anything that `to_json` of this or an older version did not write."""
        try:
            if data["schema"] > SCHEMA:
                raise ValueError(f"verdict of schema {data['schema']}; this course reads up to {SCHEMA}: update it")
            outcomes = tuple(_outcome(row) for row in data["outcomes"])
            cell = data["cell"]
            if cell not in CELLS:
                raise ValueError(f"cell {cell!r}; known are {CELLS}")
            return cls(str(data["exercise"]), cell, outcomes, bool(data["attempted"]), str(data["note"]),
                       dict(data["context"]))  # fmt: skip
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"not a verdict: {error!r}") from error


def _outcome(row: Mapping[str, Any]) -> Outcome:
    points, max_points = float(row["points"]), float(row["max_points"])
    if not 0 <= points <= max_points < float("inf"):
        raise ValueError(f"{points} points of {max_points} in a verdict")
    return Outcome(str(row["name"]), Kind(row["kind"]), str(row["claim"]), State(row["state"]), points, max_points,
                   str(row["reason"]), str(row["hint"]), dict(row["evidence"]))  # fmt: skip


def combine(states: list[ExerciseState], num_cells: int) -> ExerciseState:
    """State of an exercise from the best result of each of its cells; `num_cells` of them exist.

    Two cells: [done] -> partial (the other was never run), [done, waiting] -> waiting, [done, done] -> done.
    """
    if all(state is ExerciseState.OPEN for state in states):
        return ExerciseState.OPEN
    finished = (ExerciseState.DONE, ExerciseState.WAITING)
    if len(states) < num_cells or any(state not in finished for state in states):
        return ExerciseState.PARTIAL
    return ExerciseState.WAITING if ExerciseState.WAITING in states else ExerciseState.DONE
