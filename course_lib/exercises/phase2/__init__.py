"""Exercises of phase 2 in their order, a file each."""

from .attend_rows import ATTEND_ROWS
from .merge import MERGE

EXERCISES = (MERGE, ATTEND_ROWS)

__all__ = ["ATTEND_ROWS", "EXERCISES", "MERGE"]
