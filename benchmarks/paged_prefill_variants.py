"""Rows, tokens, warps and stages of prefill over a paged cache, beside our dense kernel on contiguous K and V. About a minute.

A chunk of 2048 new tokens: 32 query heads over 8 KV heads of 128, bf16, random data, cold L2. The roof is a large bf16 product.
"""

import sys
from collections.abc import Iterator
from dataclasses import asdict

import torch

from course_lib.attention.paged_prefill import PrefillTile, prefill_tile

from ._peers import Row, budget_of, run
from ._points import product_tflops
from ._variants import Variant, variant_rows
from .paged_prefill import CHUNK, CHUNK_SOURCES, HEAD_DIM, KV_HEADS, Q_HEADS, Chunk

SOURCES = ("benchmarks/paged_prefill_variants.py", "benchmarks/_variants.py", *CHUNK_SOURCES)
CASES = ((0, 16), (16384, 16), (16384, 64))  # cached tokens, block
TILES = [  # rows, tokens, warps, stages
    PrefillTile(*numbers) for numbers in (
        (64, 64, 4, 3), (64, 64, 4, 2), (64, 32, 4, 3), (64, 32, 4, 4), (128, 64, 8, 3), (128, 32, 8, 3),
    )
]  # fmt: skip


def words_of(tile: PrefillTile) -> str:
    return f"{tile.rows} rows, {tile.tokens} tokens, {tile.warps} warps, {tile.stages} stages"


def default() -> PrefillTile:
    return prefill_tile(CHUNK, Q_HEADS // KV_HEADS, HEAD_DIM)


def measure() -> Iterator[Row]:
    roof = product_tflops()
    print(f"large bf16 product: {roof:.0f} TFLOP/s", flush=True)
    for cached, block in CASES:
        yield from rows_of(Chunk(cached, block), roof)
        torch.cuda.empty_cache()


def rows_of(chunk: Chunk, roof: float) -> list[Row]:
    name = words_of(default())
    variants = {words_of(tile): Variant(chunk.ours(tile), name, {"tile": asdict(tile)}) for tile in TILES}
    dense = chunk.own_dense()
    return variant_rows(
        chunk.words, "TFLOP/s", chunk.flops / 1e12, variants, right=dense()[0], budget=budget_of(chunk.v),
        peer_name="own dense kernel", peer=dense, roof=roof,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(run("paged_prefill_variants", SOURCES, measure))
