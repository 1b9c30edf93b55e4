"""Exercises of phase 2 in their order, a file each."""

from .merge import MERGE

EXERCISES = (MERGE,)

__all__ = ["EXERCISES", "MERGE"]
