"""Tiles, warps, stages and TMA of FlashAttention forward, beside cuDNN's: where the defaults of tiles.py come from.

About a minute. A tile that loads through TMA is held against the default, one that loads by pointers against the default for
tensors that cannot be described.
A compilation takes seconds, and a variant that fails may take its process along. So some processes of their own compile them all,
try each on awkward lengths, and leave the compiled kernels in Triton's cache; here only those are timed that gave a result.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict

import torch

from course_lib.attention import Tile, attention_reference, flash_attention
from course_lib.attention.tiles import choose_tile

from ._flash_setup import SOURCES as SETUP_SOURCES
from ._flash_setup import Case, contenders
from ._peers import PRODUCT_SOURCES, Row, budget_of, in_a_line, run
from ._points import product_tflops
from ._variants import Variant, variant_rows

SOURCES = ("benchmarks/flash_variants.py", "benchmarks/_variants.py", *SETUP_SOURCES, *PRODUCT_SOURCES)
PROCESSES = 12
PEER = "SDPA cuDNN"
SEQUENCES = (512, 2048, 4096, 8192)
TILES = {  # head_dim -> query rows, key rows, warps, stages, through TMA
    64: [
        (64, 128, 4, 3, True), (64, 64, 4, 3, True), (64, 64, 4, 4, True), (64, 32, 4, 4, True), (128, 64, 8, 3, True),
        (128, 64, 8, 3, False), (64, 64, 4, 3, False),
    ],
    128: [
        (64, 64, 4, 3, True), (64, 32, 4, 3, True), (128, 128, 8, 3, True),
        (128, 64, 8, 3, False), (64, 64, 4, 3, False),
    ],
    256: [(128, 64, 8, 2, True), (128, 32, 8, 3, True), (64, 32, 4, 3, True), (128, 32, 8, 3, False)],
}  # fmt: skip
Tried = tuple[int, bool, Tile]  # head_dim, causal, tile


def tiles(head_dim: int) -> list[Tile]:
    return [Tile(*numbers) for numbers in TILES[head_dim]]


def cases() -> list[Case]:
    return [Case(d, sequence, causal) for d in TILES for causal in (False, True) for sequence in SEQUENCES]


def default_of(case: Case, tile: Tile) -> Tile:
    """The tile that Hopper takes for the case with the loads of this one."""
    keys = case.sequence - case.sequence // 2 if case.causal else case.sequence
    return choose_tile(case.head_dim, (9, 0), keys=keys, descriptors=tile.descriptors)


def words_of(tile: Tile) -> str:
    loads = "TMA" if tile.descriptors else "pointers"
    return f"{tile.query_rows} x {tile.key_rows}, {tile.warps} warps, {tile.stages} stages, {loads}"


def measure() -> Iterator[Row]:
    why_not, roof = try_all(), product_tflops()
    print(f"large bf16 product: {roof:.0f} TFLOP/s", flush=True)
    for case in cases():
        yield from rows_of(case, why_not, roof)
        torch.cuda.empty_cache()


def rows_of(case: Case, why_not: dict[Tried, str], roof: float) -> list[Row]:
    q, k, v = case.inputs()
    calls = contenders(case)
    variants = {}
    for tile in tiles(case.head_dim):

        def call(tile: Tile = tile) -> torch.Tensor:
            return flash_attention(q, k, v, causal=case.causal, impl="triton", tile=tile)

        known = why_not.get((case.head_dim, case.causal, tile), "not tried: its process died")
        variants[words_of(tile)] = Variant(call, words_of(default_of(case, tile)), {"tile": asdict(tile)}, known)
    return variant_rows(
        case.words, "TFLOP/s", case.flops / 1e12, variants, right=calls["ours"](), budget=budget_of(v),
        peer_name=PEER, peer=calls.get(PEER), roof=roof,
    )  # fmt: skip


def every_variant() -> list[Tried]:
    return [(d, causal, tile) for d in TILES for tile in tiles(d) for causal in (False, True)]


def try_all() -> dict[Tried, str]:
    """Variant -> "" where it is right, else what is wrong. What a process that died had not told is missing."""
    command = [sys.executable, "-m", "benchmarks.flash_variants", "--try"]
    children = [subprocess.Popen([*command, str(i)], stdout=subprocess.PIPE, text=True) for i in range(PROCESSES)]
    lines = [line for child in children for line in child.communicate()[0].splitlines() if line.startswith("[")]
    variants = every_variant()
    if not lines:  # a device that takes one process only: then here, one after the other
        return {variant: what_is_wrong(*variant) for variant in variants}
    return {variants[index]: words for index, words in map(json.loads, lines)}


def try_share(share: int) -> None:
    for index, variant in enumerate(every_variant()):
        if index % PROCESSES == share:
            print(json.dumps([index, what_is_wrong(*variant)]), flush=True)


def what_is_wrong(head_dim: int, causal: bool, tile: Tile) -> str:
    """Against float64, on lengths that no tile divides."""
    generator = torch.Generator("cuda").manual_seed(1)
    shapes = [(2, length, 2, head_dim) for length in (333, 700, 700)]
    q, k, v = (torch.randn(shape, generator=generator, device="cuda", dtype=torch.bfloat16) for shape in shapes)
    try:
        out = flash_attention(q, k, v, causal=causal, impl="triton", tile=tile)
        apart = (out.double() - attention_reference(q, k, v, causal=causal)[0]).abs().max().item()
    except Exception as error:  # a variant that does not fit is a row of the table, not the end of it
        return in_a_line(error)
    budget = budget_of(v) / 2  # float64 rounds nothing
    return "" if apart <= budget else f"WRONG: {apart} from float64, the budget is {budget}"


if __name__ == "__main__":
    if "--try" in sys.argv:
        try_share(int(sys.argv[-1]))
    else:
        sys.exit(run("flash_variants", SOURCES, measure))
