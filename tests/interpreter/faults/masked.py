"""Masked-off lanes of loads without other=: each kernel does one thing with them, which is a mistake or not by SAFE."""

import triton
import triton.language as tl


@triton.jit
def arithmetic_kernel(x_ptr, out_ptr, n, SAFE: tl.constexpr, BLOCK: tl.constexpr):
    """Every lane is stored, or only those that were loaded."""
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes, mask=lanes < n)
    y = -x * 2.0 + 1.0
    if SAFE:
        tl.store(out_ptr + lanes, y, mask=lanes < n)
    else:
        tl.store(out_ptr + lanes, y)


@triton.jit
def sum_kernel(x_ptr, out_ptr, n, SAFE: tl.constexpr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes, mask=lanes < n)
    if SAFE:
        x = tl.where(lanes < n, x, 0.0)
    tl.store(out_ptr, tl.sum(x, axis=0))


@triton.jit
def max_kernel(x_ptr, out_ptr, n, SAFE: tl.constexpr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes, mask=lanes < n)
    if SAFE:
        x = tl.where(lanes < n, x, float("-inf"))
    tl.store(out_ptr, tl.max(x, axis=0))


@triton.jit
def cumsum_kernel(x_ptr, out_ptr, n, SAFE: tl.constexpr, BLOCK: tl.constexpr):
    """What comes before the masked lanes is clean either way: running forwards is safe, backwards is not."""
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes, mask=lanes < n)
    total = tl.cumsum(x, axis=0, reverse=not SAFE)
    tl.store(out_ptr + lanes, total, mask=lanes < n)


@triton.jit
def dot_kernel(x_ptr, w_ptr, out_ptr, n, SAFE: tl.constexpr, B: tl.constexpr):
    """The inner dimension runs over: its zeros must come from somewhere. (Rows that run over are not stored.)"""
    i, j = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    x = tl.load(x_ptr + i * B + j, mask=i < n if SAFE else j < n)
    w = tl.load(w_ptr + i * B + j)
    tl.store(out_ptr + i * B + j, tl.dot(x, w), mask=i < n)


@triton.jit
def sort_kernel(x_ptr, out_ptr, n, SAFE: tl.constexpr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes, mask=lanes < n)
    if SAFE:
        x = tl.where(lanes < n, x, float("inf"))
    tl.store(out_ptr + lanes, tl.sort(x), mask=lanes < n)


@triton.jit
def join_kernel(x_ptr, out_ptr, n, SAFE: tl.constexpr, BLOCK: tl.constexpr):
    """x and 2 x interleaved."""
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes, mask=lanes < n)
    both = tl.reshape(tl.join(x, 2 * x), [2 * BLOCK])
    place = tl.arange(0, 2 * BLOCK)
    tl.store(out_ptr + place, both, mask=place < (2 * n if SAFE else 2 * n + 1))


@triton.jit
def atomic_kernel(x_ptr, out_ptr, n, SAFE: tl.constexpr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes, mask=lanes < n)
    tl.atomic_add(out_ptr + lanes, x, mask=(lanes < n) | (not SAFE))


@triton.jit
def atomic_result_kernel(x_ptr, out_ptr, n, SAFE: tl.constexpr, BLOCK: tl.constexpr):
    """What an atomic returns for a lane that was masked off is not defined either."""
    lanes = tl.arange(0, BLOCK)
    before = tl.atomic_add(x_ptr + lanes, 1.0, mask=lanes < n)
    tl.store(out_ptr + lanes, before, mask=(lanes < n) | (not SAFE))


@triton.jit
def address_kernel(index_ptr, x_ptr, out_ptr, n, SAFE: tl.constexpr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    index = tl.load(index_ptr + lanes, mask=lanes < n)
    x = tl.load(x_ptr + index, mask=(lanes < n) | (not SAFE), other=0.0)
    tl.store(out_ptr + lanes, x, mask=lanes < n)


@triton.jit
def mask_kernel(index_ptr, x_ptr, out_ptr, n, SAFE: tl.constexpr, BLOCK: tl.constexpr):
    """-1 entries are skipped; False & anything is False."""
    lanes = tl.arange(0, BLOCK)
    index = tl.load(index_ptr + lanes, mask=lanes < n)
    live = index >= 0
    if SAFE:
        live = live & (lanes < n)
    tl.store(out_ptr + lanes, tl.load(x_ptr + index, mask=live, other=0.0), mask=lanes < n)


@triton.jit
def branch_kernel(flag_ptr, out_ptr, n, SAFE: tl.constexpr):
    """A scalar load under a mask that is False."""
    flag = tl.load(flag_ptr, mask=n > 0, other=0) if SAFE else tl.load(flag_ptr, mask=n > 0)
    if flag > 0:
        tl.store(out_ptr, 1.0)


@triton.jit
def bound_kernel(count_ptr, out_ptr, n, SAFE: tl.constexpr):
    count = tl.load(count_ptr, mask=n > 0, other=0) if SAFE else tl.load(count_ptr, mask=n > 0)
    total = 0.0
    for _ in range(count):
        total += 1.0
    tl.store(out_ptr, total)


@triton.jit
def while_kernel(count_ptr, out_ptr, n, SAFE: tl.constexpr):
    left = tl.load(count_ptr, mask=n > 0, other=0) if SAFE else tl.load(count_ptr, mask=n > 0)
    while left > 0:
        left -= 1
    tl.store(out_ptr, 1.0)


@triton.jit
def block_pointer_kernel(x_ptr, out_ptr, n, SAFE: tl.constexpr, BLOCK: tl.constexpr):
    """A block pointer without padding_option leaves what lies outside undefined."""
    lanes = tl.arange(0, BLOCK)
    block = tl.make_block_ptr(x_ptr, (n,), (1,), (0,), (BLOCK,), (0,))
    x = tl.load(block, boundary_check=(0,), padding_option="zero") if SAFE else tl.load(block, boundary_check=(0,))
    tl.store(out_ptr, tl.sum(x, axis=0))
    tl.store(out_ptr + lanes, x, mask=lanes < n)


@triton.jit
def unused_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Doubtful lanes that go nowhere: computed with, reduced, compared, and then not used."""
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes, mask=lanes < n)
    wasted = tl.sum(tl.exp(x), axis=0) + tl.max(x, axis=0)
    chosen = tl.where(lanes < n, x, wasted * 0.0 + 7.0)
    tl.store(out_ptr + lanes, chosen, mask=lanes < n)


@triton.jit
def other_kernel(x_ptr, y_ptr, out_ptr, n, SAFE: tl.constexpr, BLOCK: tl.constexpr):
    """other= may itself be doubtful: then the lanes that take it are."""
    lanes = tl.arange(0, BLOCK)
    y = tl.load(y_ptr + lanes, mask=lanes < (BLOCK if SAFE else n))
    x = tl.load(x_ptr + lanes, mask=lanes < n, other=y)
    tl.store(out_ptr + lanes, x)
