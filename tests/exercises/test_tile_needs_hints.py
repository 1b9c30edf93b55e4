"""Exercise 2.5 names the slip that a learner made, and a slip costs its own points only."""

import pytest

from course_lib.course.live import check_live
from course_lib.grading.outcome import State

from .answers.phase2 import tile_needs as answers

SAYS = {
    "forgets_q": "Where do the queries stay",
    "forgets_v": "A tile of keys is followed by one of values",
    "stages_everywhere": "How many tiles are on their way",
    "one_less_everywhere": "How many tiles are on their way",
    "no_weights": "When do weights pass through shared memory",
    "weights_on_hopper": "When do weights pass through shared memory",
    "weights_at_the_edge": "When do weights pass through shared memory",
    "not_padded": "Blocks are powers of two",
    "always_two_bytes": "tile.element_bytes says it",
    "kibibytes": "In bytes.",
    "scores_only": "The accumulator lives at the same time",
    "accumulator_only": "The scores live at the same time",
    "rounded_down": "A part of a register is one register",
    "half_registers": "Scores and sums are float32",
    "always_255": "An SM has 65,536 registers",
    "never_255": "An instruction can name 255",
    "spills_at_the_limit": "is that too many?",
    "keys_for_queries": "that of the queries or that of the keys",
    "block_q_in_any_type": "tile.element_bytes says it",
    "one_product": "There are two products",
    "rate_of_two_bytes": "flops_per_cycle is that of elements of 2 bytes",
    "sixteen_by_heart": "gpu says it",
    "refused_at_the_limit": "All that a block can have is not too much",
    "spills_are_refused": "is 'registers' one that keeps it from a launch?",
    "nothing_reserved": "keeps 1024 bytes",
    "of_a_block": "what the SM has for all of them",
    "without_registers": "Do registers suffice",
    "without_threads": "Can an SM hold that many threads",
    "one_at_least": "What cannot be launched shares nothing",
    "never_launched": "Mend refused",
    "needs_a_gigabyte": "Mend refused",
    "in_bits": "Mend refused",
    "padded_twice": "its own next power of two",
    "queries_in_stages": "The queries are loaded once",
    "weights_of_head_dim": "as many as the scores",
    "product_cycles_rounded": "not rounded",
    "exp_cycles_rounded": "not rounded",
    "half_the_exponentials": "whatever the elements are",
    "as_many_cycles_again": "as it stands",
    "threads_by_heart": "gpu.threads_sm says it",
    "by_the_limit": "A thread takes what it needs",
    "with_what_is_reserved": "are the system's",
    "one_pair": "The stages say how many pairs",
    "flops_padded_bytes_not": "Both counts have the same d",
    "as_many_registers_as_bytes": "whatever the elements are",
    "rounded_apart": "Round once",
    "registers_without_limit": "the rest spills, and the program runs",
}


@pytest.mark.parametrize("name", SAYS)
def test_a_slip_is_named(name):
    answer = next(answer for answer, _ in answers.WRONG if answer.__name__ == name)
    outcomes = [o for o in check_live("2.5", answer, seed=2).outcomes if o.state is State.FAILED]
    assert SAYS[name] in " ".join(o.hint for o in outcomes)


def numbers_as_text(tile, gpu):
    right = answers.line_by_line(tile, gpu)
    return {key: str(value) for key, value in right.items()}


def with_nan(tile, gpu):
    return dict.fromkeys(answers.line_by_line(tile, gpu), float("nan"))


def huge(tile, gpu):
    return dict.fromkeys(answers.line_by_line(tile, gpu), 10**400)


def nothing(tile, gpu):
    return {}


@pytest.mark.parametrize("answer", [numbers_as_text, with_nan, huge, nothing])
def test_nonsense_fails_everything_with_a_reason(answer):
    verdict = check_live("2.5", answer, seed=1)
    assert all(o.state is State.FAILED and o.reason for o in verdict.outcomes)
