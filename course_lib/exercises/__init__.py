"""What each exercise asks and how it is judged, as data: one module a phase. `runners/` is the part that enters the sandbox."""

from .phases import PHASES, Phase, phase
from .registry import UnknownExercise, all_exercises, exercise, exercises_of

__all__ = ["PHASES", "Phase", "UnknownExercise", "all_exercises", "exercise", "exercises_of", "phase"]
