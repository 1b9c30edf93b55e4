"""Answers to the exercises of phase 1, a file for each exercise."""

from . import copy, count_step, floors, graphs, ridge, scheduler, sweep, telemetry, timer

ANSWERS = {
    "1.1": ridge,
    "1.2": count_step,
    "1.3": timer,
    "1.4": copy,
    "1.5": sweep,
    "1.6": floors,
    "1.7": telemetry,
    "1.8": scheduler,
    "1.9": graphs,
}
WRONG = {number: answers.WRONG for number, answers in ANSWERS.items()}
RIGHT = {number: answers.RIGHT for number, answers in ANSWERS.items()}
