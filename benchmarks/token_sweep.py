"""A 4096 by 4096 bf16 product with 1 to 2048 tokens: measured, with weights from memory and from L2, beside its roofline."""

import sys

import torch

from course_lib.hardware import find_spec
from course_lib.roofline import product_counts
from course_lib.timing import time_in_graph
from course_lib.workloads.token_sweep import SIZE, pool, token_sweep

from ._result import write_result

SOURCES = ("benchmarks/token_sweep.py", "course_lib/workloads/token_sweep.py", "course_lib/timing/graph.py")


def main() -> int:
    if not torch.cuda.is_available():
        print("blocked: needs a CUDA device")
        return 1
    gpu = find_spec(torch.cuda.get_device_name())
    if gpu is None:
        print(f"blocked: gpus.toml has no row for {torch.cuda.get_device_name()}")
        return 1
    rows, weights = [], pool()
    for kind, kept in (("cold", weights), ("warm", weights[:1])):
        for tokens, median, low, high in token_sweep(time_in_graph, kept):
            flops, moved = product_counts(tokens, SIZE, SIZE)
            floor = max(flops / (gpu.bf16_tflops * 1e12), moved / (gpu.hbm_gb_per_s * 1e9))
            rows.append(_row(f"{tokens} tokens, {kind}", median, floor, [low, high], kind))
            rate = flops / median / 1e12
            print(f"{rows[-1]['case']:<20}{median * 1e6:8.2f} us, floor {floor * 1e6:8.2f} us, {rate:6.0f} TFLOP/s")
    print(write_result("token_sweep", rows, SOURCES))
    return 0


def _row(case: str, seconds: float, floor: float, spread: list[float], kind: str) -> dict:
    """ratio: time over the data sheet's floor. A warm product may beat it, for its weights do not come from memory."""
    return {
        "case": case, "unit": "us", "ours": seconds * 1e6, "peer": floor * 1e6, "peer_name": "the data sheet's floor",
        "ratio": seconds / floor, "roof_share": floor / seconds if kind == "cold" else None,
        "spread": [second * 1e6 for second in spread],
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
