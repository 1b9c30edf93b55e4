"""Decode against context: does a step slow down at 8192 tokens, and how far does batching lift it at 512, 2k and 8k?

Time   32 layers of an 8B model at batch 1 and 8, contexts 512 to 32768. The peer is the straight line through all contexts of a
       batch, so that a cliff anywhere would show as ratios that jump.
Rate   an eighth of the model, 4 layers and an eighth of the head's rows, so that 256 sequences of 8192 tokens fit: FLOP/s of the
       step against those of a large product. Weights and KV keep the proportion that they have in the whole model.
"""

import sys
from collections.abc import Sequence

import torch

from course_lib.roofline import LLAMA_3_8B
from course_lib.roofline.kernels import decode_kernels
from course_lib.timing import Timing, time_calls
from course_lib.workloads.decode_stack import LLAMA_3_8B_NUMBERS, DecodeStack, StackWeights

from ._points import product_tflops, rate_row, row
from ._result import write_result

SOURCES = (
    "benchmarks/context_sweep.py", "benchmarks/_points.py", "course_lib/roofline/kernels.py",
    "course_lib/workloads/decode_stack.py", "course_lib/workloads/decode_stack_kernels.py",
)  # fmt: skip
BATCHES, CONTEXTS = (1, 8), (512, 1024, 2048, 4096, 6144, 8192, 10240, 12288, 16384, 32768)
RATE_BATCHES, RATE_CONTEXTS, EIGHTH = (1, 4, 16, 64, 256), (512, 2048, 8192), 8


def main() -> int:
    if not torch.cuda.is_available():
        print("blocked: needs a CUDA device")
        return 1
    rows = [made for batch in BATCHES for made in _time_rows(batch)] + _rate_rows()
    print(write_result("context_sweep", rows, SOURCES))
    return 0


def line(xs: Sequence[float], ys: Sequence[float]) -> list[float]:
    """The least-squares straight line through the points, at each x."""
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / sum((x - mean_x) ** 2 for x in xs)
    return [mean_y + slope * (x - mean_x) for x in xs]


def _time_rows(batch: int) -> list[dict]:
    weights = StackWeights.random(LLAMA_3_8B_NUMBERS, LLAMA_3_8B.layers)
    timings = [_step(LLAMA_3_8B_NUMBERS, weights, batch, context) for context in CONTEXTS]
    fitted = line(CONTEXTS, [timing.median_seconds for timing in timings])
    return [
        row(f"step, batch {batch}, context {context}", "ms", timing.median_seconds * 1e3, on_line * 1e3,
            "the straight line through all contexts", [min(timing.seconds) * 1e3, max(timing.seconds) * 1e3])
        for context, timing, on_line in zip(CONTEXTS, timings, fitted, strict=True)
    ]  # fmt: skip


def _rate_rows() -> list[dict]:
    model = LLAMA_3_8B_NUMBERS | {"layers": LLAMA_3_8B.layers // EIGHTH, "vocab": LLAMA_3_8B.vocab // EIGHTH}
    weights, roof, rows = StackWeights.random(model, model["layers"]), product_tflops(), []
    for context in RATE_CONTEXTS:
        for batch in RATE_BATCHES:
            # FLOPs of the whole model over an eighth of them: layers and head alike
            flops = sum(k.flops * k.count for k in decode_kernels(LLAMA_3_8B, batch, context)) / EIGHTH
            timing = _step(model, weights, batch, context)
            rows.append(rate_row(f"rate, batch {batch}, context {context}", flops, timing, roof))
    return rows


def _step(model: dict, weights: StackWeights, batch: int, context: int) -> Timing:
    timing = time_calls(DecodeStack(model, model["layers"], batch, context, weights=weights).graph(), repeats=20)
    torch.cuda.empty_cache()
    return timing


if __name__ == "__main__":
    sys.exit(main())
