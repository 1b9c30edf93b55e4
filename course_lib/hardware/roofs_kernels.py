"""The copy that a roof is measured with. The read is workloads/read_curve_kernel.py, which the read curve uses too."""

import triton
import triton.language as tl


@triton.jit
def copy_words_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """One program copies BLOCK int32: it loads 4 * BLOCK bytes and stores as many."""
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    live = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=live), mask=live)
