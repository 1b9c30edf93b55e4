"""Exercise 1.4 against many answers at once, and what its time is weighed with."""

import pytest

from course_lib.exercises import exercise
from course_lib.exercises.runners import phase1_copy as runner
from course_lib.grading.outcome import State

from . import judged_together
from .answers.phase1 import copy as answers

WRONG = dict(answers.MORE_WRONG)
SAYS = {  # what a learner reads, where the words are the point
    answers.by_torch: "your function launched no kernel",
    answers.dummy_kernel: "torch or numpy made it, outside of them",
    answers.no_mask: "Mask such lanes off, as in mask=index < n",
    answers.programs_share_a_block: "Give each program its own elements",
    answers.reads_twice: "loaded_bytes: ",
    answers.into_new_memory: "Copy into the `out` that you were given.",
    answers.small_blocks: "sm_80: the widest load of a thread is 4 bytes, 16 are possible",
    answers.made_contiguous: "where a ValueError was asked for",
    answers.strides_ignored: "tensor.is_contiguous() knows",
    answers.asserts: "a ValueError was asked for, and what came is AssertionError",
    answers.grid_rounded_down: "Nothing was stored there",
    answers.grid_is_a_number: "a grid is a tuple, as in (",
    answers.any_length: "cannot store to out_ptr[99]",
}


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory):
    """answer -> verdict."""
    return judged_together.verdicts("1.4", runner, [*WRONG, *answers.MORE_RIGHT], tmp_path_factory.mktemp("reports"))


@pytest.mark.compile
@pytest.mark.parametrize("answer", WRONG, ids=lambda a: a.__name__)
def test_a_wrong_copy_fails_exactly_the_criteria_it_breaks(verdicts, answer):
    outcomes = verdicts[answer].outcomes
    assert {o.name for o in outcomes if o.state is State.FAILED} == WRONG[answer], [(o.name, o.reason) for o in outcomes]
    assert SAYS.get(answer, "") in " ".join(f"{o.reason} {o.hint}" for o in outcomes)


@pytest.mark.compile
@pytest.mark.parametrize("answer", answers.MORE_RIGHT, ids=lambda a: a.__name__)
def test_a_right_copy_passes_however_it_is_written(verdicts, answer):
    outcomes = verdicts[answer].outcomes
    assert [o.state for o in outcomes] == [State.PASSED] * 5, [(o.name, o.reason) for o in outcomes]


MEASURED = {
    "device": "NVIDIA H200", "peer": "torch's copy_", "ratios": [0.99, 0.98, 1.0], "roof_share": 0.9, "rounds": 15,
    "wrong_rounds": 0, "torch_operations": [], "far": "right",
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "state", "words"),
    [
        ({}, State.PASSED, "0.99 of torch's copy_ on NVIDIA H200"),
        ({"ratios": [0.8]}, State.FAILED, "the bar is 0.88"),
        ({"far": "not tried: 9.7 GB must be free"}, State.PASSED, "0.99"),
        ({"far": "wrong"}, State.FAILED, "2**31 + 65,536 elements"),
        ({"wrong_rounds": 2, "roof_share": 0.0}, State.FAILED, "in 2 of 15 rounds"),
        ({"torch_operations": ["copy_"]}, State.FAILED, "torch worked inside your function (copy_)"),
        ({"device": "NVIDIA L4"}, State.BLOCKED, "calibrated on NVIDIA H200"),
        ({"roof_share": 1.2}, State.BLOCKED, "cannot be true"),
        ({"far": None, "wrong_rounds": None, "rounds": None, "torch_operations": 3}, State.BLOCKED, "does not make sense"),
    ],
    ids=str,
)
def test_a_time_is_weighed_with_what_was_copied(change, state, words):
    (timed,) = exercise("1.4").in_cell("timed")
    (case,) = timed.cases(3)
    record = {"output": case["x"], "changed": ["out"], "aliases": ["out"], "evidence": {**MEASURED, **change}}
    finding = timed.judge(case, record)
    assert (finding.state, words in finding.reason) == (state, True), finding.reason
