"""A decode step of 8B-shaped layers at batch 1 to 64: predicted from measured curves of time against size, then measured.

Each row has the plain floor (all bytes at the rate of the largest read, or all FLOPs at the rate of a large product), the
prediction (the step's kernels one by one, each looked up at its own size: products on the curve of products, the others on
that of plain reads), what the curve of plain reads alone would say, and the median of the step's replays.
"""

import statistics
import sys

import torch

from course_lib.roofline import LLAMA_3_8B
from course_lib.roofline.kernels import decode_kernels
from course_lib.roofline.sweep import predict_sweep
from course_lib.workloads.decode_stack import LLAMA_3_8B_NUMBERS, DecodeStack, StackWeights
from course_lib.workloads.event_seconds import event_seconds
from course_lib.workloads.large_product import SIZE, large_product_tflops
from course_lib.workloads.product_curve import measure_product_curve
from course_lib.workloads.read_curve import measure_read_curve

from ._result import write_result

SOURCES = (
    "benchmarks/batch_sweep.py", "course_lib/roofline/kernels.py", "course_lib/roofline/sweep.py",
    "course_lib/workloads/decode_stack.py", "course_lib/workloads/decode_stack_kernels.py",
    "course_lib/workloads/read_curve.py", "course_lib/workloads/read_curve_kernel.py",
    "course_lib/workloads/product_curve.py", "course_lib/workloads/graph_seconds.py", "course_lib/workloads/captured.py",
    "course_lib/workloads/event_seconds.py", "course_lib/workloads/large_product.py",
)  # fmt: skip
BATCHES, CONTEXTS = (1, 2, 4, 8, 16, 32, 64), (1024, 2048)
REPLAYS = 30


def main() -> int:
    if not torch.cuda.is_available():
        print("blocked: needs a CUDA device")
        return 1
    curves = {"read": measure_read_curve(), "product": measure_product_curve()}
    tables = {kind: _table(curve) for kind, curve in curves.items()}
    peak_tflops = statistics.median(large_product_tflops())
    weights = StackWeights.random(LLAMA_3_8B_NUMBERS, LLAMA_3_8B.layers)
    rows = [_curve_row(kind, *point) for kind, curve in curves.items()
            for point in zip(curve["bytes"], curve["seconds"], curve["spread"], strict=True)]  # fmt: skip
    rows.append(_row(f"bf16 product {SIZE}^3", "TFLOP/s", peak_tflops, None, "", None))
    for context in CONTEXTS:
        floors, alone = (_predict(tables["read"], peak_tflops, context, which)[name]
                         for name, which in (("floor_seconds", None), ("step_seconds", None)))  # fmt: skip
        products, others = (_predict(tables[kind], peak_tflops, context, kind == "product")["step_seconds"]
                            for kind in ("product", "read"))  # fmt: skip
        for place, batch in enumerate(BATCHES):
            seconds = _measure(weights, batch, context)
            step, floor, read = (float(values[place]) * 1e3 for values in (products + others, floors, alone))
            rows.append(_step_row(batch, context, [s * 1e3 for s in seconds], step, floor, read))
            print(f"batch {batch:>2}, context {context}: floor {floor:6.3f} ms, plain reads {read:6.3f}, predicted {step:6.3f}, "
                  f"measured {rows[-1]['ours']:6.3f}; predicted / measured {step / rows[-1]['ours']:.3f}")  # fmt: skip
    print(write_result("batch_sweep", rows, SOURCES))
    return 0


def sweep_kernels(batches: tuple[int, ...], context: int, products: bool | None = None) -> dict[str, torch.Tensor]:
    """The kernels of a sweep's steps for predict_sweep: [batches, kernels]. products: True only those, False only the others."""
    steps = [[k for k in decode_kernels(LLAMA_3_8B, batch, context) if products in (None, k.is_product)] for batch in batches]
    table = {name: torch.tensor([[getattr(k, field) for k in step] for step in steps], dtype=torch.float64)
             for name, field in (("flops", "flops"), ("bytes", "bytes_moved"), ("count", "count"))}  # fmt: skip
    return {"batch": torch.tensor(batches, dtype=torch.float64), **table}


def _predict(table: dict, peak_tflops: float, context: int, products: bool | None) -> dict[str, torch.Tensor]:
    no_limits = {name: torch.zeros(0, dtype=torch.float64) for name in ("weights", "kv_bytes", "group", "ridge")}
    return predict_sweep(sweep_kernels(BATCHES, context, products), table, peak_tflops, no_limits)


def _table(curve: dict) -> dict[str, torch.Tensor]:
    return {name: torch.tensor(curve[name], dtype=torch.float64) for name in ("bytes", "seconds")}


def _measure(weights: StackWeights, batch: int, context: int) -> list[float]:
    """Seconds of each replay of one step. Weights and KV are far larger than any L2, so every replay finds it cold."""
    replay = DecodeStack(LLAMA_3_8B_NUMBERS, LLAMA_3_8B.layers, batch, context, weights=weights).graph()
    return event_seconds(replay, repeats=REPLAYS)


def _step_row(batch: int, context: int, ms: list[float], predicted: float, floor: float, read: float) -> dict:
    measured = statistics.median(ms)
    row = _row(f"step, batch {batch}, context {context}", "ms", measured, predicted, "predicted", [min(ms), max(ms)])
    return row | {"batch": batch, "context": context, "roof_share": floor / measured, "floor_ms": floor, "plain_reads_ms": read}


def _curve_row(kind: str, size: float, seconds: float, spread: list[float]) -> dict:
    name = f"{size / 2**20:g} MiB" if size >= 2**20 else f"{size / 2**10:g} KiB"
    row = _row(f"{kind} of {name}", "us", seconds * 1e6, None, "", [each * 1e6 for each in spread])
    return row | {"curve": kind, "bytes": size, "gb_per_s": size / seconds / 1e9}


def _row(case: str, unit: str, ours: float, peer: float | None, peer_name: str, spread: list[float] | None) -> dict:
    """ratio: measured time over the predicted one, 1.0 for a perfect prediction."""
    ratio = None if peer is None else ours / peer
    return {"case": case, "unit": unit, "ours": ours, "peer": peer, "peer_name": peer_name, "ratio": ratio, "roof_share": None,
            "spread": spread}  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
