"""Reading what nobody wrote. Whether it is a mistake depends on who wrote the memory before the launch."""

import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes, mask=lanes < n, other=0.0)
    tl.store(out_ptr + lanes, x, mask=lanes < n)


@triton.jit
def write_kernel(out_ptr, n, BLOCK: tl.constexpr):
    """out[i] = i for the first n elements only."""
    lanes = tl.arange(0, BLOCK)
    tl.store(out_ptr + lanes, lanes.to(out_ptr.dtype.element_ty), mask=lanes < n)


@triton.jit
def accumulate_kernel(out_ptr, n, BLOCK: tl.constexpr):
    """out += 1, which needs something to add to."""
    lanes = tl.arange(0, BLOCK)
    old = tl.load(out_ptr + lanes, mask=lanes < n, other=0)
    tl.store(out_ptr + lanes, old + 1, mask=lanes < n)


@triton.jit
def atomic_kernel(out_ptr, BLOCK: tl.constexpr):
    tl.atomic_add(out_ptr + tl.arange(0, BLOCK), tl.full((BLOCK,), 1, out_ptr.dtype.element_ty))


@triton.jit
def exchange_kernel(flag_ptr, out_ptr, KEEP: tl.constexpr):
    """The flag is set; what it was before is kept or forgotten."""
    before = tl.atomic_xchg(flag_ptr, 1)
    tl.store(out_ptr, before if KEEP else 7)


@triton.jit
def padded_kernel(x_ptr, out_ptr, n, SHIELD: tl.constexpr, BLOCK: tl.constexpr):
    """The whole padded row is read; its padding is replaced before it counts, or not."""
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes)
    if SHIELD:
        x = tl.where(lanes < n, x, 0.0)
    tl.store(out_ptr, tl.sum(x, axis=0))


@triton.jit
def attention_kernel(q_ptr, k_ptr, v_ptr, out_ptr, n, SHIELD_V: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    """One row of keys and values beyond n was never written. Scores are masked; 0 times a NaN of V is still a NaN."""
    rows, dims = tl.arange(0, N)[:, None], tl.arange(0, D)[None, :]
    q = tl.load(q_ptr + rows * D + dims)
    k = tl.load(k_ptr + rows * D + dims)
    v = tl.load(v_ptr + rows * D + dims)
    if SHIELD_V:
        v = tl.where(rows < n, v, 0.0)
    scores = tl.where(tl.arange(0, N)[None, :] < n, tl.dot(q, k.T), float("-inf"))
    weights = tl.exp(scores - tl.max(scores, axis=1)[:, None])
    out = tl.dot(weights, v) / tl.sum(weights, axis=1)[:, None]
    tl.store(out_ptr + rows * D + dims, out)


@triton.jit
def index_kernel(index_ptr, x_ptr, out_ptr, BLOCK: tl.constexpr):
    """out[i] = x[index[i]]"""
    lanes = tl.arange(0, BLOCK)
    index = tl.load(index_ptr + lanes)
    tl.store(out_ptr + lanes, tl.load(x_ptr + index))


@triton.jit
def bound_kernel(n_ptr, out_ptr):
    """A loop whose length is read from memory."""
    total = 0
    for i in range(tl.load(n_ptr)):
        total += i
    tl.store(out_ptr, total)


@triton.jit
def branch_kernel(flag_ptr, out_ptr):
    if tl.load(flag_ptr) > 0:
        tl.store(out_ptr, 1)


@triton.jit
def mask_kernel(flag_ptr, out_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    tl.store(out_ptr + lanes, lanes, mask=tl.load(flag_ptr + lanes) != 0)
