"""Where the Hopper kernel's constants come from: how many heads its schedule takes at a time, its tiles, who deals out tiles.

TFLOP/s beside cuDNN's attention in the same turns, bf16, 16,384 tokens in all, hidden size 2048, cold L2; about a minute.
"""

import itertools
import sys
from collections.abc import Callable
from typing import Any

import torch

from course_lib.attention import flash_attention_packed, hopper_schedule
from course_lib.attention.hopper_forward import hopper_attention, hopper_attention_packed
from course_lib.attention.hopper_ladder import Ladder
from course_lib.attention.hopper_launch import TILES, HopperTile

from ._flash_setup import Case, contenders, in_turns, tflops
from ._result import write_result
from .hopper_ladder import SOURCES as LADDER_SOURCES

SOURCES = ("benchmarks/hopper_variants.py", *LADDER_SOURCES)
MEBIBYTES = (8, 32)
OTHER_TILES = {
    64: {"3 consumers": HopperTile(3, 64, 128, 4, True), "3 consumers, 64 keys": HopperTile(3, 64, 64, 4, True)},
    128: {"3 stages, out in the queries' place": HopperTile(2, 64, 128, 3, False), "64 keys": HopperTile(2, 64, 64, 4, True)},
}
DEALT = Ladder(persistent=False, balanced=False)
Call = Callable[[], torch.Tensor]


def main() -> int:
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
        print("blocked: needs a Hopper GPU")
        return 1
    rows = []
    for sequence in (512, 2048, 16384):
        rows += measured(Case(128, sequence, True), orders(Case(128, sequence, True)))
    for head_dim, sequence in ((64, 512), (64, 8192), (128, 512), (128, 8192)):
        for causal in (False, True):
            rows += measured(Case(head_dim, sequence, causal), tiles(Case(head_dim, sequence, causal)))
    for causal in (False, True):
        rows += measured(Case(128, 4096, causal), packed(Case(128, 4096, causal)), alike=False)
    print(write_result("hopper_variants", rows, SOURCES))
    return 0


def measured(case: Case, ours: dict[str, Call], alike: bool = True) -> list[dict[str, Any]]:
    """A row for each variant, beside cuDNN. alike: all of them compute what cuDNN does, which is looked at."""
    peers = contenders(case)
    peer = peers["SDPA cuDNN"]
    right, budget = peer().float(), 2 * 2**-7 * case.inputs()[2].abs().max().item()
    for name, call in ours.items():
        if alike and not (call().float() - right).abs().max().item() <= budget:
            raise AssertionError(f"{case.words}: {name} differs from cuDNN by more than {budget}")
    seconds = in_turns(ours | {"SDPA cuDNN": peer}, 5)
    theirs, rows = tflops(case, seconds["SDPA cuDNN"])[0], []
    for name in ours:
        rate, low, high = tflops(case, seconds[name])
        rows.append({
            "case": f"{case.words}: {name}", "unit": "TFLOP/s", "ours": rate, "peer": theirs, "peer_name": "SDPA cuDNN",
            "ratio": rate / theirs, "roof_share": None, "spread": [low, high],
        })  # fmt: skip
    words = ", ".join(f"{row['case'].partition(': ')[2]} {row['ours']:.0f}" for row in rows)
    print(f"{case.words}: {words}; cuDNN {theirs:.0f}", flush=True)
    torch.cuda.empty_cache()
    return rows


def orders(case: Case) -> dict[str, Call]:
    """By how causal tiles are dealt out."""
    q, k, v = case.inputs()

    def listed(mebibytes: int) -> Call:
        def call() -> torch.Tensor:
            usual, hopper_schedule.L2_BYTES_FOR_KV = hopper_schedule.L2_BYTES_FOR_KV, mebibytes * 2**20
            try:
                return hopper_attention(q, k, v, causal=case.causal)
            finally:
                hopper_schedule.L2_BYTES_FOR_KV = usual

        return call

    def dealt(steps: Ladder) -> Call:
        return lambda: hopper_attention(q, k, v, causal=case.causal, steps=steps)

    made = {f"{n} MiB of KV at a time": listed(n) for n in MEBIBYTES}
    return made | {"every 132nd tile": dealt(Ladder(balanced=False)), "a block a tile": dealt(DEALT)}


def tiles(case: Case) -> dict[str, Call]:
    q, k, v = case.inputs()

    def call_of(tile: HopperTile) -> Call:
        return lambda: hopper_attention(q, k, v, causal=case.causal, tile=tile)

    made = {"the default": call_of(TILES[case.head_dim])} | {n: call_of(t) for n, t in OTHER_TILES[case.head_dim].items()}
    return made | {"no turns": lambda: hopper_attention(q, k, v, causal=case.causal, steps=Ladder(ping_pong=False))}


def packed(case: Case) -> dict[str, Call]:
    """Sequences of one length, heads 4 to 1: packed and not, tiles drawn or a block for each, and our Triton kernel."""
    q, k, v = case.inputs()
    k, v = (x[:, :, : case.heads // 4].contiguous() for x in (k, v))
    starts = torch.tensor([0, *itertools.accumulate([case.sequence] * case.batch)], dtype=torch.int32, device="cuda")
    flat = [x.flatten(0, 1) for x in (q, k, v)]
    lengths = {"max_q": case.sequence, "max_k": case.sequence, "causal": case.causal}
    return {
        "heads 4 to 1, not packed": lambda: hopper_attention(q, k, v, causal=case.causal),
        "heads 4 to 1, packed": lambda: hopper_attention_packed(*flat, starts, starts, **lengths),
        "heads 4 to 1, packed, a block a tile": lambda: hopper_attention_packed(*flat, starts, starts, **lengths, steps=DEALT),
        "heads 4 to 1, packed, Triton": lambda: flash_attention_packed(*flat, starts, starts, **lengths, impl="triton"),
    }


if __name__ == "__main__":
    sys.exit(main())
