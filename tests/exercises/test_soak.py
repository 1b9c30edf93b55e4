"""Long evidence (make soak): over many seeds no right answer ever fails, and no wrong one ever gets by."""

import pytest

from course_lib.course.live import check_live
from course_lib.grading.outcome import ExerciseState, State

from .test_answers import RIGHT_ANSWERS, WRONG_ANSWERS

pytestmark = pytest.mark.soak
SEEDS = range(1000, 1200)


@pytest.mark.parametrize(("number", "answer"), RIGHT_ANSWERS, ids=lambda v: getattr(v, "__name__", ""))
def test_a_right_answer_passes_with_every_seed(number, answer):
    failed = [seed for seed in SEEDS if check_live(number, answer, seed=seed).state is not ExerciseState.DONE]
    assert failed == []


@pytest.mark.parametrize(("number", "answer", "must_fail"), WRONG_ANSWERS, ids=lambda v: getattr(v, "__name__", ""))
def test_a_wrong_answer_fails_its_criteria_with_every_seed(number, answer, must_fail):
    for seed in SEEDS:
        outcomes = check_live(number, answer, seed=seed).outcomes
        assert {o.name for o in outcomes if o.state is State.FAILED} == must_fail, seed
