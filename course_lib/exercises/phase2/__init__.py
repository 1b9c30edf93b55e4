"""Exercises of phase 2 in their order, a file each."""

from .attend_rows import ATTEND_ROWS
from .blocks import BLOCKS
from .debugging import DEBUGGING
from .flash import FLASH
from .merge import MERGE
from .overlap import OVERLAP
from .paged import PAGED
from .prefix import PREFIX
from .split_decode import SPLIT_DECODE
from .tile_needs import TILE_NEEDS
from .tiled import TILED

EXERCISES = (MERGE, ATTEND_ROWS, TILED, FLASH, TILE_NEEDS, BLOCKS, PREFIX, PAGED, SPLIT_DECODE, OVERLAP, DEBUGGING)

__all__ = [
    "ATTEND_ROWS", "BLOCKS", "DEBUGGING", "EXERCISES", "FLASH", "MERGE", "OVERLAP", "PAGED", "PREFIX", "SPLIT_DECODE", "TILED",
    "TILE_NEEDS",
]  # fmt: skip
