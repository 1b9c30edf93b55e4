"""Exercises of phase 2 in their order, a file each."""

from .attend_rows import ATTEND_ROWS
from .blocks import BLOCKS
from .merge import MERGE
from .tiled import TILED

EXERCISES = (MERGE, ATTEND_ROWS, TILED, BLOCKS)

__all__ = ["ATTEND_ROWS", "BLOCKS", "EXERCISES", "MERGE", "TILED"]
