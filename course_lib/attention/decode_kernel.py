"""Decode attention over a paged cache: persistent programs that walk a work list.

Layout   q, out [queries, q_heads, head_dim]; k, v [num_blocks, block_size, kv_heads, head_dim]; tables [rows, max_blocks]
Item     eight int32: first query, queries, KV head, table row, first token, end token, slot, unused. An item reads its tokens of
         one KV head once, for all the query heads that share it: they are the rows of one tile (row r is query r // GROUP,
         head r % GROUP of the KV head), padded to what tl.dot takes.
Slot     -1: the item saw all the tokens of its queries, and writes the result. Else it writes a part for merge_kernel.py: its
         own normalised output, and the base-2 logarithm of its sum.
"""

import triton
import triton.language as tl


@triton.jit
def nothing_seen(ROWS: tl.constexpr, TILE: tl.constexpr, BLOCK_D: tl.constexpr):
    """Of each row, before its first token: (maximum in base 2, sums, output not yet divided).

    With few rows the warps share a row's columns: one sum for each column, and they meet once, after the loop (`total_of`).
    """
    maximum = tl.full((ROWS,), float("-inf"), tl.float32)
    sums = tl.zeros((ROWS, TILE), tl.float32) if ROWS <= 16 else tl.zeros((ROWS,), tl.float32)
    return maximum, sums, tl.zeros((ROWS, BLOCK_D), tl.float32)


@triton.jit
def total_of(sums, ROWS: tl.constexpr):
    total = tl.sum(sums, 1) if ROWS <= 16 else sums
    return total


@triton.jit
def attend_tokens(
    maximum, sums, acc, q, k_ptr, v_ptr, table_ptr, begin, end, limits,
    block_stride, token_stride, qk_scale,
    BLOCK_SIZE: tl.constexpr, PAGED: tl.constexpr, WHOLE: tl.constexpr, CAUSAL: tl.constexpr, HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr, STAGES: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Online softmax of q [ROWS, BLOCK_D], gone on with over tokens begin .. end - 1 -> maximum, sums, acc of all tokens so far.

    k_ptr, v_ptr  at their KV head; begin is a multiple of TILE
    WHOLE         so is end, and every row sees every token: no score is masked
    limits        [ROWS], the last token that a row sees, where CAUSAL
    A tile's entries of the block table are loaded one tile ahead, so that no load of K waits for them.
    """
    lane = tl.arange(0, TILE)
    dim = tl.arange(0, BLOCK_D)
    if PAGED:
        if TILE <= BLOCK_SIZE:  # a tile lies in one block
            entry = tl.load(table_ptr + begin // BLOCK_SIZE, mask=begin < end, other=0)
        else:
            entry = tl.load(table_ptr + (begin + lane) // BLOCK_SIZE, mask=begin + lane < end, other=0)
    for start in tl.range(begin, end, TILE, num_stages=STAGES):
        token = start + lane
        live = token < end
        if PAGED:
            offset = entry.to(tl.int64) * block_stride + (token % BLOCK_SIZE).to(tl.int64) * token_stride
            if TILE <= BLOCK_SIZE:
                entry = tl.load(table_ptr + (start + TILE) // BLOCK_SIZE, mask=start + TILE < end, other=0)
            else:
                entry = tl.load(table_ptr + (token + TILE) // BLOCK_SIZE, mask=token + TILE < end, other=0)
        else:
            offset = token.to(tl.int64) * token_stride
        where = offset[:, None] + dim[None, :]
        wanted = live[:, None]
        if HEAD_DIM < BLOCK_D:
            wanted = wanted & (dim < HEAD_DIM)[None, :]
        k = tl.load(k_ptr + where, mask=wanted, other=0.0)
        scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * qk_scale
        if not WHOLE:
            seen = live[None, :]
            if CAUSAL:
                seen = seen & (token[None, :] <= limits[:, None])
            scores = tl.where(seen, scores, float("-inf"))
        larger = tl.maximum(maximum, tl.max(scores, 1))
        base = larger
        if CAUSAL:  # a row may have seen no key yet: -inf - -inf is NaN
            base = tl.where(larger == float("-inf"), 0.0, larger)
        p = tl.exp2(scores - base[:, None])
        shrink = tl.exp2(maximum - base)
        sums = sums * shrink[:, None] + p if ROWS <= 16 else sums * shrink + tl.sum(p, 1)
        v = tl.load(v_ptr + where, mask=wanted, other=0.0)  # zeros where nobody wrote: 0 * NaN is NaN
        acc = tl.dot(p.to(v.dtype), v, acc * shrink[:, None], input_precision=PRECISION)
        maximum = larger
    return maximum, sums, acc


@triton.jit
def decode_kernel(
    q_ptr, k_ptr, v_ptr, tables_ptr, out_ptr, lse_ptr, starts_ptr, items_ptr, part_ptr, part_lse_ptr,
    q_stride, q_head_stride, out_stride, out_head_stride, lse_stride,
    block_stride, token_stride, head_stride, table_stride, part_rows, qk_scale,
    GROUP: tl.constexpr, BLOCK_SIZE: tl.constexpr, PAGED: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    ROWS: tl.constexpr, TILE: tl.constexpr, STAGES: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Program p walks items starts[p] .. starts[p + 1] - 1. Without PAGED, block_stride is from row to row."""
    program = tl.program_id(0)
    row = tl.arange(0, ROWS)
    dim = tl.arange(0, BLOCK_D)
    for item in range(tl.load(starts_ptr + program), tl.load(starts_ptr + program + 1)):
        fields = items_ptr + item * 8
        query = tl.load(fields).to(tl.int64) + row // GROUP
        kept = row < tl.load(fields + 1) * GROUP
        kv_head = tl.load(fields + 2).to(tl.int64)
        table_row = tl.load(fields + 3).to(tl.int64)
        begin, end, slot = tl.load(fields + 4), tl.load(fields + 5), tl.load(fields + 6)
        head = kv_head * GROUP + row % GROUP
        inside = kept[:, None] & (dim < HEAD_DIM)[None, :]
        q = tl.load(q_ptr + (query * q_stride + head * q_head_stride)[:, None] + dim[None, :], mask=inside, other=0.0)
        heads_start = kv_head * head_stride
        if not PAGED:
            heads_start += table_row * block_stride
        maximum, sums, acc = nothing_seen(ROWS, TILE, BLOCK_D)
        maximum, sums, acc = attend_tokens(
            maximum, sums, acc, q, k_ptr + heads_start, v_ptr + heads_start, tables_ptr + table_row * table_stride,
            begin, end, row, block_stride, token_stride, qk_scale,
            BLOCK_SIZE, PAGED, False, False, HEAD_DIM, BLOCK_D, ROWS, TILE, STAGES, PRECISION,
        )  # fmt: skip
        total = total_of(sums, ROWS)
        some = total > 0  # no token at all: zeros, and -inf
        acc = acc / tl.where(some, total, 1.0)[:, None]
        lse = tl.where(some, maximum + tl.log2(tl.where(some, total, 1.0)), float("-inf"))
        if slot < 0:
            to = out_ptr + (query * out_stride + head * out_head_stride)[:, None] + dim[None, :]
            tl.store(to, acc.to(out_ptr.dtype.element_ty), mask=inside)
            tl.store(lse_ptr + query * lse_stride + head, lse * 0.6931471805599453, mask=kept)
        else:
            part = slot.to(tl.int64) * part_rows + row
            tl.store(part_ptr + part[:, None] * HEAD_DIM + dim[None, :], acc, mask=inside)
            tl.store(part_lse_ptr + part, lse, mask=kept)
