"""FlashAttention forward: one pass over K and V, nothing of size q_len x kv_len in memory.

Layout   q [batch, q_len, q_heads, head_dim], k and v [batch, kv_len, kv_heads, head_dim], out as q, lse [batch, q_heads, q_len]
Causal   aligned bottom-right: query i sees the keys up to i + kv_len - q_len. A row without a key gives 0, and its lse is -inf.
Softmax  base 2, statistics in float32; lse is the natural logarithm of the sum of exp(scale * q k).
"""

import math

import torch
import triton
import triton.language as tl


@triton.jit
def flash_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    lse_ptr,
    stride_qb,
    stride_qm,
    stride_qh,
    stride_qd,
    stride_kb,
    stride_kn,
    stride_kh,
    stride_kd,
    stride_vb,
    stride_vn,
    stride_vh,
    stride_vd,
    stride_ob,
    stride_om,
    stride_oh,
    stride_od,
    q_heads,
    q_len,
    kv_len,
    scale_log2,
    GROUP: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    CAUSAL: tl.constexpr,
    WITH_LSE: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """One program owns BM queries of one head; GROUP query heads share a KV head; BLOCK_D is the power of two >= HEAD_DIM."""
    tile = tl.program_id(0)
    batch = (tl.program_id(1) // q_heads).to(tl.int64)
    head = (tl.program_id(1) % q_heads).to(tl.int64)
    rows = tile.to(tl.int64) * BM + tl.arange(0, BM)
    dims = tl.arange(0, BLOCK_D)
    row_live = rows < q_len
    dim_live = dims < HEAD_DIM

    q_ptrs = q_ptr + batch * stride_qb + head * stride_qh + rows[:, None] * stride_qm + dims[None, :] * stride_qd
    q = tl.load(q_ptrs, mask=row_live[:, None] & dim_live[None, :], other=0.0)
    k_base = k_ptr + batch * stride_kb + (head // GROUP) * stride_kh
    v_base = v_ptr + batch * stride_vb + (head // GROUP) * stride_vh

    best = tl.full((BM,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BM,), dtype=tl.float32)
    acc = tl.zeros((BM, BLOCK_D), dtype=tl.float32)
    end = kv_len
    if CAUSAL:
        end = tl.minimum(kv_len, (tile + 1) * BM + kv_len - q_len)
    for start in range(0, end, BN):
        cols = (start + tl.arange(0, BN)).to(tl.int64)
        col_live = cols < kv_len
        k_ptrs = k_base + dims[:, None] * stride_kd + cols[None, :] * stride_kn
        k = tl.load(k_ptrs, mask=dim_live[:, None] & col_live[None, :], other=0.0)
        score = tl.dot(q, k, input_precision=PRECISION) * scale_log2
        seen = col_live[None, :]
        if CAUSAL:
            seen = seen & (cols[None, :] <= rows[:, None] + (kv_len - q_len))
        score = tl.where(seen, score, float("-inf"))
        new_best = tl.maximum(best, tl.max(score, axis=1))
        shift = tl.where(new_best == float("-inf"), 0.0, new_best)  # a row that has seen no key yet: -inf - -inf would be NaN
        weight = tl.exp2(score - shift[:, None])
        rescale = tl.exp2(best - shift)
        total = total * rescale + tl.sum(weight, axis=1)
        v_ptrs = v_base + cols[:, None] * stride_vn + dims[None, :] * stride_vd
        v = tl.load(v_ptrs, mask=col_live[:, None] & dim_live[None, :], other=0.0)
        acc = tl.dot(weight.to(v.dtype), v, acc * rescale[:, None], input_precision=PRECISION)
        best = new_best

    empty = total == 0.0
    out = acc / tl.where(empty, 1.0, total)[:, None]
    out_ptrs = out_ptr + batch * stride_ob + head * stride_oh + rows[:, None] * stride_om + dims[None, :] * stride_od
    tl.store(out_ptrs, out.to(out_ptr.dtype.element_ty), mask=row_live[:, None] & dim_live[None, :])
    if WITH_LSE:
        ln2: tl.constexpr = 0.6931471805599453
        lse = tl.where(empty, float("-inf"), (best + tl.log2(tl.where(empty, 1.0, total))) * ln2)
        tl.store(lse_ptr + (batch * q_heads + head) * q_len + rows, lse, mask=row_live)


def flash(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    with_lse: bool = False,
    bm: int = 64,
    bn: int = 64,
    precision: str = "ieee",
    **options: int,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """q [batch, q_len, q_heads, head_dim], k and v [batch, kv_len, kv_heads, head_dim] -> out as q, and lse if asked for.

    options are the launch's: num_warps, num_stages. precision matters for float32 only.
    """
    batch, q_len, q_heads, head_dim = q.shape
    kv_len, kv_heads = k.shape[1:3]
    if k.shape != v.shape or k.shape[0] != batch or k.shape[3] != head_dim or q_heads % kv_heads:
        raise ValueError(f"q {[*q.shape]}, k {[*k.shape]} and v {[*v.shape]} do not fit; query heads are a multiple of KV heads")
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty(batch, q_heads, q_len, dtype=torch.float32, device=q.device) if with_lse else out
    if out.numel():
        flash_kernel[(triton.cdiv(q_len, bm), batch * q_heads)](
            q,
            k,
            v,
            out,
            lse,
            *(*q.stride(), *k.stride(), *v.stride(), *out.stride()),
            q_heads,
            q_len,
            kv_len,
            (head_dim**-0.5 if scale is None else scale) * math.log2(math.e),
            GROUP=q_heads // kv_heads,
            HEAD_DIM=head_dim,
            BLOCK_D=max(16, triton.next_power_of_2(head_dim)),
            BM=bm,
            BN=bn,
            CAUSAL=causal,
            WITH_LSE=with_lse,
            PRECISION=precision,
            **options,
        )
    return (out, lse) if with_lse else out
