"""Bits of a quantised weight, with the scales and zeros of its group.

Source   GPTQ, arXiv 2210.17323, section 4 (groups); AWQ, arXiv 2306.00978 (groups of 128).
"""

from .models import ModelShape
from .steps import BF16_BYTES


def bits_per_weight(group: int, *, bits: int = 4, scale_bits: int = 16, zero_bits: int = 0) -> float:
    """A weight's own bits and its share of the group's. Groups of 128, fp16 scale: 4.125; with 4-bit zeros: 4.15625."""
    if group < 1:
        raise ValueError(f"a group of {group} weights; use at least 1")
    return bits + (scale_bits + zero_bits) / group


def weight_memory_bytes(model: ModelShape, linear_bits: float, other_bits: float = 8 * BF16_BYTES) -> float:
    """All the weights in memory; embedding, head and norms have `other_bits`. Llama-3-8B, 4.125 and bf16: 5.70 GB."""
    return (linear_bits * model.linear_params + other_bits * (model.params - model.linear_params)) / 8
