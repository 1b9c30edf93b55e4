"""Exercise 2.3 names the slip that a learner made, and bytes are judged by the trace alone."""

import pytest

from course_lib.course.live import check_live
from course_lib.grading.outcome import State

from .answers.phase2 import tiled as answers

SAYS = {
    "no_root": "Is the root there?",
    "no_mask": "Where is the mask?",
    "top_left": "The last query sees the last key",
    "no_guard": "What is -inf - (-inf)",
    "heads_in_turns": "Which KV head serves query head 1",
    "reads_what_is_masked": "What does your walk do besides?",
    "predicts_what_is_masked": "Which tiles of keys does no query of the tile see?",
    "forgets_v": "A tile of K is followed by one of V.",
    "counts_kv_heads": "Each query head walks by itself",
    "four_bytes": "shape.element_bytes says it",
    "forgets_lse": "lse is stored as well",
    "late": "the prediction came after the first access",
    "loads_q_again": "A tile of queries is loaded once",
    "keeps_tiles": "Nothing is kept",
    "last_tile_left_out": "rows of the output were not stored",
    "one_key_too_few": "Or read only in part?",
    "reads_part_of_a_cut_tile": "A tile that the line cuts is read whole.",
    "head_dim_without_root": "Is the root there?",
    "zero_by_zero": "What is 0 / 0?",
    "stores_bfloat16": "the memory counts 2 bytes all the same",
    "not_cut_off": "cut the reach off at kv_len",
    "fewer_than_no_keys": "reaches 0 keys, not fewer",
    "a_float": "predict takes whole numbers, and kv_bytes is a float",
    "nothing": "rows of the output were not stored",
    "all_keys_at_once": "a tile has room for",
}


@pytest.mark.parametrize("name", SAYS)
def test_a_slip_is_named(name):
    answer = next(answer for answer, _ in answers.WRONG if answer.__name__ == name)
    outcomes = [o for o in check_live("2.3", answer, seed=2).outcomes if o.state is State.FAILED]
    assert SAYS[name] in " ".join(f"{o.reason} {o.hint}" for o in outcomes)
