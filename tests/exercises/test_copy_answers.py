"""Exercise 1.4 against many answers at once."""

import pytest

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
