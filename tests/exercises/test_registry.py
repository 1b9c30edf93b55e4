"""Exercises are found by id, and each one is well formed."""

import pytest

from course_lib.exercises import PHASES, UnknownExercise, all_exercises, exercise, exercises_of, phase


def test_an_unknown_id_lists_the_known_ones():
    with pytest.raises(UnknownExercise, match=r"no exercise '9\.9'.*1\.1"):
        exercise("9.9")
    with pytest.raises(KeyError, match=r"no phase 7.*\[1, 2, 3, 4\]"):
        phase(7)


def test_a_phase_without_exercises_has_none_yet():
    assert [p.number for p in PHASES] == [1, 2, 3, 4]
    assert exercises_of(1)
    assert exercises_of(4) == ()


@pytest.mark.parametrize("known", all_exercises(), ids=lambda e: e.id)
def test_an_exercise_is_well_formed(known):
    names = [criterion.name for criterion in known.criteria]
    assert len(set(names)) == len(names)
    assert all(criterion.points > 0 for criterion in known.criteria)
    assert known.cells[0] == "check"
    assert sum(known.points(cell) for cell in known.cells) == known.points()
    assert all(exercise(needed).id < known.id for needed in known.needs)
