"""Exercise 1.2 speaks to a learner: a known slip gets its own hint, a part that is missing or no number is named."""

import pytest

from course_lib.exercises import exercise
from course_lib.exercises.phase1.count_step_slips import SLIPS
from course_lib.roofline import count_step

from .answers.phase1 import count_step as answers

PARTS = ("shape", "new_tokens", "context", "batch", "weight_bytes", "kv_bytes")
CRITERIA = {criterion.name: criterion for criterion in exercise("1.2").criteria}
HINTS = {
    "no_head": ("linear FLOPs", "one more product"),
    "head_on_every_token": ("linear FLOPs", "Which tokens need logits"),
    "embedding_as_a_product": ("linear FLOPs", "An embedding is looked up"),
    "context_again": ("linear FLOPs", "through the layers already"),
    "no_mask": ("attention FLOPs", "come after it"),
    "half_of_a_square": ("attention FLOPs", "the diagonal belongs to it"),
    "scores_alone": ("attention FLOPs", "two products"),
    "queries_shared_as_keys_are": ("attention FLOPs", "how many queries"),
    "weights_for_each_sequence": ("bytes", "for each sequence"),
    "new_tokens_not_written": ("bytes", "have to be written"),
    "kv_of_every_head": ("bytes", "how many of each"),
    "residual_around_attention_alone": ("bytes", "read or written in a layer"),
    "whole_bytes": ("precision", "a part of a byte"),
    "no_residual_stream": ("bytes", "The residual stream moves too"),
    "kv_always_bf16": ("precision", "a value of the cache"),
    "head_like_the_weights": ("precision", "In which type does the head stay"),
    "hidden_for_the_heads": ("awkward shapes", "as wide as the residual stream"),
}
WRONG = {answer.__name__: answer for answer, _ in answers.WRONG}


def first_mistake(criterion, answer, seed=4):
    for case in criterion.cases(seed):
        if mistake := criterion.check(case, answer(*(case[name] for name in PARTS))):
            return mistake
    return None


@pytest.mark.parametrize("slip", HINTS)
def test_a_known_slip_gets_the_hint_that_belongs_to_it(slip):
    name, words = HINTS[slip]
    mistake = first_mistake(CRITERIA[name], WRONG[slip])
    assert words in mistake.hint
    assert "kv_heads" in mistake.reason  # with the numbers, so that the case can be redone on paper


@pytest.mark.parametrize("seed", range(6))
def test_half_of_the_residual_stream_is_not_taken_for_one_layer_of_two(seed):
    mistake = first_mistake(CRITERIA["precision"], WRONG["residual_around_attention_alone"], seed)
    assert "the residual stream" in mistake.hint


def test_a_count_that_went_through_float32_is_told():
    case = CRITERIA["linear FLOPs"].cases(4)[0] | {"new_tokens": 2001}
    right = count_step(*(case[part] for part in PARTS))
    mistake = CRITERIA["linear FLOPs"].check(case, right | {"linear_flops": right["linear_flops"] * (1 + 2**-24)})
    assert "float32" in mistake.hint


@pytest.mark.parametrize("name", SLIPS)
def test_no_slip_is_the_right_answer_where_its_hint_could_be_read(name):
    """A slip may leave a case as it is (a batch of 1 has one sequence), but never all of them."""
    cases = [case for criterion in CRITERIA.values() for case in criterion.cases(4)]
    different = set()
    for case in cases:
        right = count_step(*(case[part] for part in PARTS))[name]
        different |= {hint for hint, value in SLIPS[name](case) if abs(value - right) > 1e-6 * right}
    assert different >= {hint for case in cases for hint, _ in SLIPS[name](case)}


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (None, "expected a dict with linear_flops, attention_flops, bytes, got None"),
        ({"linear_flops": True}, "linear_flops: expected a number, got bool True"),
        ({"bytes": 1}, "the result has no 'linear_flops'; it has \\['bytes'\\]"),
        ({"linear_flops": 10**400}, "more than 300 digits"),
        ({"linear_flops": float("nan")}, "got nan"),
    ],
)
def test_what_is_no_count_is_named(output, words):
    import re

    criterion = CRITERIA["linear FLOPs"]
    mistake = criterion.check(criterion.cases(1)[0], output)
    assert re.search(words, mistake.reason)
