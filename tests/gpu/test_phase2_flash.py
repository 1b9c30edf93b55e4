"""Exercise 2.4 on a CUDA device: right kernels earn everything, plain ones reach the bar, slow ones do not.
Run with -rA to see the ratios that the bar is set by.
"""

import pytest
import torch

from course_lib.course.live import check_live
from course_lib.exercises.phase2.flash import BAR
from course_lib.grading.outcome import State
from tests.exercises.answers.at_top import kernels_at_top
from tests.exercises.answers.phase2 import flash as answers
from tests.exercises.answers.spoiling import spoiled

pytestmark = pytest.mark.gpu

in_int32 = spoiled(answers.one_loop, "in_int32", ("(tl.program_id(1) // heads).to(tl.int64)", "tl.program_id(1) // heads"))
tiny_tiles = spoiled(
    answers.one_loop, "tiny_tiles", (answers.GRID, "(triton.cdiv(q_len, 16), batch * heads)"),
    (answers.TILES, "BM=16, BN=16, CAUSAL=causal, num_warps=1, num_stages=1"),
)  # fmt: skip
WRONG = [*answers.WRONG, *answers.MORE_WRONG, *answers.REST_WRONG]
RIGHT = [*answers.RIGHT, *answers.MORE_RIGHT]
FAST = [answers.two_loops]  # 128 x 64, 8 warps, pointers, no mask where none is needed


def timed(answer):
    (outcome,) = check_live("2.4", kernels_at_top(answer), "timed", seed=3).outcomes
    print(answer.__name__, outcome.state, outcome.reason, dict(outcome.evidence))
    return outcome


@pytest.mark.parametrize("answer", RIGHT, ids=lambda a: a.__name__)
def test_compiled_launches_of_a_right_attention_earn_everything(answer):
    verdict = check_live("2.4", answer, seed=3)
    assert [o.state for o in verdict.outcomes] == [State.PASSED] * 7, [(o.name, o.reason) for o in verdict.outcomes]


@pytest.mark.parametrize("answer", RIGHT, ids=lambda a: a.__name__)
def test_a_right_attention_is_timed_and_right_beyond_int32(answer):
    outcome = timed(answer)
    assert outcome.evidence["wrong_rounds"] == 0
    assert not outcome.evidence["torch_operations"]
    assert 0 < outcome.evidence["roof_share"] <= 1.05
    assert outcome.evidence["far"] == "right" or outcome.evidence["far"].startswith("not tried")


@pytest.mark.parametrize("answer", FAST, ids=lambda a: a.__name__)
def test_a_plain_attention_reaches_the_bar(answer):
    outcome = timed(answer)
    assert outcome.evidence["ratio"] >= BAR, outcome.reason
    assert outcome.state is (State.PASSED if torch.cuda.get_device_name() == "NVIDIA H200" else State.BLOCKED)


def test_a_slow_attention_misses_the_bar():
    outcome = timed(tiny_tiles)
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


@pytest.mark.parametrize(("answer", "must"), WRONG, ids=lambda v: getattr(v, "__name__", ""))
def test_a_wrong_attention_is_told_on_the_device_too(answer, must):
    """Which criteria fail may differ: memory that nobody wrote is poisoned in the interpreter, and holds anything here."""
    verdict = check_live("2.4", answer, seed=3)
    failed = {o.name for o in verdict.outcomes if o.state is State.FAILED}
    assert failed & must, [(o.name, o.state, o.reason) for o in verdict.outcomes]
