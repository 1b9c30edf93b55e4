"""Answers to the exercises of phase 1, a file for each exercise."""

from . import count_step, floors, ridge, sweep, timer

WRONG = {"1.1": ridge.WRONG, "1.2": count_step.WRONG, "1.3": timer.WRONG, "1.5": sweep.WRONG, "1.6": floors.WRONG}
RIGHT = {"1.1": ridge.RIGHT, "1.2": count_step.RIGHT, "1.3": timer.RIGHT, "1.5": sweep.RIGHT, "1.6": floors.RIGHT}
