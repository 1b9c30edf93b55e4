"""Exercise 2.2 against many answers at once."""

import pytest

from course_lib.exercises.runners import phase2_attend_rows as runner

from . import judged_together
from .answers.phase2 import attend_rows as answers

WRONG = dict(answers.MORE_WRONG)
SAYS = {  # what a learner reads, where the words are the point
    answers.by_torch: "an input outside of your launches",
    answers.two_passes: "loaded_bytes: ",
    answers.zero_times_nan: "0 * NaN is NaN",
    answers.empty_is_nan: "What is 0 / 0?",
    answers.no_guard: "What is -inf - (-inf)",
    answers.pads_with_zero: "which `other`?",
    answers.l_is_not_rescaled: "l was not rescaled",
    answers.acc_is_not_rescaled: "acc was not rescaled",
    answers.lse_in_two_bases: "Bring both to one base",
    answers.sums_in_the_dtype: "In which dtype are weights and sums?",
    answers.clones: "this copies an input outside of your launches",
    answers.makes_contiguous: "this copies an input outside of your launches",
    answers.converts: "this converts an input outside of your launches",
    answers.without_maximum: "does an exponential overflow",
    answers.lse_in_base_two: "lse is the natural one",
    answers.lse_without_maximum: "Where is the maximum?",
    answers.not_divided: "Is out divided by the sum of the weights?",
    answers.base_two: "What makes e ** s of them?",
    answers.one_row_short: "Did a program store this row's result?",
    answers.stride_ignored: "Multiply the index of each axis by its stride",
}


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    reports, launches = tmp_path_factory.mktemp("reports"), ("traffic", "compiled")
    whole = (answers.by_torch, answers.dummy_kernel)
    return judged_together.findings("2.2", runner, WRONG, answers.MORE_RIGHT, reports, from_launches=launches, whole=whole)


@pytest.mark.compile
@pytest.mark.parametrize("answer", WRONG, ids=lambda a: a.__name__)
def test_a_wrong_softmax_fails_exactly_the_criteria_it_breaks(findings, answer):
    of_each = findings[answer]
    assert {name for name, found in of_each.items() if any(found)} == WRONG[answer], of_each
    assert SAYS.get(answer, "") in " ".join(str(one) for found in of_each.values() for one in found)


@pytest.mark.compile
@pytest.mark.parametrize("answer", answers.MORE_RIGHT, ids=lambda a: a.__name__)
def test_a_right_softmax_passes_however_it_is_written(findings, answer):
    of_each = findings[answer]
    assert len(of_each) == 6
    assert not any(one for found in of_each.values() for one in found), of_each
