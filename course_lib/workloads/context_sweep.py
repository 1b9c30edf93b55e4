"""Decode steps over longer and longer contexts: is there a length at which they stall, or does each token add the same?

Eight layers with an 8B model's shapes, and its head: 4.5 GB of weights pass through the L2 in each step, as they would in the
whole model, and a context of 32,768 tokens fits beside them on a GPU of 24 GB.
"""

from collections.abc import Callable, Sequence
from typing import Any

LAYERS, BATCH = 8, 4
CONTEXTS = (512, 1024, 2048, 4096, 6144, 8192, 10240, 12288, 16384, 24576, 32768)


def context_sweep(
    time: Callable[..., Any], contexts: Sequence[int] = CONTEXTS, *, layers: int = LAYERS, batch: int = BATCH
) -> list[tuple[int, float, float, float]]:
    """[(context, median seconds, low, high), ...] of a decode step, replayed as a CUDA graph.

    time   course_lib.timing.time_calls: (call) -> .median_seconds and .seconds
    """
    from . import decode_stack

    weights = decode_stack.StackWeights.random(decode_stack.LLAMA_3_8B_NUMBERS, layers)
    rows = []
    for context in contexts:
        stack = decode_stack.DecodeStack(decode_stack.LLAMA_3_8B_NUMBERS, layers, batch, context, weights=weights)
        timing = time(stack.graph())
        rows.append((context, timing.median_seconds, min(timing.seconds), max(timing.seconds)))
        del stack  # its cache makes room for the next one
    return rows
