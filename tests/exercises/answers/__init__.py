"""Answers to every exercise: wrong ones, each with the criteria that must fail it, and right ones written differently."""

from . import phase1

WRONG = {**phase1.WRONG}
RIGHT = {**phase1.RIGHT}
