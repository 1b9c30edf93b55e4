"""Exercise 1.9 on a CUDA device: replays reach the bar, launches one by one do not, and stale memory is found there too.

Run with -rA to see the ratios that the bar is set by.
"""

import pytest
import torch

from course_lib.course.live import check_live
from course_lib.grading.outcome import ExerciseState, State
from tests.exercises.answers.phase1 import graphs as answers

pytestmark = pytest.mark.gpu


def timed(answer):
    (outcome,) = check_live("1.9", answer, "timed", seed=3).outcomes
    print(answer.__name__, outcome.state, outcome.reason, dict(outcome.evidence))
    return outcome


@pytest.mark.parametrize("answer", answers.RIGHT, ids=lambda a: a.__name__)
def test_a_right_answer_reaches_the_bar(answer):
    outcome = timed(answer)
    assert outcome.evidence["wrong"] == ""
    assert outcome.evidence["ratio"] >= 0.9, outcome.reason
    assert outcome.evidence["eager_ratio"] > 1.5
    assert 0 < outcome.evidence["roof_share"] <= 1.05
    assert outcome.state is (State.PASSED if torch.cuda.get_device_name() == "NVIDIA H200" else State.BLOCKED)


@pytest.mark.parametrize("answer", [answers.every_kernel_by_hand, answers.replayed_and_run_as_well], ids=lambda a: a.__name__)
def test_kernels_launched_one_by_one_miss_the_bar(answer):
    outcome = timed(answer)
    assert outcome.state is not State.PASSED, outcome.reason
    assert outcome.evidence["ratio"] < 0.9
    assert outcome.points < outcome.max_points


STALE = [answers.never_copies_in, answers.name_bound_anew, answers.hands_out_its_own_memory, answers.made_inside_the_capture]


@pytest.mark.parametrize("answer", STALE, ids=lambda a: a.__name__)
def test_stale_memory_is_found_on_the_device(answer):
    outcome = timed(answer)
    assert outcome.state is State.FAILED
    assert "differs from the step" in outcome.reason


@pytest.mark.parametrize("answer", answers.RIGHT, ids=lambda a: a.__name__)
def test_the_simulated_device_is_used_on_a_gpu_machine_too(answer):
    verdict = check_live("1.9", answer, seed=3)
    assert verdict.state is ExerciseState.DONE, [(o.name, o.reason) for o in verdict.outcomes]
