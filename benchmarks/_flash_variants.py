"""Tiles, warps, stages and TMA of FlashAttention forward, beside cuDNN: where the defaults of tiles.py come from.

A compilation takes seconds, and a variant that fails may take its process along. So some processes of their own compile them all,
try each on awkward lengths, and leave the compiled kernels in Triton's cache; here only those are timed that gave a result.
"""

import itertools
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import torch

from course_lib.attention import Tile, attention_reference, flash_attention
from course_lib.attention.tiles import HOPPER, HOPPER_FEW_KEYS, HOPPER_POINTERS
from course_lib.timing import l2_flusher, time_calls

from ._flash_setup import Case, contenders

PROCESSES = 12
HEAD_DIMS, SEQUENCES = (64, 128, 256), (512, 2048, 8192)
DESCRIBED = {  # query rows, key rows, warps, stages
    64: [(64, 128, 4, 3), (64, 128, 4, 2), (64, 64, 4, 3), (64, 64, 4, 4), (64, 64, 4, 2), (64, 32, 4, 4), (128, 64, 8, 3)],
    128: [(64, 64, 4, 3), (64, 64, 4, 2), (64, 64, 4, 4), (64, 32, 4, 3), (64, 32, 4, 4), (128, 64, 8, 2), (128, 128, 8, 3)],
    256: [(128, 64, 8, 2), (128, 32, 8, 3), (64, 32, 4, 2), (64, 32, 4, 3)],
}
POINTERS = {
    64: [(128, 64, 8, 3), (64, 64, 4, 3), (64, 64, 4, 2)],
    128: [(128, 64, 8, 3), (64, 64, 4, 3), (64, 32, 4, 3)],
    256: [(128, 32, 8, 3), (128, 32, 8, 2)],
}


def tiles(head_dim: int) -> list[Tile]:
    """The default first."""
    made = [Tile(*four, descriptors=True) for four in DESCRIBED[head_dim]] + [Tile(*four) for four in POINTERS[head_dim]]
    return list(dict.fromkeys([HOPPER[head_dim], *made]))


def every_variant() -> list[tuple[int, bool, Tile]]:
    return [(d, causal, tile) for d in HEAD_DIMS for tile in tiles(d) for causal in (False, True)]


def sweep() -> int:
    """Print TFLOP/s and share of cuDNN's for every variant, best first; those that are wrong or do not run, with the reason."""
    tried, flush = _try_all(), l2_flusher()

    def rate(case: Case, call: Callable[[], Any] | None) -> float:
        if call is None:
            return float("nan")
        return case.flops / time_calls(call, repeats=5, warmup=2, before=flush).median_seconds / 1e12

    for head_dim, causal in itertools.product(HEAD_DIMS, (False, True)):
        peers, found = [], {}
        for sequence in SEQUENCES:
            case = Case(head_dim, sequence, causal)
            q, k, v = case.inputs()
            peer = contenders(case).get("SDPA cuDNN")
            before = rate(case, peer)
            for tile in tiles(head_dim):
                if tried.get((head_dim, causal, tile)) == "":

                    def call(q=q, k=k, v=v, causal=causal, tile=tile) -> torch.Tensor:
                        return flash_attention(q, k, v, causal=causal, impl="triton", tile=tile)

                    found.setdefault(tile, []).append(rate(case, call))
            peers.append((before + rate(case, peer)) / 2)
        words = " ".join(f"{peer:.0f}" for peer in peers)
        print(f"head_dim {head_dim} {'causal' if causal else 'full'}, sequences {SEQUENCES}; cuDNN {words}")
        for tile, rates in sorted(found.items(), key=lambda one: -one[1][-1]):
            shares = " ".join(f"{r:.0f} ({r / p:.3f})" for r, p in zip(rates, peers, strict=True))
            print(f"  {_words(tile)}: {shares}{_default(head_dim, tile)}", flush=True)
        for tile in tiles(head_dim):
            if (why := tried.get((head_dim, causal, tile), "not tried: its process died")) != "":
                print(f"  {_words(tile)}: {why}")
    return 0


def _words(tile: Tile) -> str:
    loads = "TMA" if tile.descriptors else "pointers"
    return f"{tile.query_rows}x{tile.key_rows} {tile.warps} warps {tile.stages} stages {loads}"


def _default(head_dim: int, tile: Tile) -> str:
    few = HOPPER_FEW_KEYS[head_dim] == tile != HOPPER[head_dim]
    return "  <- default" if tile in (HOPPER[head_dim], HOPPER_POINTERS[head_dim]) else "  <- default, few keys" if few else ""


def _try_all() -> dict[tuple[int, bool, Tile], str]:
    """Variant -> "" where it is right, else what is wrong. What a process that died had not told is missing."""
    command = [sys.executable, "-m", "benchmarks._flash_variants"]
    children = [subprocess.Popen([*command, str(i)], stdout=subprocess.PIPE, text=True) for i in range(PROCESSES)]
    lines = [line for child in children for line in child.communicate()[0].splitlines() if line.startswith("[")]
    variants = every_variant()
    if not lines:  # a device that takes one process only: then here, one after the other
        return {variant: _what_is_wrong(*variant) for variant in variants}
    return {variants[index]: words for index, words in map(json.loads, lines)}


def _try_share(share: int) -> None:
    for index, variant in enumerate(every_variant()):
        if index % PROCESSES == share:
            print(json.dumps([index, _what_is_wrong(*variant)]), flush=True)


def _what_is_wrong(head_dim: int, causal: bool, tile: Tile) -> str:
    """Against float64, on lengths that no tile divides."""
    generator = torch.Generator("cuda").manual_seed(1)
    shapes = [(2, length, 2, head_dim) for length in (333, 700, 700)]
    q, k, v = (torch.randn(shape, generator=generator, device="cuda", dtype=torch.bfloat16) for shape in shapes)
    try:
        out = flash_attention(q, k, v, causal=causal, impl="triton", tile=tile)
        apart = (out.double() - attention_reference(q, k, v, causal=causal)[0]).abs().max().item()
    except Exception as error:  # a variant that does not fit is a line of the table, not the end of it
        return f"{type(error).__name__}: {str(error).splitlines()[0][:150]}"
    budget = 2**-7 * v.abs().max().item()
    return "" if apart <= budget else f"WRONG: {apart} from float64, the budget is {budget}"


if __name__ == "__main__":
    _try_share(int(sys.argv[1]))
