"""On a CUDA device that gpus.toml knows, the timed part of 1.1 is judged, not blocked."""

import pytest
import torch

from course_lib import lab
from course_lib.grading.outcome import ExerciseState, State

pytestmark = pytest.mark.gpu


def right(peak_tflops, hbm_gb_per_s):
    return peak_tflops.double() * 1e3 / hbm_gb_per_s.double()[:, None]


def test_a_right_answer_earns_the_timed_point_with_its_measurement():
    verdict = lab.check_timed("1.1", right).verdict
    (outcome,) = verdict.outcomes
    assert verdict.state is ExerciseState.DONE, outcome.reason
    assert 0 < outcome.evidence["roof_share"] <= 1.05
    low, high = outcome.evidence["copy_gb_per_s_spread"]
    assert low <= outcome.evidence["copy_gb_per_s"] <= high
    assert torch.cuda.get_device_name() in outcome.reason


def test_an_answer_that_is_right_on_tables_only_fails_on_the_device():
    def memorised(peak_tflops, hbm_gb_per_s):
        if peak_tflops.numel() == 1:
            return torch.full((1, 1), 295.34, dtype=torch.float64)
        return right(peak_tflops, hbm_gb_per_s)

    (outcome,) = lab.check_timed("1.1", memorised).verdict.outcomes
    assert outcome.state is State.FAILED
