"""A kernel that reads, adds up and keeps almost nothing: the plainest work that waits for memory."""

import triton
import triton.language as tl


@triton.jit
def read_kernel(x_ptr, sums_ptr, n, BLOCK: tl.constexpr):
    """One program reads BLOCK int32 and writes their sum, 4 bytes, so that no compiler may leave the read out."""
    block = tl.program_id(0)
    offsets = block * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0)
    tl.store(sums_ptr + block, tl.sum(x, axis=0))
