"""On a CUDA device the timed part of 1.5 predicts and measures a decode stack; the plain floor does not pass for a prediction."""

import pytest
import torch

from course_lib import lab
from course_lib.grading.outcome import State
from tests.exercises.answers.phase1 import sweep as answers

pytestmark = pytest.mark.gpu
WRONG = {answer.__name__: answer for answer, _ in answers.WRONG}


def test_a_right_prediction_comes_true_within_15_percent():
    (outcome,) = lab.check_timed("1.5", answers.by_searching).verdict.outcomes
    if torch.cuda.get_device_name() != "NVIDIA H200":
        assert outcome.state is State.BLOCKED, outcome.reason
        return
    assert outcome.state is State.PASSED, outcome.reason
    pairs = zip(outcome.evidence["predicted_seconds"], outcome.evidence["measured_seconds"], strict=True)
    assert all(abs(p / m - 1) <= 0.15 for p, m in pairs), outcome.reason


def test_the_plain_floor_is_no_prediction():
    (outcome,) = lab.check_timed("1.5", WRONG["floor_only"]).verdict.outcomes
    assert outcome.state is State.FAILED, outcome.reason
