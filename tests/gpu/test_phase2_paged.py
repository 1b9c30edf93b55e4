"""Exercise 2.8 on a CUDA device: right kernels earn everything, plain ones reach the bar, slow ones do not.
Run with -rA to see the ratios that the bar is set by.
"""

import pytest
import torch

from course_lib.course.live import check_live
from course_lib.exercises.phase2.paged import BAR, ZERO_AT
from course_lib.grading.outcome import State
from tests.exercises.answers.at_top import kernels_at_top
from tests.exercises.answers.phase2 import paged as answers
from tests.exercises.answers.spoiling import spoiled

pytestmark = pytest.mark.gpu

in_int32 = spoiled(answers.one_tile, "in_int32", ("other=0).to(tl.int64)", "other=0)"))
write_in_int32 = spoiled(
    answers.one_tile, "write_in_int32", ("slot = tl.load(slots_ptr + token)", "slot = tl.load(slots_ptr + token).to(tl.int32)")
)
token_by_token = spoiled(answers.one_tile, "token_by_token", (answers.TILE, "TILE=1, D=dim, num_warps=1,\n"))
SLOW = [answers.gathers_first, token_by_token]
WRONG = [*answers.WRONG, *answers.MORE_WRONG, *answers.REST_WRONG]
RIGHT = [*answers.RIGHT, *answers.MORE_RIGHT, *answers.REST_RIGHT]
FAST = [answers.one_tile, answers.tensor_cores]


def timed(answer):
    (outcome,) = check_live("2.8", kernels_at_top(answer), "timed", seed=3).outcomes
    print(answer.__name__, outcome.state, outcome.reason, dict(outcome.evidence))
    return outcome


@pytest.mark.parametrize("answer", RIGHT, ids=lambda a: a.__name__)
def test_compiled_launches_of_a_right_cache_earn_everything(answer):
    verdict = check_live("2.8", answer, seed=3)
    assert [o.state for o in verdict.outcomes] == [State.PASSED] * 10, [(o.name, o.reason) for o in verdict.outcomes]


@pytest.mark.parametrize("answer", RIGHT, ids=lambda a: a.__name__)
def test_a_right_decode_is_timed_and_right_beyond_int32(answer):
    outcome = timed(answer)
    assert outcome.evidence["wrong_rounds"] == 0
    assert not outcome.evidence["torch_operations"]
    assert 0 < outcome.evidence["roof_share"] <= 1.05
    assert outcome.evidence["far"] == "right" or outcome.evidence["far"].startswith("not tried")


@pytest.mark.parametrize("answer", FAST, ids=lambda a: a.__name__)
def test_a_plain_decode_reaches_the_bar(answer):
    outcome = timed(answer)
    assert outcome.evidence["ratio"] >= BAR, outcome.reason
    assert outcome.state is (State.PASSED if torch.cuda.get_device_name() == "NVIDIA H200" else State.BLOCKED)


@pytest.mark.parametrize("answer", SLOW, ids=lambda a: a.__name__)
def test_a_slow_decode_earns_nothing(answer):
    outcome = timed(answer)
    assert outcome.evidence["ratio"] < ZERO_AT, outcome.reason
    assert outcome.points == 0


def test_torch_inside_a_timed_function_is_told():
    outcome = timed(answers.by_torch)
    assert outcome.state is State.FAILED


@pytest.mark.parametrize("answer", [in_int32, write_in_int32], ids=lambda a: a.__name__)
def test_offsets_of_32_bits_are_told_above_2_to_the_31(answer):
    if torch.cuda.mem_get_info()[0] < 10e9:
        pytest.skip("needs 10 GB of free memory")
    outcome = timed(answer)
    assert outcome.state is State.FAILED
    assert "2**31 elements" in outcome.reason


@pytest.mark.parametrize(("answer", "must"), WRONG, ids=lambda v: getattr(v, "__name__", ""))
def test_a_wrong_cache_is_told_on_the_device_too(answer, must):
    """Which criteria fail may differ: memory that nobody wrote is poisoned in the interpreter, and holds anything here."""
    verdict = check_live("2.8", answer, seed=3)
    failed = {o.name for o in verdict.outcomes if o.state is State.FAILED}
    assert failed & must, [(o.name, o.state, o.reason) for o in verdict.outcomes]
