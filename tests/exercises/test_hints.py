"""Exercises 1.5 to 1.7 speak to a learner: the usual slips get the hint that leads to them."""

import pytest

from course_lib.course.live import check_live

from .answers import WRONG

SAYS = {
    ("1.5", "line_of_seconds_over_log"): "a straight line of the seconds, over log bytes",
    ("1.5", "floor_at_the_products_rate"): "Which of the two curves",
    ("1.5", "floor_at_the_fastest_rate"): "Which point of the curve",
    ("1.5", "peak_in_gigaflops"): "In which unit does the peak come",
    ("1.5", "whole_tokens"): "Is a whole number asked for",
    ("1.6", "allreduce_hidden_behind_the_roof"): "while an all-reduce is on its way",
    ("1.6", "half_of_one_direction"): "twice what it should be",
    ("1.6", "sum_of_both_times"): "mend tpot_ms first",
    ("1.6", "strictly_faster"): "each with equality",
    ("1.7", "the_sample_before"): "that before it, or that after it",
    ("1.7", "a_restart_anywhere"): "concern the window",
    ("1.7", "gpm_anywhere_missing"): "concern the window",
    ("1.7", "nothing_is_none"): "Is 0 taken for nothing",
}


@pytest.mark.parametrize(("number", "slip"), SAYS, ids=lambda v: v)
def test_a_usual_slip_gets_its_hint(number, slip):
    answer = next(answer for answer, _ in WRONG[number] if answer.__name__ == slip)
    for seed in range(3):
        hints = [outcome.hint for outcome in check_live(number, answer, seed=seed).outcomes]
        assert any(SAYS[number, slip] in hint for hint in hints), hints
