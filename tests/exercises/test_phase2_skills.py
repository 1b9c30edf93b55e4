"""The skills that phase 2 promises are graded, each by a criterion of its own."""

import pytest

from course_lib.exercises import exercise
from tests.exercises.answers import WRONG

SKILLS = {  # skill -> exercise and criterion that examine it
    "FlashAttention: online softmax": ("2.1", "groups"),
    "FlashAttention: a kernel that walks in tiles": ("2.4", "traffic"),
    "FlashAttention-3: what runs beside what": ("2.10", "rules"),
    "PagedAttention": ("2.8", "tables"),
    "block tables": ("2.6", "slots"),
    "prefix caching": ("2.7", "prefix hits"),
    "prefix caching: copy-on-write": ("2.7", "copy-on-write"),
}


@pytest.mark.parametrize("skill", SKILLS)
def test_each_skill_of_phase_2_is_graded_and_a_lack_of_it_fails(skill):
    number, name = SKILLS[skill]
    (criterion,) = (c for c in exercise(number).criteria if c.name == name)
    assert criterion.points > 0
    failing = [answer for answer, must in WRONG[number] if name in must]
    assert failing, f"nothing fails {number} '{name}'"
    others = [answer for answer, must in WRONG[number] if name not in must]
    assert others, f"every wrong answer to {number} fails '{name}': it would say nothing of this skill"
