"""A verdict's score is a number between 0 and the points; its states and its JSON say the same as its outcomes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib.grading.outcome import ExerciseState, Kind, Outcome, State
from course_lib.grading.verdict import Verdict, combine

E = ExerciseState


def outcome(state=State.PASSED, points=None, most=2.0, **more):
    points = (most if state is State.PASSED else 0.0) if points is None else points
    return Outcome(more.pop("name", "n"), Kind.CORRECT, "claim", state, points, most, **more)


def verdict(*outcomes, **more):
    return Verdict("1.1", "check", outcomes, **more)


@pytest.mark.parametrize(
    ("outcomes", "state", "score", "waiting"),
    [
        ([outcome(), outcome()], E.DONE, 4, 0),
        ([outcome(), outcome(State.BLOCKED)], E.WAITING, 2, 2),
        ([outcome(State.BLOCKED)], E.WAITING, 0, 2),
        ([outcome(), outcome(State.FAILED)], E.PARTIAL, 2, 0),
        ([outcome(State.BLOCKED), outcome(State.FAILED)], E.PARTIAL, 0, 2),
        ([outcome(State.FAILED, points=1.5)], E.PARTIAL, 1.5, 0),
        ([outcome(State.PASSED, points=1.0)], E.PARTIAL, 1, 0),
    ],
)
def test_state_and_score_follow_from_the_outcomes(outcomes, state, score, waiting):
    made = verdict(*outcomes)
    assert (made.state, made.score, made.waiting_points) == (state, score, waiting)
    assert type(made.score) is float


def test_an_open_exercise_is_open_and_a_verdict_on_nothing_earns_nothing():
    assert verdict(outcome(State.FAILED), attempted=False).state is E.OPEN
    nothing = Verdict("9.9", "check", (), note="there is no exercise 9.9")
    assert (nothing.score, nothing.state) == (0.0, E.PARTIAL)


@given(st.lists(st.tuples(st.sampled_from(list(State)), st.floats(0, 5), st.floats(0, 1), st.booleans()), max_size=5))
def test_the_score_is_clamped_and_json_returns_the_same_verdict(rows):
    outcomes = [outcome(state, most * share, most, evidence={"ratio": 0.5} if r else {}) for state, most, share, r in rows]
    made = verdict(*outcomes, note="é", context={"seed": "1"})
    assert 0 <= made.score <= made.max_points
    assert Verdict.from_json(json.loads(json.dumps(made.to_json()))) == made


@pytest.mark.parametrize(
    "change",
    [{"schema": 99}, {"cell": "other"}, {"outcomes": [{}]}, {"outcomes": 3}, {"exercise": None, "outcomes": [3]}],
    ids=str,
)
def test_json_that_no_verdict_wrote_is_refused(change):
    data = verdict(outcome()).to_json()
    with pytest.raises(ValueError, match=r"verdict|cell"):
        Verdict.from_json(data | change)


@pytest.mark.parametrize("points", [-1, 3, float("nan"), float("inf"), "x"])
def test_points_outside_their_range_are_refused(points):
    data = verdict(outcome()).to_json()
    data["outcomes"][0]["points"] = points
    with pytest.raises(ValueError):  # noqa: PT011 - any message, never a verdict
        Verdict.from_json(data)


@pytest.mark.parametrize(
    ("states", "cells", "whole"),
    [
        ([], 2, E.OPEN), ([E.OPEN, E.OPEN], 2, E.OPEN), ([E.OPEN], 2, E.OPEN), ([E.DONE], 2, E.PARTIAL), ([E.DONE], 1, E.DONE),
        ([E.DONE, E.WAITING], 2, E.WAITING), ([E.DONE, E.DONE], 2, E.DONE), ([E.PARTIAL, E.DONE], 2, E.PARTIAL),
        ([E.DONE, E.OPEN], 2, E.PARTIAL), ([E.WAITING], 1, E.WAITING),
    ],
)  # fmt: skip
def test_an_exercise_is_done_only_when_each_cell_is(states, cells, whole):
    assert combine(states, cells) is whole
