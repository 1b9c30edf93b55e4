"""Tiles of FlashAttention forward: what each is worth on this device, beside what the compiler says of it.

head_dim 64 and 128, 4 x 4096 tokens, hidden size 2048, bf16, random data, cold L2, in turns in one process. Every tile of 64 or
128 queries by 32, 64 or 128 keys, with 4 or 8 warps and 2 to 4 stages. FLOPs are halved when causal. The peer is the tile that
`choose_tile` takes. A tile that the device refuses is a row too, with the reason.
"""

import itertools
import json
import statistics
import subprocess
import sys
from typing import Any

import torch

from course_lib.attention import Tile, flash_attention
from course_lib.attention.forward import launch_arguments
from course_lib.attention.forward_kernel import flash_forward_kernel
from course_lib.attention.tiles import HOPPER
from course_lib.interpreter.compiled import Launch, compile_reports
from course_lib.timing import l2_flusher, time_calls

from ._flash_setup import SOURCES as SETUP_SOURCES
from ._flash_setup import Case
from ._peers import PRODUCT_SOURCES
from ._points import product_tflops
from ._result import write_result

SOURCES = ("benchmarks/flash_tiles.py", *SETUP_SOURCES, *PRODUCT_SOURCES)
HEAD_DIMS, SEQUENCE, ROUNDS, PROCESSES = (64, 128), 4096, 5, 12
TILES = [Tile(*four, descriptors=True) for four in itertools.product((64, 128), (32, 64, 128), (4, 8), (2, 3, 4))]
Variant = tuple[Case, Tile]


def variants() -> list[Variant]:
    """The default of each case is among them."""
    return [(Case(d, SEQUENCE, causal), tile) for d in HEAD_DIMS for causal in (False, True) for tile in TILES]


def main() -> int:
    if not torch.cuda.is_available():
        print("blocked: needs a CUDA device")
        return 1
    if torch.cuda.get_device_capability() < (9, 0):
        print("blocked: these tiles load by descriptors, which need compute capability 9.0")
        return 1
    roof, rows = product_tflops(), []
    print(f"large bf16 product: {roof:.0f} TFLOP/s", flush=True)
    compiled, why_not = facts(), tried()
    for case in dict.fromkeys(case for case, _ in variants()):
        tiles = [tile for tile in TILES if not why_not[case, tile]]
        rates = measured(case, tiles)
        made = [row(case, tile, compiled[case, tile], why_not[case, tile], rates, roof) for tile in TILES]
        for one in sorted(made, key=lambda one: -(one["ours"] or 0)):
            told = f"{one['ours']:.0f} TFLOP/s, {one['ratio']:.3f} of the default" if one["ours"] else one["why_not"]
            held = f"{one['shared_bytes']:,} B shared, {one['registers']} registers, {one['spills']} spills"
            print(f"{one['case']}: {told}; {held}", flush=True)
        rows += made
    print(write_result("flash_tiles", rows, SOURCES))
    return 0


def facts() -> dict[Variant, dict[str, Any]]:
    """Shared bytes, registers and spills of each variant, by the compiler."""
    launches = []
    for case, tile in variants():
        q = torch.empty(case.batch, case.sequence, case.heads, case.head_dim, dtype=torch.bfloat16, device="meta")
        args, options = launch_arguments(q, q, q, q, None, None, case.sequence, case.sequence, case.causal, 0.1, tile)
        launches.append(Launch(flash_forward_kernel, args, options, ("sm_90",)))
    found = {}
    for variant, report in zip(variants(), compile_reports(launches, processes=PROCESSES), strict=True):
        one = report["sm_90"]
        found[variant] = {"shared_bytes": one.shared_bytes, "registers": one.registers, "spills": one.spills}
    return found


def tried() -> dict[Variant, str]:
    """Nothing for a variant that gives the default's result, else what is wrong. Processes of their own compile them."""
    command = [sys.executable, "-m", "benchmarks.flash_tiles", "--try"]
    children = [subprocess.Popen([*command, str(i)], stdout=subprocess.PIPE, text=True) for i in range(PROCESSES)]
    lines = [line for child in children for line in child.communicate()[0].splitlines() if line.startswith("[")]
    found = {variants()[index]: words for index, words in map(json.loads, lines)}
    return {variant: found.get(variant, "not tried: its process died") for variant in variants()}


def try_share(share: int) -> None:
    for index, (case, tile) in enumerate(variants()):
        if index % PROCESSES == share:
            print(json.dumps([index, what_is_wrong(case, tile)]), flush=True)


def what_is_wrong(case: Case, tile: Tile) -> str:
    q, k, v = (x[:1] for x in case.inputs())
    right = flash_attention(q, k, v, causal=case.causal, impl="triton", tile=HOPPER[case.head_dim]).float()
    try:
        found = flash_attention(q, k, v, causal=case.causal, impl="triton", tile=tile).float()
        torch.cuda.synchronize()
    except Exception as error:  # a tile that does not fit is a row of the table, not the end of it
        return f"{type(error).__name__}: {str(error).splitlines()[0][:150]}"
    # each rounds its weights and its result to bf16, and is off by at most 2 ** -7 of the largest value
    apart, budget = (found - right).abs().max().item(), 2 * 2**-7 * v.abs().max().item()
    return "" if apart <= budget else f"WRONG: {apart} from the default's, the budget is {budget}"


def measured(case: Case, tiles: list[Tile]) -> dict[Tile, list[float]]:
    """TFLOP/s of each tile in each round, every second round backwards."""
    (q, k, v), flush = case.inputs(), l2_flusher()
    rates: dict[Tile, list[float]] = {tile: [] for tile in tiles}
    for number in range(ROUNDS):
        for tile in tiles if number % 2 == 0 else tiles[::-1]:

            def call(tile: Tile = tile) -> torch.Tensor:
                return flash_attention(q, k, v, causal=case.causal, impl="triton", tile=tile)

            seconds = time_calls(call, repeats=3, warmup=1, before=flush).median_seconds
            rates[tile].append(case.flops / seconds / 1e12)
    return rates


def row(
    case: Case, tile: Tile, compiled: dict[str, Any], why_not: str, rates: dict[Tile, list[float]], roof: float
) -> dict[str, Any]:  # fmt: skip
    """One tile of one case. `ours` and what follows from it are None where the device refused it."""
    default, mine = HOPPER[case.head_dim], rates.get(tile)
    ours = statistics.median(mine) if mine else None
    peer = statistics.median(rates[default]) if mine else None
    words = f"{tile.query_rows} x {tile.key_rows}, {tile.warps} warps, {tile.stages} stages"
    return {
        "case": f"{case.words}: {words}", "unit": "TFLOP/s", "ours": ours, "peer": peer,
        "peer_name": f"{default.query_rows} x {default.key_rows}, {default.warps} warps, {default.stages} stages",
        "ratio": ours / peer if ours and peer else None, "roof_share": ours / roof if ours else None,
        "spread": [min(mine), max(mine)] if mine else None, "head_dim": case.head_dim, "causal": case.causal,
        "query_rows": tile.query_rows, "key_rows": tile.key_rows, "warps": tile.warps, "stages": tile.stages,
        **compiled, "why_not": why_not,
    }  # fmt: skip


if __name__ == "__main__":
    if "--try" in sys.argv:
        try_share(int(sys.argv[-1]))
    else:
        sys.exit(main())
