"""Tiles of the Hopper kernel, and how many heads its schedule takes at a time: where the constants come from. Records nothing.

Each line is a case; ours by variant in TFLOP/s, and beside them cuDNN's and our plain Triton kernel's, all in turns.
"""

import itertools
import statistics
import sys
from collections.abc import Callable

import torch

from course_lib.attention import flash_attention, flash_attention_packed, hopper_schedule
from course_lib.attention.hopper_forward import hopper_attention, hopper_attention_packed
from course_lib.attention.hopper_ladder import Ladder
from course_lib.attention.hopper_launch import TILES, HopperTile

from ._flash_setup import Case, contenders, in_turns, tflops

MEBIBYTES = (8, 6, 32)
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
    for head_dim in (128, 64, 256):
        for sequence in (1024, 4096):
            packed(Case(head_dim, sequence, False))
            packed(Case(head_dim, sequence, True))
    for q_len in (16, 64, 96, 256):
        few_queries(q_len)
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
            usual, hopper_schedule.L2_BYTES_FOR_KV = hopper_schedule.L2_BYTES_FOR_KV, mebibytes * 2**20
            try:
                return hopper_attention(q, k, v, causal=case.causal)
            finally:  # "drawn" and every later case look at it, too
                hopper_schedule.L2_BYTES_FOR_KV = usual

        return call

    def dealt(steps: Ladder) -> Call:
        return lambda: hopper_attention(q, k, v, causal=case.causal, steps=steps)

    made = {f"{n} MiB of KV at a time": listed(n) for n in (MEBIBYTES if case.causal else MEBIBYTES[:1])}
    made["drawn"] = dealt(Ladder(drawn=True))
    made["in turn"] = dealt(Ladder(balanced=False))
    return made | {"by the hardware": dealt(Ladder(persistent=False, balanced=False))}


def tiles(case: Case) -> dict[str, Call]:
    q, k, v = case.inputs()

    def call_of(tile: HopperTile) -> Call:
        return lambda: hopper_attention(q, k, v, causal=case.causal, tile=tile)

    made = {"default": call_of(TILES[case.head_dim])} | {n: call_of(t) for n, t in OTHER_TILES[case.head_dim].items()}
    return made | {"no turns": lambda: hopper_attention(q, k, v, causal=case.causal, steps=Ladder(ping_pong=False))}


def few_queries(q_len: int) -> None:
    """A chunk of a prompt after 8192 keys, causal, 32 query heads on 8."""
    generator = torch.Generator("cuda").manual_seed(0)
    shapes = [(4, n, heads, 128) for n, heads in ((q_len, 32), (8192, 8), (8192, 8))]
    q, k, v = (torch.randn(shape, generator=generator, device="cuda", dtype=torch.bfloat16) for shape in shapes)
    calls = {impl: (lambda impl=impl: flash_attention(q, k, v, causal=True, impl=impl)) for impl in ("hopper", "triton")}
    seconds = in_turns(calls, 5)
    words = ", ".join(f"{name} {statistics.median(s) * 1e6:.0f} us" for name, s in seconds.items())
    print(f"{q_len} queries after 8192 keys, 4 sequences, heads 32/8: {words}", flush=True)


def packed(case: Case) -> None:
    """Sequences of one length, packed and not, and of lengths from 0.1 to 1.9 times it; heads 4 to 1."""
    q, k, v = (x.flatten(0, 1) for x in case.inputs())
    k, v = (x[:, : case.heads // 4].contiguous() for x in (k, v))
    even = torch.arange(0, len(q) + 1, case.sequence, dtype=torch.int32, device="cuda")
    mixed = [int(case.sequence * share) for share in (0.1, 1.9, 0.5, 1.5)] * (case.batch // 4)
    uneven = torch.tensor([0, *itertools.accumulate(mixed)], dtype=torch.int32, device="cuda")

    def call_of(cu: torch.Tensor, longest: int, way: str) -> Call:
        lengths = {"max_q": longest, "max_k": longest, "causal": case.causal}
        if way == "drawn":
            return lambda: hopper_attention_packed(q, k, v, cu, cu, **lengths, steps=Ladder(drawn=True))
        return lambda: flash_attention_packed(q, k, v, cu, cu, **lengths, impl=way)

    q4, k4, v4 = (x.view(case.batch, case.sequence, -1, case.head_dim) for x in (q, k, v))
    calls: dict[str, Call] = {"not packed": lambda: hopper_attention(q4, k4, v4, causal=case.causal)}
    calls |= {f"even, {impl}": call_of(even, case.sequence, impl) for impl in ("hopper", "drawn", "triton")}
    calls |= {f"mixed, {impl}": call_of(uneven, max(mixed), impl) for impl in ("hopper", "drawn", "triton")}
    more = sum(n * n for n in mixed) / (len(q) * case.sequence)  # work of the mixed lengths
    rates = {name: case.flops / statistics.median(s) / 1e12 for name, s in in_turns(calls, 5).items()}
    words = ", ".join(f"{name} {rate * more if 'mixed' in name else rate:.0f}" for name, rate in rates.items())
    print(f"{case.words}, packed: {words}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
