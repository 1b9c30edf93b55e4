"""Tiled matrix product, C = A B, for any M, N, K and any strides. Layout: a [M, K], b [K, N], c [M, N].

One program owns one [BM, BN] tile of C and walks over K in steps of BK: A is read cdiv(N, BN) times and B cdiv(M, BM) times.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    stride_cm,
    stride_cn,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    ACC: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """ACC is the type of the sum (int32 for int8 operands, else float32); PRECISION matters for float32 operands only."""
    rows = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    cols = tl.program_id(1).to(tl.int64) * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    a_ptrs = a_ptr + rows[:, None] * stride_am + depth[None, :] * stride_ak
    b_ptrs = b_ptr + depth[:, None] * stride_bk + cols[None, :] * stride_bn
    acc = tl.zeros((BM, BN), dtype=ACC)
    for start in range(0, K, BK):
        left = K - start
        a = tl.load(a_ptrs, mask=(rows[:, None] < M) & (depth[None, :] < left), other=0.0)
        b = tl.load(b_ptrs, mask=(depth[:, None] < left) & (cols[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision=PRECISION, out_dtype=ACC)
        a_ptrs += BK * stride_ak
        b_ptrs += BK * stride_bk
    live = (rows[:, None] < M) & (cols[None, :] < N)
    tl.store(c_ptr + rows[:, None] * stride_cm + cols[None, :] * stride_cn, acc.to(c_ptr.dtype.element_ty), mask=live)


def matmul(
    a: torch.Tensor,
    b: torch.Tensor,
    *,
    bm: int = 64,
    bn: int = 64,
    bk: int = 32,
    out_dtype: torch.dtype | None = None,
    precision: str = "ieee",
    **options: int,
) -> torch.Tensor:
    """a: [M, K], b: [K, N] of one dtype (fp16, bf16, fp32, fp8 or int8) -> c [M, N].

    c has the operands' dtype for fp16, bf16 and fp32, float32 for fp8 and int32 for int8, unless out_dtype says otherwise.
    options are the launch's: num_warps, num_stages.
    """
    (m, k), (k_b, n) = a.shape, b.shape
    if k != k_b or a.dtype != b.dtype:
        raise ValueError(f"matmul takes [M, K] and [K, N] of one dtype, got {[*a.shape]} {a.dtype} and {[*b.shape]} {b.dtype}")
    integer = a.dtype == torch.int8
    if out_dtype is None:
        out_dtype = torch.int32 if integer else torch.float32 if a.element_size() == 1 else a.dtype
    c = torch.empty(m, n, dtype=out_dtype, device=a.device)
    if m and n:
        grid = (triton.cdiv(m, bm), triton.cdiv(n, bn))
        strides = (*a.stride(), *b.stride(), *c.stride())
        acc = tl.int32 if integer else tl.float32
        matmul_kernel[grid](a, b, c, m, n, k, *strides, BM=bm, BN=bn, BK=bk, ACC=acc, PRECISION=precision, **options)
    return c
