"""The simplest traffic there is: n elements in, n elements out. Layout: two vectors, each with a stride of its own."""

import torch
import triton
import triton.language as tl


@triton.jit
def copy_kernel(src_ptr, dst_ptr, n, src_stride, dst_stride, BLOCK: tl.constexpr):
    """One program copies BLOCK elements; a stride of 1 is known to the compiler, so that accesses become wide."""
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    live = index < n
    value = tl.load(src_ptr + index * src_stride, mask=live, other=0.0)
    tl.store(dst_ptr + index * dst_stride, value, mask=live)


def copy(src: torch.Tensor, dst: torch.Tensor | None = None, *, block: int = 1024) -> torch.Tensor:
    """src: [n] with any stride -> dst, [n] of the same dtype (contiguous unless given)."""
    dst = torch.empty(src.shape, dtype=src.dtype, device=src.device) if dst is None else dst
    if src.ndim != 1 or dst.shape != src.shape or dst.dtype != src.dtype:
        raise ValueError(f"copy takes vectors of one length and dtype: {[*src.shape]} {src.dtype}, {[*dst.shape]} {dst.dtype}")
    n = src.numel()
    if n:
        copy_kernel[(triton.cdiv(n, block),)](src, dst, n, src.stride(0), dst.stride(0), BLOCK=block)
    return dst
