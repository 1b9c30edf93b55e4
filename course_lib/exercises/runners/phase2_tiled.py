"""Exercise 2.3: the learner's attention on a memory that hands out tiles and writes down what it was asked for."""

from typing import Any

__course_runner__ = True  # messages name the learner's line, not one of this file


def tiled_attention(entry: Any, case: dict) -> dict:
    """-> what was stored, and the accesses in their order."""
    from course_lib.workloads.tile_memory import Shape, tile_memory

    q, k = case["q"], case["k"]
    memory, trace, out, lse = tile_memory(q, k, case["v"], case["tile_q"], case["tile_k"])
    shape = Shape(q.shape[0], k.shape[0], q.shape[1], k.shape[1], q.shape[2], case["causal"], q.element_size())
    entry(memory, shape, case["tile_q"], case["tile_k"])
    return {"out": out, "lse": lse, "trace": list(trace)}
