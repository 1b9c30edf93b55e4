"""Exercise 1.4 on a CUDA device: compiled launches are judged like interpreted ones, right copies reach the bar, slow ones and
cheats do not. Run with -rA to see the ratios that the bar is set by.
"""

import pytest
import torch

from course_lib.course.live import check_live
from course_lib.exercises.phase1.copy import BAR
from course_lib.grading.outcome import State
from tests.exercises.answers.at_top import kernels_at_top
from tests.exercises.answers.phase1 import copy as answers
from tests.exercises.answers.spoiling import spoiled

pytestmark = pytest.mark.gpu

LAUNCH, END = answers.LAUNCH, answers.END
in_int32 = spoiled(answers.by_blocks, "in_int32", (".to(tl.int64)", ""))
tiny_blocks = spoiled(answers.by_blocks, "tiny_blocks", (answers.GRID, "(triton.cdiv(n, 32),)"), ("BLOCK=2048", "BLOCK=32"))
half_of_it = spoiled(answers.by_blocks, "half_of_it", (LAUNCH, f"n = n if n < 2**20 else n // 2\n    {LAUNCH}"))
REMEMBER = "n = 0 if x.data_ptr() in SEEN else x.numel()\n    SEEN.add(x.data_ptr())"
once = spoiled(answers.by_blocks, "once", ("n = x.numel()", REMEMBER))
ASIDE = f"with __import__('torch').cuda.stream(SIDE):\n        {LAUNCH}"
elsewhere = spoiled(answers.by_blocks, "elsewhere", (LAUNCH, ASIDE))


@pytest.fixture(autouse=True)
def side_stream():
    elsewhere.__globals__["SIDE"] = torch.cuda.Stream()  # copied along by kernels_at_top
    once.__globals__["SEEN"] = set()


def timed(answer):
    (outcome,) = check_live("1.4", kernels_at_top(answer), "timed", seed=3).outcomes
    print(answer.__name__, outcome.state, outcome.reason, dict(outcome.evidence))
    return outcome


@pytest.mark.parametrize("answer", [*answers.RIGHT, *answers.MORE_RIGHT], ids=lambda a: a.__name__)
def test_compiled_launches_of_a_right_copy_earn_everything(answer):
    verdict = check_live("1.4", answer, seed=3)
    assert [o.state for o in verdict.outcomes] == [State.PASSED] * 5, [(o.name, o.reason) for o in verdict.outcomes]


@pytest.mark.parametrize("answer", [*answers.RIGHT, *answers.MORE_RIGHT], ids=lambda a: a.__name__)
def test_a_right_copy_reaches_the_bar(answer):
    outcome = timed(answer)
    assert outcome.evidence["ratio"] >= BAR, outcome.reason
    assert outcome.state is (State.PASSED if torch.cuda.get_device_name() == "NVIDIA H200" else State.BLOCKED)
    assert 0 < outcome.evidence["roof_share"] <= 1.05
    assert outcome.evidence["far"] == "right" or outcome.evidence["far"].startswith("not tried")


@pytest.mark.parametrize("answer", [answers.one_by_one, tiny_blocks, answers.through_a_buffer], ids=lambda a: a.__name__)
def test_a_slow_copy_misses_the_bar(answer):
    outcome = timed(answer)
    assert outcome.state is not State.PASSED, outcome.reason
    assert outcome.points < outcome.max_points


CHEATS = {
    answers.by_torch: "torch worked inside your function (copy_)",
    once: "out did not hold x when the copy was over",
    half_of_it: "out did not hold x when the copy was over",
    elsewhere: "out did not hold x when the copy was over",
}


@pytest.mark.parametrize("answer", CHEATS, ids=lambda a: a.__name__)
def test_a_cheat_fails_for_its_own_reason(answer):
    outcome = timed(answer)
    assert outcome.state is State.FAILED
    assert CHEATS[answer] in outcome.reason


def test_offsets_of_32_bits_are_told_above_2_to_the_31():
    if torch.cuda.mem_get_info()[0] < 10e9:
        pytest.skip("needs 10 GB of free memory")
    outcome = timed(in_int32)
    assert outcome.state is State.FAILED
    assert "2**31 + 65,536 elements" in outcome.reason


ON_DEVICE = [(answer, must) for answer, must in [*answers.WRONG, *answers.MORE_WRONG] if answer is not answers.one_by_one]


@pytest.mark.parametrize(("answer", "must"), ON_DEVICE, ids=lambda v: getattr(v, "__name__", ""))
def test_a_wrong_copy_is_told_on_the_device_too(answer, must):
    """Which criteria fail may differ: a store beside a tensor is a mistake in the interpreter, and a changed neighbour here."""
    verdict = check_live("1.4", answer, seed=3)
    failed = {o.name for o in verdict.outcomes if o.state is State.FAILED}
    assert failed & must, [(o.name, o.state, o.reason) for o in verdict.outcomes]
