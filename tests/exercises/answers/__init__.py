"""Answers to every exercise: wrong ones, each with the criteria that must fail it, and right ones written differently."""

from . import phase1, phase2

WRONG = {**phase1.WRONG, **phase2.WRONG}
RIGHT = {**phase1.RIGHT, **phase2.RIGHT}
