"""Copies of a matrix by tensor descriptors, made on the host or in the kernel: on Hopper they go through the TMA."""

import triton
import triton.language as tl


@triton.jit
def host_descriptor_kernel(src, dst, BM: tl.constexpr, BN: tl.constexpr):
    """src and dst are descriptors with blocks of [BM, BN]; one program copies one block."""
    row, col = tl.program_id(0) * BM, tl.program_id(1) * BN
    dst.store([row, col], src.load([row, col]))


@triton.jit
def device_descriptor_kernel(src_ptr, dst_ptr, rows, cols, BM: tl.constexpr, BN: tl.constexpr):
    """src and dst are contiguous [rows, cols], cols a multiple of 16 bytes; one program copies one block of [BM, BN]."""
    src = tl.make_tensor_descriptor(src_ptr, [rows, cols], [cols, 1], [BM, BN])
    dst = tl.make_tensor_descriptor(dst_ptr, [rows, cols], [cols, 1], [BM, BN])
    row, col = tl.program_id(0) * BM, tl.program_id(1) * BN
    dst.store([row, col], src.load([row, col]))
