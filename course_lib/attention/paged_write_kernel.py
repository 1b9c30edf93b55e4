"""The write of new K and V into a paged cache, with rotary positions on the way.

By two kernels K would be read, turned, written, read and written again; here it passes through registers once.
Half-split pairing: value i of a head turns together with value i + HALF, (a, b) -> (a cos - b sin, b cos + a sin), in float32.
"""

import triton
import triton.language as tl


@triton.jit
def turned(x_ptr, where, cos, sin, inside, HALF: tl.constexpr, ROPE: tl.constexpr):
    """Both halves of some heads' values, turned where ROPE. where [heads, BLOCK_HALF]: offsets of the first half."""
    a = tl.load(x_ptr + where, mask=inside, other=0.0)
    b = tl.load(x_ptr + where + HALF, mask=inside, other=0.0)
    if ROPE:
        low, high = a.to(tl.float32), b.to(tl.float32)
        a = (low * cos - high * sin).to(x_ptr.dtype.element_ty)
        b = (high * cos + low * sin).to(x_ptr.dtype.element_ty)
    return a, b


@triton.jit
def paged_write_kernel(
    k_ptr, v_ptr, k_blocks_ptr, v_blocks_ptr, slots_ptr, cos_ptr, sin_ptr, q_ptr, q_out_ptr,
    k_stride, k_head_stride, v_stride, v_head_stride, q_stride, q_head_stride, q_out_stride, q_out_head_stride,
    block_stride, token_stride, head_stride,
    BLOCK_SIZE: tl.constexpr, KV_HEADS: tl.constexpr, Q_HEADS: tl.constexpr, HEADS: tl.constexpr,
    HALF: tl.constexpr, BLOCK_HALF: tl.constexpr, ROPE: tl.constexpr,
):  # fmt: skip
    """Program (token, part): HEADS heads of K and V of a token, or, in the parts after those, HEADS heads of its q.

    A slot is block * BLOCK_SIZE + place in the block; -1: a token that is padding, of which nothing is written to the cache.
    """
    token = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1)
    half = tl.arange(0, BLOCK_HALF)
    cos = tl.zeros((1, BLOCK_HALF), tl.float32)
    sin = tl.zeros((1, BLOCK_HALF), tl.float32)
    if ROPE:
        cos += tl.load(cos_ptr + token * HALF + half, mask=half < HALF, other=0.0)[None, :]
        sin += tl.load(sin_ptr + token * HALF + half, mask=half < HALF, other=0.0)[None, :]
    KV_PARTS: tl.constexpr = (KV_HEADS + HEADS - 1) // HEADS
    if part < KV_PARTS:
        slot = tl.load(slots_ptr + token)
        if slot >= 0:
            head = (part * HEADS + tl.arange(0, HEADS)).to(tl.int64)
            inside = (head < KV_HEADS)[:, None] & (half < HALF)[None, :]
            start = (slot // BLOCK_SIZE) * block_stride + (slot % BLOCK_SIZE) * token_stride
            to = start + head[:, None] * head_stride + half[None, :]
            a, b = turned(k_ptr, token * k_stride + head[:, None] * k_head_stride + half[None, :], cos, sin, inside, HALF, ROPE)
            tl.store(k_blocks_ptr + to, a, mask=inside)
            tl.store(k_blocks_ptr + to + HALF, b, mask=inside)
            a, b = turned(v_ptr, token * v_stride + head[:, None] * v_head_stride + half[None, :], cos, sin, inside, HALF, False)
            tl.store(v_blocks_ptr + to, a, mask=inside)
            tl.store(v_blocks_ptr + to + HALF, b, mask=inside)
    else:
        head = ((part - KV_PARTS) * HEADS + tl.arange(0, HEADS)).to(tl.int64)
        inside = (head < Q_HEADS)[:, None] & (half < HALF)[None, :]
        a, b = turned(q_ptr, token * q_stride + head[:, None] * q_head_stride + half[None, :], cos, sin, inside, HALF, ROPE)
        to = token * q_out_stride + head[:, None] * q_out_head_stride + half[None, :]
        tl.store(q_out_ptr + to, a, mask=inside)
        tl.store(q_out_ptr + to + HALF, b, mask=inside)
