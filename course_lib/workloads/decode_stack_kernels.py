"""Kernels of a decode step that torch would split into several, or that read weights slowly for a few tokens.

Layout   qkv [batch, (heads + 2 * kv_heads) * head_dim]: all heads of q, then of k, then of v
         k_cache, v_cache [batch, kv_heads, capacity, head_dim]
RoPE     half-split pairing: dimension i of a head turns together with i + head_dim / 2
"""

import triton
import triton.language as tl


@triton.jit
def add_rms_norm_kernel(x_ptr, delta_ptr, weight_ptr, out_ptr, eps, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """One program takes one token: x += delta, out = x / rms(x) * weight."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    live = column < WIDTH
    x = tl.load(x_ptr + row * WIDTH + column, mask=live, other=0.0).to(tl.float32)
    x += tl.load(delta_ptr + row * WIDTH + column, mask=live, other=0.0).to(tl.float32)
    tl.store(x_ptr + row * WIDTH + column, x, mask=live)
    inv_rms = 1.0 / tl.sqrt(tl.sum(x * x) / WIDTH + eps)
    weight = tl.load(weight_ptr + column, mask=live, other=0.0).to(tl.float32)
    tl.store(out_ptr + row * WIDTH + column, x * inv_rms * weight, mask=live)


@triton.jit
def rope_append_kernel(
    qkv_ptr, q_ptr, k_cache_ptr, v_cache_ptr, cos_ptr, sin_ptr, position, capacity,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, HALF: tl.constexpr,
):  # fmt: skip
    """One program takes one head of one sequence: a q head is turned, a k head turned and appended, a v head appended."""
    sequence = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    half = tl.arange(0, HALF)
    source = qkv_ptr + (sequence * (HEADS + 2 * KV_HEADS) + head) * 2 * HALF + half
    low, high = tl.load(source).to(tl.float32), tl.load(source + HALF).to(tl.float32)
    if head < HEADS + KV_HEADS:  # v is not turned
        cos, sin = tl.load(cos_ptr + half), tl.load(sin_ptr + half)
        low, high = low * cos - high * sin, high * cos + low * sin
    if head < HEADS:
        target = q_ptr + (sequence * HEADS + head) * 2 * HALF + half
        tl.store(target, low)
        tl.store(target + HALF, high)
    elif head < HEADS + KV_HEADS:
        target = k_cache_ptr + ((sequence * KV_HEADS + head - HEADS) * capacity + position) * 2 * HALF + half
        tl.store(target, low)
        tl.store(target + HALF, high)
    else:
        target = v_cache_ptr + ((sequence * KV_HEADS + head - HEADS - KV_HEADS) * capacity + position) * 2 * HALF + half
        tl.store(target, low)
        tl.store(target + HALF, high)


@triton.jit
def silu_product_kernel(gate_up_ptr, out_ptr, width, BLOCK: tl.constexpr):
    """out = silu(gate) * up for a block of one row; gate_up [rows, 2 * width] holds gate and up side by side."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    live = column < width
    gate = tl.load(gate_up_ptr + row * 2 * width + column, mask=live, other=0.0).to(tl.float32)
    up = tl.load(gate_up_ptr + row * 2 * width + width + column, mask=live, other=0.0).to(tl.float32)
    tl.store(out_ptr + row * width + column, gate * tl.sigmoid(gate) * up, mask=live)


@triton.jit(do_not_specialize=["tokens"])
def skinny_product_kernel(
    x_ptr, weight_ptr, out_ptr, tokens, inner, width,
    TOKENS: tl.constexpr, ROWS: tl.constexpr, DEPTH: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """out [tokens, width] = x [tokens, inner] @ weight [width, inner].T for at most TOKENS tokens.

    One program streams ROWS rows of the weight past its tokens, DEPTH columns at a time, STAGES of them on the way. width is a
    multiple of ROWS and inner one of DEPTH, so only tokens are masked.
    """
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    token = tl.arange(0, TOKENS)
    depth = tl.arange(0, DEPTH)
    weights = weight_ptr + row[:, None].to(tl.int64) * inner + depth[None, :]
    inputs = x_ptr + token[None, :] * inner + depth[:, None]
    total = tl.zeros((ROWS, TOKENS), tl.float32)
    for start in tl.range(0, inner, DEPTH, num_stages=STAGES):
        weight = tl.load(weights + start)
        x = tl.load(inputs + start, mask=token[None, :] < tokens, other=0.0)
        total = tl.dot(weight, x, total)
    tl.store(out_ptr + token[None, :] * width + row[:, None], total, mask=token[None, :] < tokens)
