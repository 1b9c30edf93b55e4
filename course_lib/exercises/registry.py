"""Find an exercise by its id. The phases' modules are imported when one of their exercises is asked for."""

from functools import cache
from importlib import import_module

from ..grading.exercise import Exercise
from ..grading.inside.border import short

_MODULES = {1: "phase1", 2: "phase2"}  # phase number -> module beside this file


class UnknownExercise(KeyError):
    """No exercise has this id; the message lists those that exist."""

    def __str__(self) -> str:
        return str(self.args[0])


@cache
def exercises_of(phase_number: int) -> tuple[Exercise, ...]:
    """The exercises of a phase in order; () for a phase that has none yet."""
    if phase_number not in _MODULES:
        return ()
    return import_module(f".{_MODULES[phase_number]}", __package__).EXERCISES


@cache
def all_exercises() -> tuple[Exercise, ...]:
    return tuple(e for number in sorted(_MODULES) for e in exercises_of(number))


def exercise(exercise_id: str) -> Exercise:
    """The exercise "1.1". Raises UnknownExercise."""
    known = all_exercises()
    for candidate in known:
        if candidate.id == exercise_id:
            return candidate
    as_text = '; write the number as text: "1.1"' if isinstance(exercise_id, float) else ""
    has = ", ".join(e.id for e in known)
    raise UnknownExercise(f"there is no exercise {short(exercise_id, 60)}{as_text}; the course has {has}")
