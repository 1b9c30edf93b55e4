"""Kernels that no compiler takes, each for one reason. The interpreter runs the first two without a word."""

import triton
import triton.language as tl


@triton.jit
def break_kernel(p, n):
    for i in range(n):
        if i > 3:
            break
        tl.store(p + i, i)


@triton.jit
def small_dot_kernel(p):
    side = tl.arange(0, 8)
    tile = tl.load(p + side[:, None] * 8 + side[None, :])
    tl.store(p + side[:, None] * 8 + side[None, :], tl.dot(tile, tile).to(tl.float16))


@triton.jit
def helper_of_unknown_kernel(x):
    return x + unknown  # noqa: F821


@triton.jit
def unknown_name_kernel(p):
    tl.store(p, helper_of_unknown_kernel(tl.load(p)))
