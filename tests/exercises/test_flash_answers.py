"""Exercise 2.4 against many answers at once."""

import pytest

from course_lib.exercises.runners import phase2_flash as runner

from . import judged_together
from .answers.phase2 import flash as answers

WRONG = dict(answers.MORE_WRONG)
SAYS = {  # what a learner reads, where the words are the point
    answers.by_torch: "an input outside of your launches",
    answers.very_low_mask: "gives zeros, not the mean of all values",
    answers.top_left: "The mask is aligned at the first key",
    answers.not_itself: "A query sees its own position",
    answers.another_head_map: "Head h reads KV head h // group",
    answers.not_divided: "Is acc divided by the sum of the weights?",
    answers.v_lies_like_k: "Multiply the index of each axis by its stride",
    answers.small_tiles: "loaded_bytes: ",
    answers.copies_first: "this copies an input outside of your launches",
    answers.adds_zero: "this reads (add) an input outside of your launches",
    answers.no_tensor_cores: "uses no tensor core",
}


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    reports, launches = tmp_path_factory.mktemp("reports"), ("traffic", "compiled")
    whole = (answers.by_torch,)
    return judged_together.findings("2.4", runner, WRONG, answers.MORE_RIGHT, reports, from_launches=launches, whole=whole)


@pytest.mark.compile
@pytest.mark.parametrize("answer", WRONG, ids=lambda a: a.__name__)
def test_a_wrong_attention_fails_exactly_the_criteria_it_breaks(findings, answer):
    of_each = findings[answer]
    assert {name for name, found in of_each.items() if any(found)} == WRONG[answer], of_each
    assert SAYS.get(answer, "") in " ".join(str(one) for found in of_each.values() for one in found)


@pytest.mark.compile
@pytest.mark.parametrize("answer", answers.MORE_RIGHT, ids=lambda a: a.__name__)
def test_a_right_attention_passes_however_it_is_written(findings, answer):
    of_each = findings[answer]
    assert len(of_each) == 7
    assert not any(one for found in of_each.values() for one in found), of_each


def test_bounds_are_those_that_paper_gives():
    """448 causal tokens, head_dim 64, fp16: 7 tiles of 64 queries see 128, 128, 256, 256, 384, 384, 448 keys in tiles of 128."""
    import torch

    from course_lib.exercises.phase2.flash_traffic import flash_bounds

    x = torch.empty(1, 448, 1, 64, dtype=torch.float16)
    found = flash_bounds({"q": x, "k": x, "v": x, "causal": True})
    assert found["loaded_bytes"] == 128 * (448 + 2 * 1984)
    assert found["stored_bytes"] == 128 * 448
    assert found["dot_flops"] == 4 * 64 * 128 * 128 * (1 + 2 + 3 + 4)
