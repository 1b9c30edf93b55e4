"""Kernels of reductions.py: one value for each row, or as many as came in."""

import triton
import triton.language as tl


@triton.jit
def product(a, b):
    return a * b


@triton.jit
def larger_magnitude(a, b):
    return tl.where(tl.abs(a) >= tl.abs(b), a, b)


@triton.jit
def affine(scale_a, shift_a, scale_b, shift_b):
    """x -> scale x + shift, one after the other: associative, not commutative."""
    return scale_a * scale_b, shift_a * scale_b + shift_b


@triton.jit
def value_kernel(x_ptr, out_ptr, OP: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    """One value for each row."""
    at = tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :]
    x = tl.load(x_ptr + at)
    if OP == "sum":
        r = tl.sum(x, axis=1)
    elif OP == "sum in fp32":
        r = tl.sum(x, axis=1, dtype=tl.float32)
    elif OP == "max":
        r = tl.max(x, axis=1)
    elif OP == "min":
        r = tl.min(x, axis=1)
    elif OP == "product":
        r = tl.reduce(x, 1, product)
    elif OP == "larger magnitude":
        r = tl.reduce(x, 1, larger_magnitude)
    elif OP == "xor_sum":
        r = tl.xor_sum(x, axis=1)
    elif OP == "reduce_or":
        r = tl.reduce_or(x, axis=1)
    elif OP == "argmax":
        r = tl.argmax(x, axis=1)
    elif OP == "argmin":
        r = tl.argmin(x, axis=1)
    elif OP == "argmax fast":
        r = tl.argmax(x, axis=1, tie_break_left=False)
    elif OP == "argmin fast":
        r = tl.argmin(x, axis=1, tie_break_left=False)
    tl.store(out_ptr + tl.arange(0, ROWS), r)


@triton.jit
def indices_kernel(x_ptr, value_ptr, index_ptr, LARGEST: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :]
    x = tl.load(x_ptr + at)
    if LARGEST:
        value, index = tl.max(x, axis=1, return_indices=True)
    else:
        value, index = tl.min(x, axis=1, return_indices=True)
    tl.store(value_ptr + tl.arange(0, ROWS), value)
    tl.store(index_ptr + tl.arange(0, ROWS), index)


@triton.jit
def scan_kernel(x_ptr, out_ptr, OP: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    """As many values as came in."""
    at = tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :]
    x = tl.load(x_ptr + at)
    if OP == "cumsum":
        r = tl.cumsum(x, axis=1)
    elif OP == "cumsum reverse":
        r = tl.cumsum(x, axis=1, reverse=True)
    elif OP == "cumprod":
        r = tl.cumprod(x, axis=1)
    elif OP == "larger magnitude":
        r = tl.associative_scan(x, 1, larger_magnitude)
    elif OP == "larger magnitude reverse":
        r = tl.associative_scan(x, 1, larger_magnitude, reverse=True)
    elif OP == "sort":
        r = tl.sort(x, dim=1)
    elif OP == "sort descending":
        r = tl.sort(x, dim=1, descending=True)
    tl.store(out_ptr + at, r)


@triton.jit
def affine_kernel(x_ptr, y_ptr, scale_ptr, shift_ptr, REVERSE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    scale, shift = tl.associative_scan((tl.load(x_ptr + at), tl.load(y_ptr + at)), 0, affine, reverse=REVERSE)
    tl.store(scale_ptr + at, scale)
    tl.store(shift_ptr + at, shift)


@triton.jit
def topk_kernel(x_ptr, out_ptr, K: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :]
    r = tl.topk(tl.load(x_ptr + at), K)
    tl.store(out_ptr + tl.arange(0, ROWS)[:, None] * K + tl.arange(0, K)[None, :], r)
