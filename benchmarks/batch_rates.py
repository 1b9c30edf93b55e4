"""How far does batching lift a decode step at 512, 2048 and 8192 tokens of context? FLOP/s of the step against a large product's.

An eighth of an 8B model, 4 layers and an eighth of the head's rows, so that 256 sequences of 8192 tokens fit. Weights and KV keep
the proportion that they have in the whole model. The roadmap says that batching fills the tensor cores (C004).
"""

import sys

import torch

from course_lib.roofline import LLAMA_3_8B
from course_lib.roofline.kernels import decode_kernels
from course_lib.timing import Timing, time_calls
from course_lib.workloads.decode_stack import LLAMA_3_8B_NUMBERS, DecodeStack, StackWeights

from ._points import product_tflops, rate_row
from ._result import write_result

SOURCES = (
    "benchmarks/batch_rates.py", "benchmarks/_points.py", "course_lib/roofline/kernels.py",
    "course_lib/workloads/decode_stack.py", "course_lib/workloads/decode_stack_kernels.py", "course_lib/workloads/captured.py",
    "course_lib/workloads/event_seconds.py", "course_lib/workloads/large_product.py", "course_lib/timing/events.py",
)  # fmt: skip
BATCHES, CONTEXTS, EIGHTH = (1, 4, 16, 64, 256), (512, 2048, 8192), 8


def main() -> int:
    if not torch.cuda.is_available():
        print("blocked: needs a CUDA device")
        return 1
    model = LLAMA_3_8B_NUMBERS | {"layers": LLAMA_3_8B.layers // EIGHTH, "vocab": LLAMA_3_8B.vocab // EIGHTH}
    weights, roof, rows = StackWeights.random(model, model["layers"]), product_tflops(), []
    for context in CONTEXTS:
        for batch in BATCHES:
            # FLOPs of the whole model over eight: layers and head alike
            flops = sum(k.flops * k.count for k in decode_kernels(LLAMA_3_8B, batch, context)) / EIGHTH
            rows.append(rate_row(f"batch {batch}, context {context}", flops, _step(model, weights, batch, context), roof))
    print(write_result("batch_rates", rows, SOURCES))
    return 0


def _step(model: dict, weights: StackWeights, batch: int, context: int) -> Timing:
    stack = DecodeStack(model, model["layers"], batch, context, weights=weights)  # held while its graph runs
    timing = time_calls(stack.graph(), repeats=20)
    del stack
    torch.cuda.empty_cache()
    return timing


if __name__ == "__main__":
    sys.exit(main())
