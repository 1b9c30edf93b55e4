"""Exercise 2.9 on a CUDA device: right answers earn everything, plain ones reach the bars, an unsplit long context does not.
Run with -rA to see the ratios that the bars are set by.
"""

import pytest
import torch

from course_lib.course.live import check_live
from course_lib.exercises.phase2.split_decode import BATCH_BAR, LONG_BAR
from course_lib.grading.outcome import State
from tests.exercises.answers.phase2 import split_decode as answers
from tests.exercises.answers.spoiling import spoiled

pytestmark = pytest.mark.gpu

BLOCK = "mask=live, other=0).to(tl.int64)"
in_int32 = spoiled(answers.quarter_shares, "in_int32", (BLOCK, "mask=live, other=0)"))
WRONG = [*answers.WRONG, *answers.MORE_WRONG, *answers.REST_WRONG]
RIGHT = [*answers.RIGHT, *answers.MORE_RIGHT]
FAST = [answers.one_wave, answers.quarter_shares]
BARS = {"one long context": LONG_BAR, "a batch": BATCH_BAR}


def timed(answer):
    outcomes = {o.name: o for o in check_live("2.9", answer, "timed", seed=3).outcomes}
    for outcome in outcomes.values():
        print(answer.__name__, outcome.name, outcome.state, outcome.reason, dict(outcome.evidence))
    return outcomes


@pytest.mark.parametrize("answer", RIGHT, ids=lambda a: a.__name__)
def test_compiled_launches_of_a_right_answer_earn_everything(answer):
    verdict = check_live("2.9", answer, seed=3)
    assert [o.state for o in verdict.outcomes] == [State.PASSED] * 9, [(o.name, o.reason) for o in verdict.outcomes]


@pytest.mark.parametrize("answer", RIGHT, ids=lambda a: a.__name__)
def test_a_right_answer_is_timed_and_right_beyond_int32(answer):
    for outcome in timed(answer).values():
        assert outcome.evidence["wrong_rounds"] == 0
        assert not outcome.evidence["torch_operations"]
        assert 0 < outcome.evidence["roof_share"] <= 1.05
        assert outcome.evidence["far"] == "right" or outcome.evidence["far"].startswith("not tried")


@pytest.mark.parametrize("answer", FAST, ids=lambda a: a.__name__)
def test_a_plain_answer_reaches_the_bars(answer):
    for name, outcome in timed(answer).items():
        assert outcome.evidence["ratio"] >= BARS[name], outcome.reason
        assert outcome.state is (State.PASSED if torch.cuda.get_device_name() == "NVIDIA H200" else State.BLOCKED)


def test_a_plan_that_cuts_nothing_misses_the_bar_of_a_long_context():
    found = timed(answers.unsplit)
    assert found["one long context"].state is not State.PASSED
    assert found["one long context"].points < 0.5, found["one long context"].reason


def test_a_head_for_each_program_misses_the_bar_of_a_batch():
    outcome = timed(answers.a_head_each)["a batch"]
    assert outcome.state is not State.PASSED, outcome.reason


def test_torch_inside_a_timed_function_is_told():
    for outcome in timed(answers.by_torch).values():
        assert outcome.state is State.FAILED


def test_offsets_of_32_bits_are_told_above_2_to_the_31():
    if torch.cuda.mem_get_info()[0] < 10e9:
        pytest.skip("needs 10 GB of free memory")
    for outcome in timed(in_int32).values():
        assert outcome.state is State.FAILED
        assert "2**31 elements" in outcome.reason


@pytest.mark.parametrize(("answer", "must"), WRONG, ids=lambda v: getattr(v, "__name__", ""))
def test_a_wrong_answer_is_told_on_the_device_too(answer, must):
    """Which criteria fail may differ: memory that nobody wrote is poisoned in the interpreter, and holds anything here."""
    verdict = check_live("2.9", answer, seed=3)
    failed = {o.name for o in verdict.outcomes if o.state is State.FAILED}
    assert failed & must, [(o.name, o.state, o.reason) for o in verdict.outcomes]
