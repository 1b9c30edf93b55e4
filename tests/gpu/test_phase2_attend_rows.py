"""Exercise 2.2 on a CUDA device: right kernels earn everything and reach the bar, those that read the scores again do not.
Run with -rA to see the ratios that the bar is set by.
"""

import pytest
import torch

from course_lib.course.live import check_live
from course_lib.exercises.phase2.attend_rows import BAR
from course_lib.grading.outcome import State
from tests.exercises.answers.at_top import kernels_at_top
from tests.exercises.answers.phase2 import attend_rows as answers
from tests.exercises.answers.spoiling import spoiled

pytestmark = pytest.mark.gpu

in_int32 = spoiled(answers.by_rows, "in_int32", ("tl.program_id(0).to(tl.int64)", "tl.program_id(0)"))
tiny_blocks = spoiled(answers.by_rows, "tiny_blocks", ("BLOCK=2048", "BLOCK=32"))
RIGHT = [*answers.RIGHT, *answers.MORE_RIGHT]


def timed(answer):
    (outcome,) = check_live("2.2", kernels_at_top(answer), "timed", seed=3).outcomes
    print(answer.__name__, outcome.state, outcome.reason, dict(outcome.evidence))
    return outcome


@pytest.mark.parametrize("answer", RIGHT, ids=lambda a: a.__name__)
def test_compiled_launches_of_a_right_softmax_earn_everything(answer):
    verdict = check_live("2.2", answer, seed=3)
    assert [o.state for o in verdict.outcomes] == [State.PASSED] * 6, [(o.name, o.reason) for o in verdict.outcomes]


@pytest.mark.parametrize("answer", RIGHT, ids=lambda a: a.__name__)
def test_a_right_softmax_reaches_the_bar(answer):
    outcome = timed(answer)
    assert outcome.evidence["ratio"] >= BAR, outcome.reason
    assert outcome.state is (State.PASSED if torch.cuda.get_device_name() == "NVIDIA H200" else State.BLOCKED)
    assert 0 < outcome.evidence["roof_share"] <= 1.05
    assert outcome.evidence["far"] == "right" or outcome.evidence["far"].startswith("not tried")


@pytest.mark.parametrize("answer", [answers.three_passes, answers.two_passes, tiny_blocks], ids=lambda a: a.__name__)
def test_a_slow_softmax_misses_the_bar(answer):
    outcome = timed(answer)
    assert outcome.state is not State.PASSED, outcome.reason
    assert outcome.points < outcome.max_points


def test_torch_inside_a_timed_function_is_told():
    outcome = timed(answers.by_torch)
    assert outcome.state is State.FAILED
    assert "torch worked inside your function" in outcome.reason


def test_offsets_of_32_bits_are_told_above_2_to_the_31():
    if torch.cuda.mem_get_info()[0] < 10e9:
        pytest.skip("needs 10 GB of free memory")
    outcome = timed(in_int32)
    assert outcome.state is State.FAILED
    assert "2**31 elements" in outcome.reason


@pytest.mark.parametrize(("answer", "must"), [*answers.WRONG, *answers.MORE_WRONG], ids=lambda v: getattr(v, "__name__", ""))
def test_a_wrong_softmax_is_told_on_the_device_too(answer, must):
    """Which criteria fail may differ: memory that nobody wrote is poisoned in the interpreter, and holds anything here."""
    verdict = check_live("2.2", answer, seed=3)
    failed = {o.name for o in verdict.outcomes if o.state is State.FAILED}
    assert failed & must, [(o.name, o.state, o.reason) for o in verdict.outcomes]
