"""Attention of several new tokens a row over a paged cache: the chunks of a prompt, each after what is cached already.

A tile holds POSITIONS new tokens with all the query heads of one KV head (row r is token r // GROUP, head r % GROUP), so K and V
are read once for the group. The loop over the cache is decode_kernel.attend_tokens, twice: over the tokens that every row
sees, where nothing is masked, and over the last tiles, with the diagonal where CAUSAL.
"""

import triton
import triton.language as tl

from .decode_kernel import attend_tokens, nothing_seen, total_of


@triton.jit
def paged_prefill_kernel(
    q_ptr, k_ptr, v_ptr, tables_ptr, out_ptr, lse_ptr, cu_q_ptr, lengths_ptr,
    q_stride, q_head_stride, out_stride, out_head_stride, lse_stride,
    block_stride, token_stride, head_stride, table_stride, qk_scale,
    GROUP: tl.constexpr, POSITIONS: tl.constexpr, BLOCK_SIZE: tl.constexpr, CAUSAL: tl.constexpr, HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr, STAGES: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Program (tile, KV head, row). Tiles beyond a row's tokens have nothing to do; the longest come first."""
    first_position = (tl.num_programs(0) - 1 - tl.program_id(0)) * POSITIONS
    kv_head = tl.program_id(1).to(tl.int64)
    table_row = tl.program_id(2).to(tl.int64)
    start = tl.load(cu_q_ptr + table_row)
    q_len = tl.load(cu_q_ptr + table_row + 1) - start
    if first_position < q_len:
        kv_len = tl.load(lengths_ptr + table_row)
        row = tl.arange(0, ROWS)
        dim = tl.arange(0, BLOCK_D)
        position = first_position + row // GROUP
        kept = (row < POSITIONS * GROUP) & (position < q_len)
        newest = position + (kv_len - q_len)  # the last token that a row sees: bottom-right
        end, whole = kv_len, kv_len  # tokens that some row sees, and those that all of them see
        if CAUSAL:
            end = tl.maximum(kv_len - q_len + tl.minimum(first_position + POSITIONS, q_len), 0)
            whole = tl.maximum(kv_len - q_len + first_position + 1, 0)
        whole = whole // TILE * TILE
        query = (start + position).to(tl.int64)
        head = kv_head * GROUP + row % GROUP
        inside = kept[:, None] & (dim < HEAD_DIM)[None, :]
        q = tl.load(q_ptr + (query * q_stride + head * q_head_stride)[:, None] + dim[None, :], mask=inside, other=0.0)
        table = tables_ptr + table_row * table_stride
        k, v = k_ptr + kv_head * head_stride, v_ptr + kv_head * head_stride
        maximum, sums, acc = nothing_seen(ROWS, TILE, BLOCK_D)
        maximum, sums, acc = attend_tokens(
            maximum, sums, acc, q, k, v, table, 0, whole, newest, block_stride, token_stride, qk_scale,
            BLOCK_SIZE, True, True, False, HEAD_DIM, BLOCK_D, ROWS, TILE, STAGES, PRECISION,
        )  # fmt: skip
        maximum, sums, acc = attend_tokens(
            maximum, sums, acc, q, k, v, table, whole, end, newest, block_stride, token_stride, qk_scale,
            BLOCK_SIZE, True, False, CAUSAL, HEAD_DIM, BLOCK_D, ROWS, TILE, STAGES, PRECISION,
        )  # fmt: skip
        total = total_of(sums, ROWS)
        some = total > 0
        safe = tl.where(some, total, 1.0)
        to = out_ptr + (query * out_stride + head * out_head_stride)[:, None] + dim[None, :]
        tl.store(to, (acc / safe[:, None]).to(out_ptr.dtype.element_ty), mask=inside)
        lse = tl.where(some, (maximum + tl.log2(safe)) * 0.6931471805599453, float("-inf"))
        tl.store(lse_ptr + head * lse_stride + query, lse, mask=kept)
