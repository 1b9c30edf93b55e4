"""Exercise 1.1: the learner's ridge points for a table, and for what a product and a copy reach on this device."""

import statistics
from typing import Any

import torch

__course_runner__ = True  # messages name the learner's line, not one of this file

COPY_BYTES = 2**30  # far beyond any L2, so that the copy streams from memory


def ridge_points(entry: Any, case: dict) -> Any:
    """The learner's table of ridge points. A "strided" case arrives as views with gaps, as slices of larger tables do."""
    if case.get("strided"):
        case["peak_tflops"] = _with_gaps(case["peak_tflops"].T).T
        case["hbm_gb_per_s"] = _with_gaps(case["hbm_gb_per_s"])
    return entry(case["peak_tflops"], case["hbm_gb_per_s"])


def ridge_of_this_device(entry: Any, case: dict) -> dict:
    """Measure a matrix product and a copy here and now, and let the learner's function make a ridge point of them.

    The product is in bf16; in fp16 on a chip that has no bf16, such as a T4.
    """
    if not torch.cuda.is_available():
        return {"blocked": "needs a CUDA device, and this machine shows none"}
    device = torch.cuda.get_device_name()
    row = next((row for row in case["sheet"] if device.removeprefix("NVIDIA ").strip() in row["names"]), None)
    if row is None:
        return {"blocked": f"gpus.toml has no row for {device}; add one, with its source, to compare with"}
    for _ in range(2):  # a share of the roof beyond belief is measured once more
        tflops, copy_gb_per_s = _measure_matmul(row["precision"]), _measure_copy()
        peak, bandwidth = statistics.median(tflops), statistics.median(copy_gb_per_s)
        roof_share = max(peak / row["peak_tflops"], bandwidth / row["hbm_gb_per_s"])
        if roof_share <= 1.05:
            break
    ridge = entry(torch.tensor([[peak]], dtype=torch.float64), torch.tensor([bandwidth], dtype=torch.float64))
    here, sheet = peak * 1e3 / bandwidth, row["peak_tflops"] * 1e3 / row["hbm_gb_per_s"]
    return {
        "device": device,
        "peer": f"the sheet's bandwidth, a ridge of {here:.0f} FLOP/byte where the sheet has {sheet:.0f},",
        "ratios": [bandwidth / row["hbm_gb_per_s"]],
        "roof_share": roof_share,
        "precision": row["precision"],
        "tflops": peak,
        "tflops_spread": [min(tflops), max(tflops)],
        "copy_gb_per_s": bandwidth,
        "copy_gb_per_s_spread": [min(copy_gb_per_s), max(copy_gb_per_s)],
        "ridge": ridge,
    }


def _with_gaps(tensor: torch.Tensor) -> torch.Tensor:
    """The same values with every second element along the last dimension belonging to somebody else (NaN)."""
    wide = torch.full((*tensor.shape, 2), float("nan"), dtype=tensor.dtype, device=tensor.device)
    wide[..., 0] = tensor
    return wide.flatten(-2)[..., ::2]


def _measure_matmul(precision: str) -> list[float]:
    """TFLOP/s of a large product."""
    from course_lib.workloads.large_product import large_product_tflops

    return large_product_tflops({"bf16": torch.bfloat16, "fp16": torch.float16}[precision])


def _measure_copy() -> list[float]:
    """GB/s of a device-to-device copy, bytes read and bytes written counted."""
    from course_lib.workloads.event_seconds import event_seconds

    source = torch.randint(0, 2**31 - 1, (COPY_BYTES // 4,), device="cuda", dtype=torch.int32)
    target = torch.empty_like(source)
    return [2 * COPY_BYTES / seconds / 1e9 for seconds in event_seconds(lambda: target.copy_(source))]
