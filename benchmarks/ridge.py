"""The measured ridge point of this device against the data sheet's: a bf16 (or fp16) product and a copy, in one run."""

import torch

from course_lib.exercises.phase1 import RIDGE_POINTS
from course_lib.exercises.runners.phase1_ridge import ridge_of_this_device
from course_lib.hardware import find_spec
from course_lib.roofline import ridge_points

from ._result import write_result

SOURCES = ("benchmarks/ridge.py", "course_lib/exercises/runners/phase1_ridge.py", "course_lib/workloads/event_seconds.py",
           "course_lib/workloads/large_product.py", "course_lib/hardware/gpus.toml")  # fmt: skip


def main() -> int:
    if not torch.cuda.is_available():
        print("blocked: needs a CUDA device")
        return 1
    (case,) = RIDGE_POINTS.in_cell("timed")[0].cases(0)
    evidence = ridge_of_this_device(ridge_points, case)
    if "blocked" in evidence:
        print(f"blocked: {evidence['blocked']}")
        return 1
    spec = find_spec(evidence["device"])
    rows = [
        _row(f"{spec.half_precision} product 8192^3", "TFLOP/s", evidence["tflops"], spec.half_tflops, evidence["tflops_spread"]),
        _row("copy of 1 GiB", "GB/s", evidence["copy_gb_per_s"], spec.hbm_gb_per_s, evidence["copy_gb_per_s_spread"]),
        _row("ridge", "FLOP/byte", float(evidence["ridge"]), spec.half_tflops * 1e3 / spec.hbm_gb_per_s, None),
    ]
    for row in rows:
        print(f"{row['case']:<22}{row['ours']:>9.1f} {row['unit']:<10} sheet {row['peer']:>8.1f}  ratio {row['ratio']:.3f}")
    print(write_result("ridge", rows, SOURCES))
    return 0


def _row(case: str, unit: str, ours: float, peer: float, spread: list[float] | None) -> dict:
    roof = None if spread is None else ours / peer
    return {"case": case, "unit": unit, "ours": ours, "peer": peer, "peer_name": "data sheet", "ratio": ours / peer,
            "roof_share": roof, "spread": spread}  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
