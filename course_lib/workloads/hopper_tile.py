"""What a thread block of the Hopper kernel holds, as plain numbers: the fields of HopperTile in attention/hopper_launch.py."""

from typing import NamedTuple


class TileShape(NamedTuple):
    """`warpgroups` consumers of `rows` queries each, and a ring of `stages` stages of `keys` keys (and as many values).

    out_apart  the result has shared memory of its own; else it takes that of the queries
    """

    warpgroups: int
    rows: int
    keys: int
    stages: int
    out_apart: bool
