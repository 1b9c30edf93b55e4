"""Tiles of the Hopper kernel, and how many heads its schedule takes at a time: where the constants come from. Records nothing.

Each line is a case; ours by variant in TFLOP/s, and beside them cuDNN's and our plain Triton kernel's, all in turns.
"""

import sys
from collections.abc import Callable

import torch

from course_lib.attention import hopper_schedule
from course_lib.attention.hopper_forward import TILES, HopperTile, hopper_attention
from course_lib.attention.hopper_ladder import Ladder

from ._flash_setup import Case, contenders, in_turns, tflops

MEBIBYTES = (32, 16, 8, 4)
OTHER_TILES = {
    64: {"3 x 64, 128": HopperTile(3, 64, 128, 4, True), "3 x 64, 64": HopperTile(3, 64, 64, 4, True),
         "2 x 64, 128, 2 stages": HopperTile(2, 64, 128, 2, True), "2 x 64, 128, 3 stages": HopperTile(2, 64, 128, 3, True)},
    128: {"3 stages": HopperTile(2, 64, 128, 3, False), "64 keys, 4 stages": HopperTile(2, 64, 64, 4, True)},
    256: {},
}  # fmt: skip
Call = Callable[[], torch.Tensor]


def main() -> int:
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
        print("blocked: needs a Hopper GPU")
        return 1
    for sequence in (512, 1024, 2048, 4096, 16384):
        for causal in (False, True):
            show(Case(128, sequence, causal), orders(Case(128, sequence, causal)))
    for head_dim in (64, 256, 128):
        for sequence in (512, 2048, 8192):
            for causal in (False, True):
                show(Case(head_dim, sequence, causal), tiles(Case(head_dim, sequence, causal)))
    return 0


def show(case: Case, ours: dict[str, Call]) -> None:
    peers = contenders(case)
    right = peers.pop("ours")
    peers.pop("SDPA flash", None)
    budget = 2 * 2**-7 * case.inputs()[2].abs().max().item()
    calls: dict[str, Call] = {}
    for name, call in ours.items():
        try:
            apart = (call().float() - right().float()).abs().max().item()
        except Exception as error:  # a variant that does not fit is a word in the line
            print(f"{case.words}: {name}: {type(error).__name__}: {str(error).splitlines()[0][:120]}", flush=True)
            continue
        if apart <= budget:
            calls[name] = call
        else:
            print(f"{case.words}: {name} is WRONG by {apart}", flush=True)
    seconds = in_turns(calls | peers | {"Triton": right}, 5)
    print(f"{case.words}: " + ", ".join(f"{name} {tflops(case, s)[0]:.0f}" for name, s in seconds.items()), flush=True)
    torch.cuda.empty_cache()


def orders(case: Case) -> dict[str, Call]:
    """By how the tiles are dealt out. Full: all cost the same, so only by whether blocks stay."""
    q, k, v = case.inputs()

    def listed(mebibytes: int) -> Call:
        def call() -> torch.Tensor:
            hopper_schedule.L2_BYTES_FOR_KV = mebibytes * 2**20
            return hopper_attention(q, k, v, causal=case.causal)

        return call

    def dealt(steps: Ladder) -> Call:
        return lambda: hopper_attention(q, k, v, causal=case.causal, steps=steps)

    made = {f"{n} MiB of KV at a time": listed(n) for n in (MEBIBYTES if case.causal else MEBIBYTES[:1])}
    made["in turn"] = dealt(Ladder(balanced=False))
    return made | {"by the hardware": dealt(Ladder(persistent=False, balanced=False))}


def tiles(case: Case) -> dict[str, Call]:
    q, k, v = case.inputs()

    def call_of(tile: HopperTile) -> Call:
        return lambda: hopper_attention(q, k, v, causal=case.causal, tile=tile)

    made = {"default": call_of(TILES[case.head_dim])} | {n: call_of(t) for n, t in OTHER_TILES[case.head_dim].items()}
    return made | {"no turns": lambda: hopper_attention(q, k, v, causal=case.causal, steps=Ladder(ping_pong=False))}


if __name__ == "__main__":
    sys.exit(main())
