"""How much of the cache a decode program takes at a time, and how many programs share an SM.

What counts is bytes on the way: a memory that answers after a microsecond and gives 35 GB/s to each SM (4.6 TB/s over 132) needs
35 KB asked for at any moment, and twice that is better, since a program asks for the next tile only when it is done with one.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

H200_SM_BYTES = 228 * 1024
SCRATCH_BYTES = 8 * 1024  # shared memory of a program beside its buffers: q, p, and what the system keeps


@dataclass(frozen=True, slots=True)
class DecodeTile:
    """tokens of K and V at a time, warps, buffers in flight + 1, and how many programs an SM is to get."""

    tokens: int
    warps: int
    stages: int
    programs_per_sm: int


def decode_tile(head_dim: int, rows: int, sm_bytes: int = H200_SM_BYTES) -> DecodeTile:
    """64 KiB of K and V in two buffers; two programs an SM, one where its shared memory does not hold two.

    head_dim 128: 64 tokens * 128 * 2 bytes * (K and V) * 2 buffers = 64 KiB, so two programs have at least 64 KiB on the way. An
    H200's SM would hold three, and they are slower: benchmarks/results/nvidia-h200/paged_variants.json has one, two and three of
    them, and other tiles. What other head_dims and many queries get is by reasoning.
    """
    padded = 1 << (head_dim - 1).bit_length()
    tokens = max(32, min(128, 64 * 128 // padded))
    if rows > 16:  # a tile of many queries: registers are what is short
        large = rows >= 128 or rows * padded >= 64 * 256
        return DecodeTile(min(tokens, 64), 8 if large else 4, 3, 1 if large else 2)
    fit = sm_bytes // (2 * 2 * 2 * tokens * padded + SCRATCH_BYTES)
    return DecodeTile(tokens, 4, 3, max(1, min(fit, 2)))


def most_rows(head_dim: int) -> int:
    """Rows of a tile whose output, float32, stays in the registers of 8 warps."""
    return 128 if head_dim <= 128 else 64


def multiprocessors(device: "torch.device") -> tuple[int, int]:
    """SMs, and bytes of shared memory of each. A CPU has two that are like an H200's, so that work is cut there as well."""
    if device.type != "cuda":
        return 2, H200_SM_BYTES
    import torch

    found = torch.cuda.get_device_properties(device)
    return found.multi_processor_count, getattr(found, "shared_memory_per_multiprocessor", H200_SM_BYTES)
