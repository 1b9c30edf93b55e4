"""Before a cache is used: can a kernel read it 16 bytes at a time?

A thread loads 16 bytes at once only from an address that is a multiple of 16 bytes, and only if the compiler knows that it is.
Triton is told two things of a launch: whether a tensor's address is a multiple of 16 bytes, and which strides are multiples of
16 elements. What it is not told, it takes for odd: 8 loads of 2 bytes in place of one. 16 bytes is the least: an H200 reads heads
that begin at a line of 128 bytes faster still (benchmarks/paged_gather.py).
"""

from typing import Any

ALIGNED_BYTES = 16
ALIGNED_ELEMENTS = 16


def check_alignment(name: str, blocks: Any) -> None:
    """ValueError where K or V [num_blocks, block_size, kv_heads, head_dim] would be read in pieces of less than 16 bytes.

    A stride that is 1, or of an axis with one entry, tells the compiler what it needs, or is never used.
    """
    beside = blocks.data_ptr() % ALIGNED_BYTES
    if beside:
        raise ValueError(
            f"{name} begins {beside} bytes behind a multiple of {ALIGNED_BYTES}; let it begin at a storage's first element, or "
            f"at one whose number is a multiple of {ALIGNED_BYTES // blocks.element_size()}"
        )
    if blocks.stride(-1) != 1:
        raise ValueError(f"{name} has a last stride of {blocks.stride(-1)}, so that no two elements of a head touch; use 1")
    for axis in range(blocks.ndim - 1):
        stride = blocks.stride(axis)
        if blocks.shape[axis] > 1 and stride % ALIGNED_ELEMENTS:
            raise ValueError(
                f"{name} has stride {stride} on axis {axis}; a compiler knows 16-byte loads of strides that are multiples of "
                f"{ALIGNED_ELEMENTS} elements: {stride // ALIGNED_ELEMENTS * ALIGNED_ELEMENTS + ALIGNED_ELEMENTS} would do"
            )
