"""FlashAttention forward against cuDNN's and FlashAttention-2's in torch, and against FlashAttention-3 where its wheel is.

bf16, 16,384 tokens in all, hidden size 2048, random data, cold L2, in turns in one process. FLOPs are halved when causal.
`python -m benchmarks.flash_forward --variants` prints what tiles, warps, stages and TMA do, and records nothing.
"""

import sys
from typing import Any

import torch

from ._flash_setup import TOKENS, Case, contenders, in_turns, tflops
from ._points import product_tflops
from ._result import write_result

SOURCES = (
    "benchmarks/flash_forward.py", "benchmarks/_flash_setup.py", "course_lib/attention/forward.py",
    "course_lib/attention/forward_kernel.py", "course_lib/attention/tiles.py", "course_lib/timing/events.py",
    "course_lib/timing/flush.py",
)  # fmt: skip
HEAD_DIMS, SEQUENCES = (64, 128, 256), (512, 1024, 2048, 4096, 8192, 16384)
BARS = {  # (head_dim, causal, peer) -> ratio that is asked for
    (64, False, "SDPA cuDNN"): 0.88, (64, True, "SDPA cuDNN"): 0.88,
    (128, False, "SDPA cuDNN"): 0.75, (128, True, "SDPA cuDNN"): 0.86,
    (128, False, "SDPA flash"): 1.3, (128, True, "SDPA flash"): 1.3,
}  # fmt: skip


def main() -> int:
    if not torch.cuda.is_available():
        print("blocked: needs a CUDA device")
        return 1
    if "--variants" in sys.argv:
        from ._flash_variants import sweep

        return sweep()
    roof = product_tflops()
    print(f"large bf16 product: {roof:.0f} TFLOP/s")
    rows = [row for case in cases() for row in rows_of(case, roof)]
    print(write_result("flash_forward", rows, SOURCES))
    return 0


def cases() -> list[Case]:
    assert all(TOKENS % sequence == 0 for sequence in SEQUENCES)
    return [Case(d, sequence, causal) for d in HEAD_DIMS for causal in (False, True) for sequence in SEQUENCES]


def rows_of(case: Case, roof: float) -> list[dict[str, Any]]:
    """One row for each peer; ours is the same measurement in all of them."""
    calls = contenders(case)
    seconds = in_turns(calls)
    del calls
    torch.cuda.empty_cache()
    ours, low, high = tflops(case, seconds["ours"])
    rows = []
    for name in list(seconds)[1:]:
        peer = tflops(case, seconds[name])[0]
        bar = BARS.get((case.head_dim, case.causal, name))
        ratios = sorted(theirs / mine for mine, theirs in zip(seconds["ours"], seconds[name], strict=True))
        rows.append({
            "case": f"{case.words}, against {name}", "unit": "TFLOP/s", "ours": ours, "peer": peer, "peer_name": name,
            "ratio": ours / peer, "roof_share": ours / roof, "spread": [low, high],
            "ratio_by_round": [ratios[0], ratios[-1]], "bar": bar,
        })  # fmt: skip
        asked = "" if bar is None else f", bar {bar}{'' if ours / peer >= bar else '  MISSED'}"
        print(
            f"{case.words}: {ours:.0f} TFLOP/s, {ours / peer:.3f} of {name} ({peer:.0f}) "
            f"[{ratios[0]:.3f} to {ratios[-1]:.3f}]{asked}", flush=True,
        )  # fmt: skip
    return rows


if __name__ == "__main__":
    sys.exit(main())
