"""Exercise 1.3 on a device: a right timer agrees with the course's own on three kernels, and a careless one does not."""

import pytest
import torch

from course_lib.course.live import check_live
from course_lib.grading.outcome import State

from ..exercises.answers.phase1 import timer as answers

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("answer", answers.RIGHT, ids=lambda f: f.__name__)
def test_a_right_timer_agrees_on_this_device(answer):
    (outcome,) = check_live("1.3", answer, "timed").outcomes
    assert outcome.state is State.PASSED, outcome.reason


def careless_here_only(name):
    """A wrong timer that is right where the sample case of the timed part asks (a simulated kernel of milliseconds)."""
    wrong = {answer.__name__: answer for answer, _ in answers.WRONG}[name]

    def time_kernel(gpu, launch, repeats):
        real = gpu.Event is torch.cuda.Event
        return (wrong if real else answers.marks_first_read_last)(gpu, launch, repeats)

    return time_kernel


@pytest.mark.parametrize("name", ["host_clock", "in_milliseconds", "the_sum", "flush_inside_the_marks"])
def test_a_careless_timer_differs_on_this_device(name):
    (outcome,) = check_live("1.3", careless_here_only(name), "timed").outcomes
    assert outcome.state is State.FAILED, outcome.reason
