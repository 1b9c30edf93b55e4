"""Floors of work that is done one piece after another: the kernels of a step, the chunks of a prompt.

Each piece takes the longer of its own two times. Their sum is never below the floor of the totals, and above it when some pieces
wait for arithmetic and others for memory: one piece's arithmetic cannot hide in the other's reads.
"""

from collections.abc import Iterable

from .kernels import KernelCost
from .models import ModelShape
from .steps import chunk_step


def kernels_floor_seconds(kernels: Iterable[KernelCost], peak_flops: float, bytes_per_second: float) -> float:
    """Floor of a step from its kernels (kernels.decode_kernels)."""
    return sum(k.count * max(k.flops / peak_flops, k.bytes_moved / bytes_per_second) for k in kernels)


def prefill_floor_seconds(model: ModelShape, tokens: int, chunk: int, peak_flops: float, bytes_per_second: float) -> float:
    """Floor of the time to first token of one bf16 prompt that is cut into chunks.

    Every chunk reads the weights and the cache so far again, and runs the head. 8192 tokens of Llama-3-8B on an H100:
    133 ms as one chunk by its data sheet, 597 in chunks of 64, of which 128 reads of the weights are 574.
    """
    if tokens < 1 or chunk < 1:
        raise ValueError(f"tokens is {tokens} and chunk {chunk}; both are at least 1")
    steps = (chunk_step(model, min(chunk, tokens - done), done) for done in range(0, tokens, chunk))
    return sum(step.floor_seconds(peak_flops, bytes_per_second) for step in steps)
