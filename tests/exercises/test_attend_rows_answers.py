"""Exercise 2.2 against many answers at once, and what its time is weighed with."""

import pytest

from course_lib.exercises import exercise
from course_lib.exercises.runners import phase2_attend_rows as runner
from course_lib.grading.outcome import State

from . import judged_together
from .answers.phase2 import attend_rows as answers

WRONG = dict(answers.MORE_WRONG)
SAYS = {  # what a learner reads, where the words are the point
    answers.by_torch: "your function launched no kernel",
    answers.two_passes: "loaded_bytes: ",
    answers.zero_times_nan: "0 * NaN is NaN",
    answers.empty_is_nan: "What is -inf - (-inf)",
    answers.without_maximum: "does an exponential overflow",
    answers.lse_in_base_two: "lse is the natural one",
    answers.lse_without_maximum: "Where is the maximum?",
    answers.not_divided: "Is out divided by the sum of the weights?",
    answers.base_two: "What makes e ** s of them?",
    answers.one_row_short: "Did a program store this row's result?",
    answers.stride_ignored: "Multiply the index of each axis by its stride",
}


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory):
    """answer -> verdict."""
    return judged_together.verdicts("2.2", runner, [*WRONG, *answers.MORE_RIGHT], tmp_path_factory.mktemp("reports"))


@pytest.mark.compile
@pytest.mark.parametrize("answer", WRONG, ids=lambda a: a.__name__)
def test_a_wrong_softmax_fails_exactly_the_criteria_it_breaks(verdicts, answer):
    outcomes = verdicts[answer].outcomes
    assert {o.name for o in outcomes if o.state is State.FAILED} == WRONG[answer], [(o.name, o.reason) for o in outcomes]
    assert SAYS.get(answer, "") in " ".join(f"{o.reason} {o.hint}" for o in outcomes)


@pytest.mark.compile
@pytest.mark.parametrize("answer", answers.MORE_RIGHT, ids=lambda a: a.__name__)
def test_a_right_softmax_passes_however_it_is_written(verdicts, answer):
    outcomes = verdicts[answer].outcomes
    assert [o.state for o in outcomes] == [State.PASSED] * 6, [(o.name, o.reason) for o in outcomes]


MEASURED = {
    "device": "NVIDIA H200", "peer": "torch's sum of each row", "ratios": [0.96, 0.93, 0.95], "roof_share": 0.85, "rounds": 15,
    "wrong_rounds": 0, "torch_operations": [], "far": "right",
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "state", "words"),
    [
        ({}, State.PASSED, "0.95 of torch's sum of each row on NVIDIA H200 (goal reached)"),
        ({"ratios": [0.39]}, State.FAILED, "the bar is"),
        ({"far": "not tried: 9.0 GB must be free"}, State.PASSED, "0.95"),
        ({"far": "wrong"}, State.FAILED, "2**31 elements"),
        ({"wrong_rounds": 2, "roof_share": 0.0}, State.FAILED, "in 2 of 15 rounds"),
        ({"torch_operations": ["logsumexp"]}, State.FAILED, "torch worked inside your function (logsumexp)"),
        ({"device": "NVIDIA L4"}, State.BLOCKED, "calibrated on NVIDIA H200"),
        ({"roof_share": 1.2}, State.BLOCKED, "cannot be true"),
    ],
    ids=str,
)
def test_a_time_is_weighed_with_what_came_out(change, state, words):
    (timed,) = exercise("2.2").in_cell("timed")
    (case,) = timed.cases(3)
    from course_lib.exercises.phase2.attend_rows_cases import expected

    output = tuple(part.float() for part in expected(case))
    finding = timed.judge(case, {"output": output, "changed": [], "aliases": [], "evidence": {**MEASURED, **change}})
    assert (finding.state, words in finding.reason) == (state, True), finding.reason
