"""Long evidence (make soak): over many seeds no right answer ever fails, and no wrong one ever gets by.

An answer gets 200 seeds, or as many as it can be checked with in some seconds: launches that are replayed take a second each.
"""

import time

import pytest

from course_lib.course.live import check_live
from course_lib.grading.outcome import ExerciseState, State

from .test_answers import RIGHT_ANSWERS, WRONG_ANSWERS

pytestmark = pytest.mark.soak
SEEDS, SECONDS, FEWEST = range(1000, 1200), 4.0, 3


def seeds():
    """Seeds from 1000 on, until the time is up; never fewer than three."""
    start = time.monotonic()
    for place, seed in enumerate(SEEDS):
        if place >= FEWEST and time.monotonic() - start > SECONDS:
            return
        yield seed


@pytest.mark.parametrize(("number", "answer"), RIGHT_ANSWERS, ids=lambda v: getattr(v, "__name__", ""))
def test_a_right_answer_passes_with_every_seed(number, answer):
    failed = [seed for seed in seeds() if check_live(number, answer, seed=seed).state is not ExerciseState.DONE]
    assert failed == []


@pytest.mark.parametrize(("number", "answer", "must_fail"), WRONG_ANSWERS, ids=lambda v: getattr(v, "__name__", ""))
def test_a_wrong_answer_fails_its_criteria_with_every_seed(number, answer, must_fail):
    for seed in seeds():
        outcomes = check_live(number, answer, seed=seed).outcomes
        assert {o.name for o in outcomes if o.state is State.FAILED} == must_fail, seed
