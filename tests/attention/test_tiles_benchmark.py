"""The sweep of tiles: its sources, the defaults among its tiles, and rows for what ran and for what the device refused."""

from pathlib import Path

import pytest

from benchmarks import flash_tiles
from benchmarks._flash_setup import Case
from course_lib.attention.tiles import HOPPER, Tile

COMPILED = {"shared_bytes": 114_712, "registers": 163, "spills": 0}


def test_sources_and_variants():
    root = Path(__file__).parents[2]
    assert all((root / name).is_file() for name in flash_tiles.SOURCES)
    found = flash_tiles.variants()
    assert len(found) == len(set(found)) == 2 * 2 * 36
    assert all((Case(d, 4096, causal), HOPPER[d]) in found for d in (64, 128) for causal in (False, True))


def test_a_row_is_beside_the_default_and_says_what_was_refused():
    case, default, other = Case(128, 4096, True), HOPPER[128], Tile(128, 64, 8, 2, descriptors=True)
    rates = {default: [500.0, 510.0, 490.0], other: [250.0, 240.0, 260.0]}
    row = flash_tiles.row(case, other, COMPILED, "", rates, 800.0)
    assert (row["ours"], row["peer"], row["ratio"], row["roof_share"]) == (250.0, 500.0, pytest.approx(0.5), 0.3125)
    assert row["spread"] == [240.0, 260.0]
    assert row["case"] == "head_dim 128, 4 x 4096, causal: 128 x 64, 8 warps, 2 stages"
    large = Tile(128, 128, 8, 4, descriptors=True)
    refused = flash_tiles.row(case, large, COMPILED, "OutOfResources: out of resource", rates, 800.0)
    assert refused["ours"] is refused["peer"] is refused["ratio"] is refused["spread"] is None
    assert refused["why_not"].startswith("OutOfResources")
