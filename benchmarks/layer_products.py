"""Points for a measured roofline: one layer's product, 4096 x 4096 in bf16, with 1 to 4096 tokens, from memory that L2 lacks."""

from typing import Any

import torch

from course_lib.workloads.layer_products import LayerProduct, measure_layer_products

from ._result import write_result

SOURCES = (
    "benchmarks/layer_products.py", "course_lib/workloads/layer_products.py", "course_lib/workloads/graph_seconds.py",
    "course_lib/workloads/decode_stack.py", "course_lib/workloads/captured.py", "course_lib/workloads/event_seconds.py",
)  # fmt: skip


def main() -> int:
    if not torch.cuda.is_available():
        print("blocked: needs a CUDA device")
        return 1
    print(write_result("layer_products", [row_of(point) for point in measure_layer_products()], SOURCES))
    return 0


def row_of(point: LayerProduct) -> dict[str, Any]:
    return {
        "case": "1 token" if point.tokens == 1 else f"{point.tokens} tokens", "unit": "us", "ours": point.seconds * 1e6,
        "peer": None, "peer_name": None, "ratio": None,
        "roof_share": None, "spread": [point.shortest * 1e6, point.longest * 1e6], "tokens": point.tokens,
        "flops_per_byte": point.flops_per_byte, "tflops": point.tflops,
    }  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
