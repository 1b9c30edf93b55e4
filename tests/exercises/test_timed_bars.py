"""Bars of timed exercises lie where the recorded runs put them: below what is right, by three spreads, and above what is slow."""

import pytest

from course_lib.exercises import exercise
from course_lib.recorded import recorded

ROWS = recorded("timed_bars")["rows"]
TIMED = [(number, criterion) for number in ("1.4", "2.2", "2.4", "2.8", "2.9") for criterion in exercise(number).in_cell("timed")]


def rows_of(number, criterion, role):
    return [row for row in ROWS if row["case"].startswith(f"{number}, {criterion.name}, {role}: ")]


@pytest.mark.parametrize(("number", "criterion"), TIMED, ids=lambda one: getattr(one, "name", one))
def test_right_answers_clear_the_bar_by_three_spreads_and_a_slow_one_misses_it(number, criterion):
    right, slow = rows_of(number, criterion, "right"), rows_of(number, criterion, "slow")
    assert {row["bar"] for row in right + slow} == {criterion.bar}
    assert any("the notebook's" in row["case"] for row in right)
    for row in right:
        low, high = row["spread"]
        assert low - 3 * (high - low) >= criterion.bar, row["case"]
    assert min(row["spread"][1] for row in slow) < criterion.bar


def test_every_exercise_with_a_bar_on_this_device_is_recorded():
    from course_lib.exercises.registry import exercises_of

    on_the_device = {
        one.id
        for phase in (1, 2)
        for one in exercises_of(phase)
        for criterion in one.in_cell("timed")
        if getattr(criterion, "bar", 0) and "NVIDIA H200" in criterion.devices
    }
    assert on_the_device - {number for number, _ in TIMED} <= {"1.5", "1.9"}  # those two have no peer to be beside
