"""Tiles, warps, buffers and programs for each SM of paged decode, and ways of cutting its work: where the defaults come from.

The shapes of paged_decode.py with blocks of 16 and of 64, beside cuDNN's attention on contiguous KV. About a minute.
Last, what merging costs (splits.MERGE_TILES): rows of one length with slightly fewer pairs than programs, cut into equal shares
and whole. Cutting spares the fullest program some tiles (`tiles_spared`) and costs a merge. `merge_tiles` is what the merge took,
counted in the time of a tile: the tiles spared, less the time gained.
"""

import statistics
import sys
from collections.abc import Iterator
from dataclasses import asdict

import torch

from course_lib.attention.decode_tile import DecodeTile
from course_lib.attention.splits import SPLITS

from ._paged_setup import BUDGET, KV_HEADS, SHAPES, Case, case, read_roof
from ._paged_setup import SOURCES as SETUP_SOURCES
from ._peers import SDPA, Row, alone, first_result, in_turns, rows_beside, run
from ._variants import Variant, variant_rows

SOURCES = ("benchmarks/paged_variants.py", "benchmarks/_variants.py", *SETUP_SOURCES)
PEER = "SDPA cuDNN"
TILES = [  # tokens, warps, stages, programs for each SM
    DecodeTile(*numbers) for numbers in (
        (64, 4, 3, 2), (64, 4, 3, 1), (64, 4, 3, 3), (64, 8, 3, 2), (64, 4, 4, 1), (64, 4, 4, 2), (64, 4, 2, 4), (128, 8, 3, 1),
        (32, 4, 6, 2), (32, 4, 4, 3),
    )
]  # fmt: skip
MERGED_ROWS, MERGED_TOKENS = 32, (2048, 4096, 6144, 8192, 12288, 16384)


def words_of(tile: DecodeTile) -> str:
    programs = f"{tile.programs_per_sm} {'program' if tile.programs_per_sm == 1 else 'programs'} an SM"
    return f"{tile.tokens} tokens, {tile.warps} warps, {tile.stages} stages, {programs}"


def measure() -> Iterator[Row]:
    roof = read_roof()
    yield alone("read of 1 GiB", "GB/s", roof)
    for block in (16, 64):
        for shape in SHAPES:
            yield from shape_rows(case(*shape, block), roof)
            torch.cuda.empty_cache()
    for tokens in MERGED_TOKENS:
        yield from merge_rows(case(MERGED_ROWS, tokens, 16), roof)
        torch.cuda.empty_cache()


def shape_rows(made: Case, roof: float) -> list[Row]:
    """Every tile with the cut that "auto" takes, and the default tile with every cut."""
    default = made.ours()[1].tile
    tried = [(tile, "auto") for tile in dict.fromkeys([default, *TILES])]
    tried += [(default, splits) for splits in SPLITS if splits != "auto"]
    variants = {}
    for tile, splits in tried:
        call, plan = made.ours(tile, splits)
        fields = {"tile": asdict(tile), "splits": splits, "cut": plan.list.describe() if plan.list else ""}
        variants[f"{words_of(tile)}, {splits}"] = Variant(call, f"{words_of(default)}, auto", fields)
    peer = made.sdpa(SDPA[PEER])
    return variant_rows(
        made.words, "GB/s", made.kv_bytes / 1e9, variants, right=made.ours()[0](), budget=BUDGET, peer_name=PEER,
        peer=None if first_result(f"{made.words}: {PEER}", peer) is None else peer, roof=roof,
    )  # fmt: skip


def merge_rows(made: Case, roof: float) -> list[Row]:
    """The default tile: cut into equal shares ("ours") against whole pairs."""
    (together, plan), (whole, _) = made.ours(splits="together"), made.ours(splits="whole")
    seconds = in_turns({"ours": together, "whole pairs": whole})
    pairs, tiles = made.rows * KV_HEADS, -(-made.tokens // plan.tile.tokens)
    fullest = -(-pairs // plan.programs) * tiles
    spared = fullest - pairs * tiles / plan.programs
    tile_seconds = statistics.median(seconds["whole pairs"]) / fullest
    gained = statistics.median(seconds["whole pairs"]) - statistics.median(seconds["ours"])
    return rows_beside(
        f"{made.words}, cut into equal shares", "GB/s", made.kv_bytes / 1e9, seconds, roof=roof, tiles_spared=spared,
        merge_tiles=spared - gained / tile_seconds, cut=plan.list.describe() if plan.list else "",
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(run("paged_variants", SOURCES, measure))
