"""Decode steps of 8 layers with an 8B model's shapes, batch 4, context 512 to 32768: measured beside their floor."""

import dataclasses
import sys

import torch

from course_lib.hardware import find_spec
from course_lib.roofline import LLAMA_3_8B, decode_step
from course_lib.timing import time_calls
from course_lib.workloads.context_sweep import BATCH, LAYERS, context_sweep

from ._result import write_result

SOURCES = (
    "benchmarks/context_sweep.py", "course_lib/workloads/context_sweep.py", "course_lib/workloads/decode_stack.py",
    "course_lib/workloads/decode_stack_kernels.py", "course_lib/workloads/captured.py", "course_lib/timing/events.py",
)  # fmt: skip


def main() -> int:
    if not torch.cuda.is_available():
        print("blocked: needs a CUDA device")
        return 1
    gpu = find_spec(torch.cuda.get_device_name())
    if gpu is None:
        print(f"blocked: gpus.toml has no row for {torch.cuda.get_device_name()}")
        return 1
    model, rows = dataclasses.replace(LLAMA_3_8B, layers=LAYERS), []
    for context, median, low, high in context_sweep(time_calls):
        step = decode_step(model, BATCH, context)
        floor = step.floor_seconds(gpu.bf16_tflops * 1e12, gpu.hbm_gb_per_s * 1e9)
        rows.append({
            "case": f"context {context}, batch {BATCH}, {LAYERS} layers", "unit": "ms", "ours": median * 1e3, "peer": floor * 1e3,
            "peer_name": "the data sheet's floor", "ratio": (median * 1e3) / (floor * 1e3), "roof_share": floor / median,
            "spread": [low * 1e3, high * 1e3],
        })  # fmt: skip
        print(f"context {context:>6}: {median * 1e3:7.3f} ms, floor {floor * 1e3:7.3f} ms")
    print(write_result("context_sweep", rows, SOURCES))
    return 0


if __name__ == "__main__":
    sys.exit(main())
