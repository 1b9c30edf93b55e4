"""Exercise 2.4 against many answers at once, and what its time is weighed with."""

import pytest

from course_lib.exercises import exercise
from course_lib.exercises.runners import phase2_flash as runner
from course_lib.grading.outcome import State

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


MEASURED = {
    "device": "NVIDIA H200", "peer": "cuDNN's attention", "ratios": [0.69, 0.66, 0.68], "roof_share": 0.4, "rounds": 15,
    "wrong_rounds": 0, "torch_operations": [], "far": "right",
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "state", "words"),
    [
        ({}, State.PASSED, "0.68 of cuDNN's attention on NVIDIA H200"),
        ({"ratios": [0.84]}, State.PASSED, "(goal reached)"),
        ({"ratios": [0.29]}, State.FAILED, "the bar is"),
        ({"far": "not tried: 9.0 GB must be free"}, State.PASSED, "0.68"),
        ({"far": "wrong"}, State.FAILED, "2**31 elements"),
        ({"wrong_rounds": 2, "roof_share": 0.0}, State.FAILED, "in 2 of 15 rounds"),
        ({"torch_operations": ["_softmax"]}, State.FAILED, "torch worked inside your function (_softmax)"),
        ({"device": "NVIDIA L4"}, State.BLOCKED, "calibrated on NVIDIA H200"),
        ({"roof_share": 1.2}, State.BLOCKED, "cannot be true"),
        ({"blocked": "cuDNN's attention does not run here"}, State.BLOCKED, "cuDNN"),
    ],
    ids=str,
)
def test_a_time_is_weighed_with_what_came_out(change, state, words):
    from course_lib.exercises.phase2.flash_cases import expected

    (timed,) = exercise("2.4").in_cell("timed")
    (case,) = timed.cases(3)
    output = expected(case).to(case["q"].dtype)
    finding = timed.judge(case, {"output": output, "changed": [], "aliases": [], "evidence": {**MEASURED, **change}})
    assert (finding.state, words in finding.reason) == (state, True), finding.reason


def test_bounds_are_those_that_paper_gives():
    """448 causal tokens, head_dim 64, fp16: 7 tiles of 64 queries see 128, 128, 256, 256, 384, 384, 448 keys in tiles of 128."""
    import torch

    from course_lib.exercises.phase2.flash_traffic import flash_bounds

    x = torch.empty(1, 448, 1, 64, dtype=torch.float16)
    found = flash_bounds({"q": x, "k": x, "v": x, "causal": True})
    assert found["loaded_bytes"] == 128 * (448 + 2 * 1984)
    assert found["stored_bytes"] == 128 * 448
    assert found["dot_flops"] == 4 * 64 * 128 * 128 * (1 + 2 + 3 + 4)
