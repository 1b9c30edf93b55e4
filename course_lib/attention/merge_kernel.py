"""Merge of partial attention results: outputs that saw different tokens, weighed by the sums they were divided by.

A part is (out, lse): its own normalised output, and the logarithm of its sum. All parts together are
sum(2 ** lse_i * out_i) / sum(2 ** lse_i), computed against the largest lse so that nothing overflows. A part with lse = -inf saw
nothing and weighs nothing, whatever its output holds.
"""

import triton
import triton.language as tl


@triton.jit
def merge_kernel(
    part_ptr, part_lse_ptr, merges_ptr, out_ptr, lse_ptr,
    out_stride, out_head_stride, lse_stride, part_rows,
    GROUP: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """Program (i, r): merge i of the list (first query, queries, KV head, first slot, parts), row r of its tile. Base 2."""
    fields = merges_ptr + tl.program_id(0) * 8
    row = tl.program_id(1)
    parts = tl.load(fields + 4)
    if row >= tl.load(fields + 1) * GROUP:
        parts = 0
    if parts > 0:
        first = tl.load(fields + 3)
        dim = tl.arange(0, BLOCK_D)
        lane = tl.arange(0, PARTS)
        inside = dim < HEAD_DIM
        largest = tl.full((), float("-inf"), tl.float32)
        total = tl.full((), 0.0, tl.float32)
        acc = tl.zeros((BLOCK_D,), tl.float32)
        for start in range(0, parts, PARTS):
            live = start + lane < parts
            part = (first + start + lane).to(tl.int64) * part_rows + row
            lse = tl.load(part_lse_ptr + part, mask=live, other=float("-inf"))
            where = part[:, None] * HEAD_DIM + dim[None, :]
            out = tl.load(part_ptr + where, mask=live[:, None] & inside[None, :], other=0.0)
            larger = tl.maximum(largest, tl.max(lse, 0))
            base = tl.where(larger == float("-inf"), 0.0, larger)
            weight = tl.exp2(lse - base)
            shrink = tl.exp2(largest - base)
            total = total * shrink + tl.sum(weight, 0)
            acc = acc * shrink + tl.sum(tl.where(weight[:, None] > 0, weight[:, None] * out, 0.0), 0)
            largest = larger
        query = tl.load(fields).to(tl.int64) + row // GROUP
        head = tl.load(fields + 2).to(tl.int64) * GROUP + row % GROUP
        some = total > 0
        safe = tl.where(some, total, 1.0)
        to = out_ptr + query * out_stride + head * out_head_stride + dim
        tl.store(to, (acc / safe).to(out_ptr.dtype.element_ty), mask=inside)
        lse_all = tl.where(some, (largest + tl.log2(safe)) * 0.6931471805599453, float("-inf"))
        tl.store(lse_ptr + query * lse_stride + head, lse_all)


@triton.jit
def merge_pair_kernel(
    a_ptr, a_lse_ptr, b_ptr, b_lse_ptr, out_ptr, lse_ptr, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr
):  # fmt: skip
    """Program i merges row i of two results, all [rows, HEAD_DIM] and [rows], lse natural."""
    row = tl.program_id(0).to(tl.int64)
    dim = tl.arange(0, BLOCK_D)
    inside = dim < HEAD_DIM
    a_lse = tl.load(a_lse_ptr + row)
    b_lse = tl.load(b_lse_ptr + row)
    largest = tl.maximum(a_lse, b_lse)
    base = tl.where(largest == float("-inf"), 0.0, largest)
    a_weight = tl.exp2((a_lse - base) * 1.4426950408889634)
    b_weight = tl.exp2((b_lse - base) * 1.4426950408889634)
    total = a_weight + b_weight
    safe = tl.where(total > 0, total, 1.0)
    a = tl.load(a_ptr + row * HEAD_DIM + dim, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(b_ptr + row * HEAD_DIM + dim, mask=inside, other=0.0).to(tl.float32)
    out = (tl.where(a_weight > 0, a_weight * a, 0.0) + tl.where(b_weight > 0, b_weight * b, 0.0)) / safe
    tl.store(out_ptr + row * HEAD_DIM + dim, out.to(out_ptr.dtype.element_ty), mask=inside)
    lse = tl.where(total > 0, base + tl.log2(safe) * 0.6931471805599453, float("-inf"))
    tl.store(lse_ptr + row, lse)
