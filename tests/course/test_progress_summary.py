"""What the events add up to. Events are made here; nothing is stored."""

import itertools

import pytest

from course_lib.course.progress_event import new_event
from course_lib.course.progress_summary import summarise
from course_lib.grading.outcome import ExerciseState

from .progress_helpers import PHASES, exercise, verdict

PLAIN = exercise("1.1", check=2)
TIMED = exercise("1.2", check=4, timed=6)


def events(*verdicts):
    """One event per verdict, a second apart."""
    made = [new_event(v, "live") for v in verdicts]
    return [dict(e, at=f"2026-01-01T00:00:{i:02d}.000000Z") for i, e in enumerate(made)]


def phase_1(exercises, *verdicts):
    return summarise(events(*verdicts), exercises, PHASES).phases[0]


def of(exercise_, *verdicts):
    return phase_1([exercise_], *verdicts).exercises[0]


def test_a_new_learner_is_at_0_of_4_phases():
    summary = summarise([], [PLAIN, TIMED], PHASES)
    assert summary.text == "0 of 4 phases (0%)"
    first = summary.phases[0].to_json()
    assert (first["points"], first["max_points"], first["waiting_points"], first["best_ratio"]) == (0, 12, 0, None)
    assert first["counts"] == {"open": 2, "partial": 0, "done, timing waiting": 0, "done": 0}
    assert [p.state for p in summary.phases] == ["not started"] + 3 * ["no exercises yet"]


@pytest.mark.parametrize("done", range(5))
def test_percent_counts_whole_phases(done):
    exercises = [exercise(f"{n}.1") for n in (1, 2, 3, 4)]
    summary = summarise(events(*(verdict(f"{n}.1", 2) for n in range(1, done + 1))), exercises, PHASES)
    assert summary.text == f"{done} of 4 phases ({25 * done}%)"


def test_percent_is_rounded_down_and_no_phases_are_0_percent():
    exercises = [exercise("1.1"), exercise("2.1"), exercise("3.1")]
    two = summarise(events(verdict("1.1", 2), verdict("2.1", 2)), exercises, PHASES[:3])
    assert two.text == "2 of 3 phases (66%)"
    assert summarise([], [], []).text == "0 of 0 phases (0%)"


@pytest.mark.parametrize("score", [0, 1, 1.999])
def test_a_partial_result_never_completes_a_phase(score):
    phase = phase_1([PLAIN], verdict("1.1", score))
    assert phase.exercises[0].state is ExerciseState.PARTIAL
    assert phase.state == "in progress"


def test_one_cell_of_two_is_partial_and_both_are_done():
    check, timed = verdict("1.2", 4, 4), verdict("1.2", 6, 6, cell="timed", ratio=1.1)
    assert of(TIMED, check).state is ExerciseState.PARTIAL
    assert of(TIMED, timed).state is ExerciseState.PARTIAL
    both = of(TIMED, check, timed)
    assert (both.state, both.points, both.best_ratio) == (ExerciseState.DONE, 10, 1.1)


def test_waiting_points_make_the_exercise_and_the_phase_wait_and_are_no_points():
    phase = phase_1([TIMED], verdict("1.2", 4, 4), verdict("1.2", 0, 6, waiting=6, cell="timed"))
    assert (phase.points, phase.waiting_points, phase.max_points) == (4, 6, 10)
    assert phase.exercises[0].state is ExerciseState.WAITING
    assert phase.state == "done, timing waiting"
    assert summarise([], [TIMED], PHASES).completed == 0


def test_a_phase_with_one_exercise_open_is_in_progress():
    assert phase_1([PLAIN, TIMED], verdict("1.1", 2)).state == "in progress"


def test_a_worse_try_later_loses_nothing():
    good = [verdict("1.2", 4, 4), verdict("1.2", 5, 6, cell="timed", ratio=0.9)]
    bad = [verdict("1.2", 1, 4), verdict("1.2", 0, 6, cell="timed", ratio=0.2), verdict("1.2", 0, 4, attempted=False)]
    for order in itertools.permutations(good + bad):
        got = of(TIMED, *order)
        assert (got.points, got.best_ratio, got.state) == (9, 0.9, ExerciseState.PARTIAL)


WRONG, WAITS = verdict("1.2", 0, 6, cell="timed"), verdict("1.2", 0, 6, waiting=6, cell="timed")
STUB = verdict("1.2", 0, 6, cell="timed", attempted=False)


@pytest.mark.parametrize("order", list(itertools.permutations([WRONG, WAITS, STUB])))
def test_wrong_answers_and_stubs_do_not_hide_the_right_answer_that_waits_for_a_gpu(order):
    got = of(TIMED, verdict("1.2", 4, 4), *order)
    assert (got.state, got.waiting_points) == (ExerciseState.WAITING, 6)


def test_of_equal_scores_the_one_with_fewer_waiting_points_counts():
    waits_more = verdict("1.1", 1, 4, waiting=2)
    waits_less = verdict("1.1", 1, 4, waiting=1)
    assert of(exercise("1.1", check=4), waits_less, waits_more).waiting_points == 1


def test_the_best_ratio_is_the_best_ever_measured_even_of_a_result_that_earned_less():
    fast_but_wrong = verdict("1.2", 1, 6, cell="timed", ratio=1.4)
    assert of(TIMED, fast_but_wrong, verdict("1.2", 6, 6, cell="timed", ratio=1.1)).best_ratio == 1.4


def test_exercises_and_cells_this_version_does_not_know_are_passed_over():
    phase = phase_1([PLAIN], verdict("1.9", 5, 5), verdict("7.1", 1, 1), verdict("1.1", 9, 9, cell="timed", ratio=3.0))
    assert (phase.points, phase.max_points, phase.best_ratio) == (0, 2, None)
    assert phase.exercises[0].state is ExerciseState.OPEN


def test_when_an_exercise_lost_points_old_results_are_clamped():
    got = of(PLAIN, verdict("1.1", 5, 5))
    assert (got.points, got.max_points, got.state) == (2, 2, ExerciseState.DONE)
    old_waits = of(PLAIN, verdict("1.1", 1, 5, waiting=4))
    assert (old_waits.points, old_waits.waiting_points, old_waits.state) == (1, 1, ExerciseState.WAITING)


def test_when_an_exercise_gained_a_part_an_old_full_result_is_no_longer_done():
    got = of(exercise("1.1", check=3), verdict("1.1", 2, 2))
    assert (got.points, got.state) == (2, ExerciseState.PARTIAL)


def test_the_json_says_what_the_summary_says():
    import json

    summary = summarise(events(verdict("1.1", 2)), [PLAIN, exercise("2.1")], PHASES, ["a message"])
    data = json.loads(json.dumps(summary.to_json(), allow_nan=False))
    assert (data["completed"], data["total"], data["percent"], data["messages"]) == (1, 4, 25, ["a message"])
    assert data["phases"][0]["exercises"] == [
        {"id": "1.1", "title": "Exercise 1.1", "state": "done", "points": 2, "max_points": 2, "waiting_points": 0,
         "best_ratio": None}
    ]  # fmt: skip
