"""The roofs of this device: copy, read, products, and how long a cold read takes against its size. Figures, and the prediction of
a decode step, are made from the recorded result (`hardware.roofs_from_recorded`).
"""

from typing import Any

from course_lib.hardware import Roof, Roofs, find_spec, measured_roofs
from course_lib.hardware.roofs import PRODUCTS, size_words

from ._result import write_result

SOURCES = (
    "benchmarks/roofs.py", "course_lib/hardware/roofs_measure.py", "course_lib/hardware/roofs_kernels.py",
    "course_lib/workloads/read_curve.py", "course_lib/workloads/read_curve_kernel.py", "course_lib/workloads/captured.py",
    "course_lib/timing/events.py",
)  # fmt: skip


def main() -> int:
    roofs = measured_roofs(refresh=True)
    if roofs is None:
        print("blocked: needs a CUDA device")
        return 1
    print(write_result("roofs", rows_of(roofs), SOURCES))
    return 0


def rows_of(roofs: Roofs) -> list[dict[str, Any]]:
    """A row for each roof, beside the data sheet, and one for each size of the read curve; roofs_from_recorded reverses it."""
    sheet = find_spec(roofs.device)
    bandwidth = sheet.hbm_gb_per_s if sheet else None
    rows = [_roof("copy", "GB/s", roofs.copy_gb_per_s, bandwidth), _roof("read", "GB/s", roofs.read_gb_per_s, bandwidth)]
    for kind in PRODUCTS:
        peak = sheet.peak_tflops(kind) if sheet else None
        rows.append(_roof(f"{kind} product", "TFLOP/s", getattr(roofs, f"{kind}_tflops"), peak))
    for (size, seconds), (low, high) in zip(roofs.read_curve, roofs.read_spread, strict=True):
        share = size / seconds / 1e9 / bandwidth if bandwidth else None
        rows.append(_row(f"read {size_words(size)}", "us", seconds * 1e6, None, share, [low * 1e6, high * 1e6]))
    return [row for row in rows if row]


def _roof(case: str, unit: str, roof: Roof | None, peer: float | None) -> dict[str, Any]:
    if roof is None:
        return {}
    share = roof.median / peer if peer else None
    return _row(case, unit, roof.median, peer, share, [roof.low, roof.high])


def _row(case: str, unit: str, ours: float, peer: float | None, share: float | None, spread: list[float]) -> dict[str, Any]:
    return {"case": case, "unit": unit, "ours": ours, "peer": peer, "peer_name": "data sheet" if peer else None,
            "ratio": ours / peer if peer else None, "roof_share": share, "spread": spread}  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
