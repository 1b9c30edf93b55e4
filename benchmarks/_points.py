"""What several benchmarks of phase 1 share: a large product's rate, and a row of a result."""

import statistics
from typing import Any

from course_lib.timing import Timing
from course_lib.workloads.large_product import SIZE, large_product_tflops


def product_tflops() -> float:
    """TFLOP/s of a large bf16 product of random data: the roof that the rows are held against."""
    return statistics.median(large_product_tflops())


def rate_row(case: str, flops: float, timing: Timing, roof_tflops: float) -> dict[str, Any]:
    """TFLOP/s against the large product's."""
    rates = sorted(flops / seconds / 1e12 for seconds in timing.seconds)
    ours = flops / timing.median_seconds / 1e12
    share = ours / roof_tflops
    return row(case, "TFLOP/s", ours, roof_tflops, f"bf16 product {SIZE}^3", [rates[0], rates[-1]], share)


def row(
    case: str,
    unit: str,
    ours: float,
    peer: float,
    peer_name: str,
    spread: list[float] | None = None,
    roof_share: float | None = None,
) -> dict[str, Any]:
    made = {"case": case, "unit": unit, "ours": ours, "peer": peer, "peer_name": peer_name, "ratio": ours / peer}
    made |= {"roof_share": roof_share, "spread": spread}
    print(f"{case:<46}{ours:>11.3f} {unit:<8} {peer_name} {peer:.3f}, ratio {ours / peer:.4f}", flush=True)
    return made
