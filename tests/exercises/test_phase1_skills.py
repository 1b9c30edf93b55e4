"""The skills that phase 1 promises are graded, each by a criterion of its own."""

import pytest

from course_lib.exercises import exercise
from tests.exercises.answers import WRONG

SKILLS = {  # skill -> exercise and criterion that examine it
    "roofline analysis": ("1.5", "step"),
    "HBM bandwidth": ("1.4", "traffic"),
    "arithmetic intensity": ("1.2", "bytes"),
    "TTFT against TPOT": ("1.6", "one GPU"),
}


@pytest.mark.parametrize("skill", SKILLS)
def test_each_skill_of_phase_1_is_graded_and_a_lack_of_it_fails(skill):
    number, name = SKILLS[skill]
    (criterion,) = (c for c in exercise(number).criteria if c.name == name)
    assert criterion.points > 0
    failing = [answer for answer, must in WRONG[number] if name in must]
    assert failing, f"nothing fails {number} '{name}'"
