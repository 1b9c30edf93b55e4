"""Pairs of kernels with one answer and two costs: dequantisation apart, K and V read for each row, loads a row apart."""

import torch
import triton
import triton.language as tl


@triton.jit
def dequantise_kernel(w_ptr, scale_ptr, out_ptr, K, BLOCK: tl.constexpr):
    """One program turns one row of int8 weights into float16."""
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    w = tl.load(w_ptr + row * K + at, mask=at < K, other=0)
    scale = tl.load(scale_ptr + row)
    tl.store(out_ptr + row * K + at, (w.to(tl.float32) * scale).to(tl.float16), mask=at < K)


@triton.jit
def row_times_vector_kernel(w_ptr, x_ptr, out_ptr, K, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    w = tl.load(w_ptr + row * K + at, mask=at < K, other=0.0)
    x = tl.load(x_ptr + at, mask=at < K, other=0.0)
    tl.store(out_ptr + row, tl.sum(w.to(tl.float32) * x.to(tl.float32), axis=0))


@triton.jit
def quantised_row_times_vector_kernel(w_ptr, scale_ptr, x_ptr, out_ptr, K, BLOCK: tl.constexpr):
    """The int8 weights become float16 in registers, rounded as the pass of its own rounds them."""
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    w = tl.load(w_ptr + row * K + at, mask=at < K, other=0)
    w = (w.to(tl.float32) * tl.load(scale_ptr + row)).to(tl.float16)
    x = tl.load(x_ptr + at, mask=at < K, other=0.0)
    tl.store(out_ptr + row, tl.sum(w.to(tl.float32) * x.to(tl.float32), axis=0))


def unfused(w: torch.Tensor, scale: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """w [n, k] int8, scale [n] float32, x [k] float16 -> [n] float32, by way of a float16 copy of w."""
    (n, k), block = w.shape, triton.next_power_of_2(w.shape[1])
    wide, out = torch.empty(n, k, dtype=torch.float16), torch.empty(n)
    dequantise_kernel[(n,)](w, scale, wide, k, BLOCK=block)
    row_times_vector_kernel[(n,)](wide, x, out, k, BLOCK=block)
    return out


def fused(w: torch.Tensor, scale: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    (n, k), out = w.shape, torch.empty(w.shape[0])
    quantised_row_times_vector_kernel[(n,)](w, scale, x, out, k, BLOCK=triton.next_power_of_2(k))
    return out


@triton.jit
def attention_by_row_kernel(q_ptr, k_ptr, v_ptr, out_ptr, kv_len, scale, D: tl.constexpr, BN: tl.constexpr):
    """One program owns one query, so each query reads all of K and V. Layout: q [q_len, D], k and v [kv_len, D]."""
    row, dims, keys = tl.program_id(0), tl.arange(0, D), tl.arange(0, BN)
    live = (keys < kv_len)[:, None]
    q = tl.load(q_ptr + row * D + dims).to(tl.float32)
    k = tl.load(k_ptr + keys[:, None] * D + dims[None, :], mask=live, other=0.0).to(tl.float32)
    score = tl.where(keys < kv_len, tl.sum(q[None, :] * k, axis=1) * scale, float("-inf"))
    weight = tl.exp(score - tl.max(score, axis=0))
    v = tl.load(v_ptr + keys[:, None] * D + dims[None, :], mask=live, other=0.0).to(tl.float32)
    out = tl.sum(weight[:, None] * v, axis=0) / tl.sum(weight, axis=0)
    tl.store(out_ptr + row * D + dims, out.to(out_ptr.dtype.element_ty))


def attention_by_row(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """q [q_len, d], k and v [kv_len, d] with d a power of two -> [q_len, d]."""
    (q_len, d), kv_len, out = q.shape, k.shape[0], torch.empty_like(q)
    attention_by_row_kernel[(q_len,)](q, k, v, out, kv_len, d**-0.5, D=d, BN=triton.next_power_of_2(kv_len))
    return out


@triton.jit
def sum_rows_kernel(x_ptr, out_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr, ALONG: tl.constexpr):
    """out[i] = sum of row i. ALONG: a tile of BN columns at a time; else one column at a time, N elements apart."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    total = tl.zeros((BM,), dtype=tl.float32)
    if ALONG:
        for start in range(0, N, BN):
            cols = start + tl.arange(0, BN)
            tile = tl.load(x_ptr + rows[:, None] * N + cols[None, :], mask=(rows < M)[:, None] & (cols < N)[None, :], other=0.0)
            total += tl.sum(tile, axis=1)
    else:
        for col in range(N):
            total += tl.load(x_ptr + rows * N + col, mask=rows < M, other=0.0)
    tl.store(out_ptr + rows, total, mask=rows < M)


def sum_rows(x: torch.Tensor, *, along: bool) -> torch.Tensor:
    """x: [m, n] float32, contiguous -> [m]."""
    (m, n), out = x.shape, torch.empty(x.shape[0])
    sum_rows_kernel[(triton.cdiv(m, 32),)](x, out, m, n, BM=32, BN=32, ALONG=along)
    return out
