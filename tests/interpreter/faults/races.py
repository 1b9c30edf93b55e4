"""Two programs and one address."""

import triton
import triton.language as tl


@triton.jit
def tiles_kernel(out_ptr, step, n, BLOCK: tl.constexpr):
    """Programs start `step` apart and write BLOCK elements each: a step below BLOCK makes them overlap."""
    lanes = tl.program_id(0) * step + tl.arange(0, BLOCK)
    tl.store(out_ptr + lanes, lanes.to(out_ptr.dtype.element_ty), mask=lanes < n)


@triton.jit
def shifted_kernel(out_ptr, n, BLOCK: tl.constexpr):
    """The ragged end: the last program starts earlier, to stay inside without a mask, and overlaps the one before it."""
    start = tl.minimum(tl.program_id(0) * BLOCK, n - BLOCK)
    tl.store(out_ptr + start + tl.arange(0, BLOCK), tl.program_id(0).to(out_ptr.dtype.element_ty))


@triton.jit
def grid_kernel(out_ptr, stride_row, stride_col, R: tl.constexpr, C: tl.constexpr):
    """A grid of tiles; strides that are those of the matrix are right, and a row stride that is too small is not."""
    row = tl.program_id(0) * R + tl.arange(0, R)[:, None]
    col = tl.program_id(1) * C + tl.arange(0, C)[None, :]
    tl.store(out_ptr + row * stride_row + col * stride_col, (row + col).to(out_ptr.dtype.element_ty))


@triton.jit
def twice_kernel(out_ptr, BLOCK: tl.constexpr):
    """One program may write one place as often as it likes."""
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for i in range(3):
        tl.store(out_ptr + lanes, lanes + i)


@triton.jit
def total_kernel(x_ptr, out_ptr, n, ATOMIC: tl.constexpr, BLOCK: tl.constexpr):
    """Each program adds its part to one place."""
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x_ptr + lanes, mask=lanes < n, other=0.0), axis=0)
    if ATOMIC:
        tl.atomic_add(out_ptr, part)
    else:
        tl.store(out_ptr, tl.load(out_ptr) + part)


@triton.jit
def locked_kernel(x_ptr, out_ptr, lock_ptr, n, BLOCK: tl.constexpr):
    """As total_kernel, with a lock of its own: taken by compare-and-swap, given back by exchange."""
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x_ptr + lanes, mask=lanes < n, other=0.0), axis=0)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(out_ptr, tl.load(out_ptr) + part)
    tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def last_kernel(x_ptr, parts_ptr, count_ptr, out_ptr, BLOCK: tl.constexpr):
    """Programs write their parts, and the last one to arrive adds them up."""
    me = tl.program_id(0)
    tl.store(parts_ptr + me, tl.sum(tl.load(x_ptr + me * BLOCK + tl.arange(0, BLOCK)), axis=0))
    arrived = tl.atomic_add(count_ptr, 1)
    if arrived == tl.num_programs(0) - 1:
        parts = tl.load(parts_ptr + tl.arange(0, 4), mask=tl.arange(0, 4) < tl.num_programs(0), other=0.0)
        tl.store(out_ptr, tl.sum(parts, axis=0))


@triton.jit
def two_views_kernel(words_ptr, halves_ptr, SAME: tl.constexpr):
    """Program 0 writes 32-bit words, program 1 16-bit halves of the same storage."""
    lanes = tl.arange(0, 4)
    if tl.program_id(0) == 0:
        tl.store(words_ptr + lanes, lanes)
    else:
        tl.store(halves_ptr + (7 if SAME else 8) + lanes, lanes.to(tl.int16))


@triton.jit
def halves_then_words_kernel(words_ptr, halves_ptr, start):
    """As two_views_kernel, the other way round."""
    lanes = tl.arange(0, 4)
    if tl.program_id(0) == 1:
        tl.store(words_ptr + lanes, lanes)
    else:
        tl.store(halves_ptr + start + lanes, lanes.to(tl.int16))


@triton.jit
def cast_kernel(out_ptr, start, BLOCK: tl.constexpr):
    """Program 1 writes bytes into an int32 tensor, through a cast pointer."""
    if tl.program_id(0) == 0:
        tl.store(out_ptr + tl.arange(0, BLOCK), tl.arange(0, BLOCK))
    else:
        tl.store(out_ptr.to(tl.pointer_type(tl.int8)) + start, tl.full((), 1, tl.int8))
