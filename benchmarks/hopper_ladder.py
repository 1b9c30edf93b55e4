"""What each step of the Hopper forward kernel buys, beside cuDNN's attention, our plain Triton kernel, and FlashAttention-3.

bf16, 16,384 tokens in all, hidden size 2048, random data, cold L2, in turns in one process. FLOPs are halved when causal.
`--compile` only compiles and tries the kernels, many at a time, `--compiled` leaves that out; `--short` measures fewer sequences.
"""

import statistics
import sys
import time
from typing import Any

import torch

from ._flash_setup import SOURCES as SETUP_SOURCES
from ._flash_setup import Case, in_turns, tflops
from ._hopper_setup import calls, compile_ahead, errors_to_float64, rungs
from ._peers import PRODUCT_SOURCES
from ._points import product_tflops
from ._result import write_result

FILES = (
    "consumer", "draw", "eight", "forward", "kernel", "ladder", "launch", "order", "packed", "plain", "producer", "schedule",
    "softmax", "tiles", "weights",
)  # fmt: skip
SOURCES = (
    "benchmarks/hopper_ladder.py", "benchmarks/_hopper_setup.py", *SETUP_SOURCES, *PRODUCT_SOURCES,
    *(f"course_lib/attention/hopper_{name}.py" for name in FILES),
)  # fmt: skip
BEST = "balanced"
LADDER_SEQUENCES, OTHER_SEQUENCES = (4096, 16384), (512, 1024, 2048, 8192)
PEERS = ("SDPA cuDNN", "fa3-fwd", "Triton", "SDPA flash")


def main() -> int:
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
        print("blocked: needs a Hopper GPU")
        return 1
    begun = time.monotonic()
    if "--compiled" not in sys.argv:
        compile_ahead()
        print(f"compiled in {time.monotonic() - begun:.0f} s", flush=True)
    if "--compile" in sys.argv:
        return 0
    for causal in (False, True):
        case = Case(128, 2048, causal)
        words = ", ".join(f"{name} {error:.3e}" for name, error in errors_to_float64(case).items())
        print(f"{case.words}, relative error to float64: {words}", flush=True)
    roof = product_tflops()
    print(f"large bf16 product: {roof:.0f} TFLOP/s", flush=True)
    cases = [(Case(128, sequence, causal), True) for sequence in LADDER_SEQUENCES for causal in (False, True)]
    if "--short" not in sys.argv:
        cases += [(Case(128, sequence, causal), False) for sequence in OTHER_SEQUENCES for causal in (False, True)]
        cases += [(Case(d, 8192, causal), False) for d in (64, 256) for causal in (False, True)]
    rows = [row for case, ladder in cases for row in rows_of(case, ladder, roof)]
    print(write_result("hopper_ladder", rows, SOURCES))
    return 0


def rows_of(case: Case, ladder: bool, roof: float) -> list[dict[str, Any]]:
    """One row for each step and peer: its rate, and the ratio to FlashAttention-3, or else to cuDNN, round by round."""
    steps = rungs() if ladder else {BEST: rungs()[BEST]}
    found = calls(case, steps)
    seconds = in_turns(found)
    del found
    torch.cuda.empty_cache()
    peers = [name for name in PEERS if name in seconds]
    rows = []
    for name in [*(step for step in steps if step in seconds), *peers]:
        rate, slowest, fastest = tflops(case, seconds[name])
        against = {peer: ratios(seconds, name, peer) for peer in peers if peer != name}
        words = ", ".join(f"{middle:.3f} of {peer} [{low:.3f} to {high:.3f}]" for peer, (middle, low, high) in against.items())
        print(f"{case.words}: {name:12} {rate:4.0f} TFLOP/s; {words}", flush=True)
        for peer, (middle, low, high) in against.items():
            rows.append({
                "case": f"{case.words}, {name} against {peer}", "unit": "TFLOP/s", "ours": rate,
                "peer": tflops(case, seconds[peer])[0], "peer_name": peer, "ratio": middle, "roof_share": rate / roof,
                "spread": [slowest, fastest], "ratio_by_round": [low, high],
            })  # fmt: skip
    return rows


def ratios(seconds: dict[str, list[float]], name: str, peer: str) -> tuple[float, float, float]:
    """Ratio of medians, and the lowest and highest of a round."""
    each = [theirs / ours for ours, theirs in zip(seconds[name], seconds[peer], strict=True)]
    return statistics.median(seconds[peer]) / statistics.median(seconds[name]), min(each), max(each)


if __name__ == "__main__":
    sys.exit(main())
