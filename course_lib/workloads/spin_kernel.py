"""A kernel that occupies one block and does nothing, for as long as it is told."""

import triton
import triton.language as tl


@triton.jit
def spin_kernel(turns_ptr, nanoseconds):
    """One program reads the device's clock until `nanoseconds` have passed, and writes how often it looked."""
    begin = tl.inline_asm_elementwise("mov.u64 $0, %globaltimer;", "=l", [], dtype=tl.int64, is_pure=False, pack=1)
    now = begin
    turns = tl.zeros([], tl.int64)
    while now - begin < nanoseconds:
        now = tl.inline_asm_elementwise("mov.u64 $0, %globaltimer;", "=l", [], dtype=tl.int64, is_pure=False, pack=1)
        turns += 1
    tl.store(turns_ptr, turns)
