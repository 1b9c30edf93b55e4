"""Answers to the exercises in launch_exercises.py: a cell that holds kernels, honest functions and cheats."""

import threading

import numpy as np
import torch
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, K, BLOCK):
        inner = start + tl.arange(0, BLOCK)
        a_mask = (rows[:, None] < M) & (inner[None, :] < K)
        b_mask = (inner[:, None] < K) & (cols[None, :] < N)
        a = tl.load(a_ptr + rows[:, None] * stride_am + inner[None, :] * stride_ak, mask=a_mask, other=0.0)
        b = tl.load(b_ptr + inner[:, None] * stride_bk + cols[None, :] * stride_bn, mask=b_mask, other=0.0)
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + rows[:, None] * N + cols[None, :], acc, mask=(rows[:, None] < M) & (cols[None, :] < N))


@triton.jit
def row_kernel(a_ptr, b_ptr, c_ptr, N, K, stride_am, stride_ak, BLOCK_N: tl.constexpr):
    """One row of c, with the whole of b read for each: right, and wasteful."""
    row, cols = tl.program_id(0), tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_N,), dtype=tl.float32)
    for k in range(K):
        a = tl.load(a_ptr + row * stride_am + k * stride_ak).to(tl.float32)
        acc += a * tl.load(b_ptr + k * N + cols, mask=cols < N, other=0.0).to(tl.float32)
    tl.store(c_ptr + row * N + cols, acc, mask=cols < N)


@triton.jit
def atomic_row_kernel(a_ptr, b_ptr, c_ptr, N, K, stride_am, stride_ak, BLOCK_N: tl.constexpr):
    """row_kernel, but it reads b by adding nothing to it."""
    row, cols = tl.program_id(0), tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_N,), dtype=tl.float32)
    nothing = tl.zeros((BLOCK_N,), dtype=tl.float16)
    for k in range(K):
        a = tl.load(a_ptr + row * stride_am + k * stride_ak).to(tl.float32)
        acc += a * tl.atomic_add(b_ptr + k * N + cols, nothing, mask=cols < N).to(tl.float32)
    tl.store(c_ptr + row * N + cols, acc, mask=cols < N)


@triton.jit
def beyond_kernel(a_ptr, c_ptr, n):
    index = tl.arange(0, 16)
    tl.store(c_ptr + index, tl.load(a_ptr + n + index).to(tl.float32))


@triton.jit
def copy_kernel(src_ptr, dst_ptr, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(dst_ptr + index, tl.load(src_ptr + index, mask=index < n, other=0.0), mask=index < n)


@triton.jit
def look_kernel(x_ptr):
    tl.device_assert(tl.load(x_ptr) == tl.load(x_ptr))


def tiled(a, b):
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty(m, n, dtype=torch.float32)
    grid = (triton.cdiv(m, 16), triton.cdiv(n, 16))
    matmul_kernel[grid](a, b, c, m, n, k, *a.stride(), *b.stride(), BLOCK=16)
    return c


def upper_and_lower(a, b):
    """Two launches into one buffer, from a thread, with the launch written out by name."""
    (m, k), n = a.shape, b.shape[1]
    c, half = torch.zeros(m, n), m // 2 // 16 * 16

    def work():
        for part, out in ((a[half:], c[half:]), (a[:half], c[:half])):
            steps = {"stride_am": a.stride(0), "stride_ak": a.stride(1), "stride_bk": b.stride(0), "stride_bn": b.stride(1)}
            grid = lambda meta: (triton.cdiv(meta["M"], meta["BLOCK"]), triton.cdiv(n, meta["BLOCK"]))  # noqa: E731
            matmul_kernel[grid](a_ptr=part, b_ptr=b, c_ptr=out, M=part.shape[0], N=n, K=k, BLOCK=16, num_warps=2, **steps)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return c


def row_by_row(a, b):
    c = torch.empty(a.shape[0], b.shape[1])
    row_kernel[(a.shape[0],)](a, b, c, b.shape[1], a.shape[1], *a.stride(), BLOCK_N=triton.next_power_of_2(b.shape[1]))
    return c


def row_by_row_with_atomics(a, b):
    c = torch.empty(a.shape[0], b.shape[1])
    width = triton.next_power_of_2(b.shape[1])
    atomic_row_kernel[(a.shape[0],)](a, b, c, b.shape[1], a.shape[1], *a.stride(), BLOCK_N=width)
    return c


def out_of_bounds(a, b):
    c = torch.empty(a.shape[0], b.shape[1])
    beyond_kernel[(1,)](a, c, 10 * a.numel())
    return c


def torch_alone(a, b):
    return a.float() @ b.float()


def torch_beside_a_launch(a, b):
    tiled(a, b)
    return torch_alone(a, b)


def numpy_beside_a_launch(a, b):
    tiled(a, b)
    return torch.from_numpy(np.matmul(a.numpy().astype(np.float32), b.numpy().astype(np.float32)))


def torch_through_a_copy(a, b):
    made = torch_alone(a, b)
    c = torch.empty_like(made)
    copy_kernel[(triton.cdiv(made.numel(), 64),)](made, c, made.numel(), BLOCK=64)
    return c


def written_over(a, b):
    """The kernel's result is replaced by torch's."""
    c = tiled(a, torch.zeros_like(b))
    c.copy_(torch_alone(a, b))
    return c


def touched_afterwards(a, b):
    made = torch_alone(a, b)
    if made.numel():
        look_kernel[(1,)](made)
    return made


def another_jit(a, b):
    """triton.jit is replaced by something that runs torch."""
    keep, triton.jit = triton.jit, lambda fn: lambda *args: torch_alone(a, b)
    try:

        @triton.jit
        def kernel(a, b):
            pass

        return kernel(a, b)
    finally:
        triton.jit = keep


def broken_recorder(a, b):
    """The recorder is told that the rows kernel was the tiled one."""
    import gc

    c = row_by_row(a, b)
    for tape in [thing for thing in gc.get_objects() if type(thing).__name__ == "Tape"]:
        for launch in tape._launches:
            launch["grid"] = [1, 1, 1]
    return c


def silent_recorder(a, b):
    """The recorder forgets the launch."""
    import gc

    c = row_by_row(a, b)
    for tape in [thing for thing in gc.get_objects() if type(thing).__name__ == "Tape"]:
        tape._launches.clear()
    return c


def as_numbers(a, b):
    return tiled(a, b).tolist()


def copied(x, out):
    copy_kernel[(triton.cdiv(x.numel(), 32),)](x, out, x.numel(), BLOCK=32)
    return out


def copied_twice(x, out):
    """Through memory of its own: twice the bytes."""
    middle = torch.empty_like(x)
    return copied(copied(x, middle), out)


def copied_by_torch(x, out):
    out.copy_(x)
    look_kernel[(1,)](out)
    return out


def a_clone(x, out):
    made = x.clone()
    look_kernel[(1,)](made)
    return made


def half_by_torch(x, out):
    """One element is left to torch."""
    n = x.numel()
    copy_kernel[(triton.cdiv(n, 32),)](x, out, n - 1, BLOCK=32)
    out[n - 1 :] = x[n - 1 :]
    return out


def input_itself(x, out):
    look_kernel[(1,)](x)
    return x
