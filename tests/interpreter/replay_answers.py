"""Functions that launch kernels, honest ones and cheats, for the tests of recording and replay: tensors in, tensors out."""

import threading

import numpy as np
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

SCALE = tl.constexpr(2.0)


@triton.jit
def twice(x):
    return x * SCALE


@triton.jit
def double_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = index < n
    tl.store(out_ptr + index, twice(tl.load(x_ptr + index, mask=live, other=0.0)), mask=live)


@triton.jit
def copy_kernel(src_ptr, dst_ptr, n, step, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = index < n
    tl.store(dst_ptr + index, tl.load(src_ptr + index * step, mask=live, other=0.0), mask=live)


@triton.jit
def look_kernel(x_ptr, n):
    """Reads one element and writes nothing."""
    tl.device_assert(tl.load(x_ptr) == tl.load(x_ptr))


@triton.jit
def add_kernel(acc_ptr, x_ptr, n, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    live = index < n
    before = tl.load(acc_ptr + index, mask=live, other=0.0)
    tl.store(acc_ptr + index, before + tl.load(x_ptr + index, mask=live, other=0.0), mask=live)


@triton.jit
def atomic_kernel(acc_ptr, x_ptr, n, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    live = index < n
    tl.atomic_add(acc_ptr + index, tl.load(x_ptr + index, mask=live, other=0.0) * -2.0, mask=live)


@triton.jit
def gather_kernel(x_ptr, where_ptr, out_ptr, n, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    live = index < n
    where = tl.load(where_ptr + index, mask=live, other=0)
    tl.store(out_ptr + index, tl.load(x_ptr + where, mask=live, other=0.0), mask=live)


@triton.jit
def scores_kernel(q_ptr, k_ptr, out_ptr, n, D: tl.constexpr, BLOCK: tl.constexpr):
    row, cols, dims = tl.program_id(0), tl.arange(0, BLOCK), tl.arange(0, D)
    q = tl.load(q_ptr + row * D + dims)
    k = tl.load(k_ptr + cols[:, None] * D + dims[None, :], mask=cols[:, None] < n, other=0.0)
    tl.store(out_ptr + row * n + cols, tl.sum(k * q[None, :], axis=1), mask=cols < n)


@triton.jit
def softmax_kernel(x_ptr, n, BLOCK: tl.constexpr):
    row, cols = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=float("-inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(x_ptr + row * n + cols, e / tl.sum(e, axis=0), mask=cols < n)


@triton.autotune(configs=[triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 64})], key=["n"])
@triton.jit
def tuned_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + index, twice(tl.load(x_ptr + index, mask=index < n, other=0.0)), mask=index < n)


@triton.jit
def described_kernel(src, dst, shape, BM: tl.constexpr, BN: tl.constexpr):
    row = tl.program_id(0) * BM
    dst.store([row, 0], src.load([row, 0]) * 2.0)


@triton.jit
def applied_kernel(x_ptr, out_ptr, n, function: tl.constexpr, kind: tl.constexpr, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + index, mask=index < n, other=0.0)
    tl.store(out_ptr + index, function(x).to(kind), mask=index < n)


# -- honest: all of them double x, but where their name says otherwise ------------------------------------------------------


def plain(x):
    out = torch.empty_like(x)
    double_kernel[(triton.cdiv(x.numel(), 32),)](x, out, x.numel(), BLOCK=32)
    return out


def two_halves(x):
    """Slices of one buffer, launched in another order, with a grid made by a function."""
    out, n = torch.zeros(2, x.numel()), x.numel()
    for start, end in ((n // 2, n), (0, n // 2)):
        double_kernel[lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]), 1)](x[start:end], out[1, start:end], end - start, 16)
    return out[1]


def in_a_thread(x):
    out = []
    thread = threading.Thread(target=lambda: out.append(plain(x)))
    thread.start()
    thread.join()
    return out[0]


def tuned(x):
    out = torch.empty_like(x)
    tuned_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel())
    return out


def applied(x):
    out = torch.empty_like(x)
    applied_kernel[(1,)](x, out, x.numel(), function=twice, kind=tl.float32, BLOCK=128)
    return out


_KEPT: dict[str, torch.Tensor] = {}


def into_a_buffer_of_last_time(x):
    """The output lies in a buffer that is kept from call to call and holds the values of the last one."""
    out = _KEPT.setdefault("out", torch.arange(200.0) + 77)[3 : 3 + x.numel()]
    double_kernel[(triton.cdiv(x.numel(), 32),)](x, out, x.numel(), BLOCK=32)
    return out


def added_by_atomics(x):
    """Half of the work is the host's; the kernel reads it by atomics."""
    acc = x * 4
    atomic_kernel[(1,)](acc, x, x.numel(), BLOCK=128)
    return acc


def part_of_a_buffer_of_last_time(x):
    """Two elements of the answer are what the buffer held."""
    out = x * 2
    double_kernel[(4,)](x, out, x.numel() - 2, BLOCK=32)
    return out


def accumulated(x):
    """acc is filled anew between launches; the second product is the answer."""
    acc = torch.empty_like(x)
    for start in (7.0, 0.0):
        acc.fill_(start)
        add_kernel[(1,)](acc, x, x.numel(), BLOCK=128)
        add_kernel[(1,)](acc, x, x.numel(), BLOCK=128)
    return acc


def strided_columns(x):
    """x [rows, cols] -> column 1, a view with a stride."""
    out = torch.empty(x.shape[0])
    copy_kernel[(1,)](x[:, 1], out, x.shape[0], x.stride(0), BLOCK=64)
    return out


def of_a_contiguous_copy(x):
    """x with gaps -> the same values."""
    dense, out = x.contiguous(), torch.empty(x.numel())
    copy_kernel[(1,)](dense, out, x.numel(), 1, BLOCK=128)
    return out


def as_strided(x):
    """Every second element of what the kernel wrote."""
    return plain(x).as_strided((x.numel() // 2,), (2,), 1)


def attention_weights(q, k):
    """q [rows, 16], k [n, 16] -> softmax of the scores: two kernels, the second in place."""
    out = torch.empty(q.shape[0], k.shape[0])
    scores_kernel[(q.shape[0],)](q, k, out, k.shape[0], D=16, BLOCK=64)
    softmax_kernel[(q.shape[0],)](out, k.shape[0], BLOCK=64)
    return {"weights": out, "again": (out[0], None)}


def in_place(x, out):
    """The caller's buffer is the answer."""
    double_kernel[(triton.cdiv(x.numel(), 32),)](x, out, x.numel(), BLOCK=32)
    return out


def some_slots(x, cache):
    """Half of the caller's buffer is written, the rest of it stays."""
    double_kernel[(2,)](x, cache, x.numel() // 2, BLOCK=32)
    return cache


def nothing(x):
    """No element, so no program: a grid of 0."""
    out = torch.empty_like(x)
    double_kernel[(triton.cdiv(x.numel(), 32),)](x, out, x.numel(), BLOCK=32)
    return out


def described(x):
    """x [16, 16] by descriptors made on the host."""
    out = torch.empty_like(x)
    described_kernel[(2,)](TensorDescriptor.from_tensor(x, [8, 16]), TensorDescriptor.from_tensor(out, [8, 16]), (16, 16), 8, 16)
    return out


def reinterpreted(x):
    """The same bits under another type."""
    out = torch.empty_like(x)
    bits = triton.reinterpret(x, tl.int32), triton.reinterpret(out, tl.int32)
    copy_kernel[(1,)](*bits, x.numel(), 1, BLOCK=128)
    return out


def reversed_by_index(x):
    """The host makes a work list."""
    out = torch.empty_like(x)
    gather_kernel[(1,)](x, torch.arange(x.numel() - 1, -1, -1), out, x.numel(), BLOCK=128)
    return out


def only_some_rows(x):
    """Rows that no program reaches stay 0."""
    out = torch.zeros(2, x.numel())
    double_kernel[(triton.cdiv(x.numel(), 32),)](x, out[0], x.numel(), BLOCK=32)
    return out


# -- cheats -----------------------------------------------------------------------------------------------------------------


def copied_by_a_kernel(x):
    made, out = x * 2, torch.empty_like(x)
    copy_kernel[(1,)](made, out, x.numel(), 1, BLOCK=128)
    return out


def by_numpy_and_a_kernel(x):
    made, out = torch.from_numpy(np.multiply(x.numpy(), 2)), torch.empty_like(x)
    copy_kernel[(1,)](made, out, x.numel(), 1, BLOCK=128)
    return out


def looked_at(x):
    made = x * 2
    look_kernel[(1,)](made, x.numel())
    return made


def helped_between(x):
    """The second launch is given the first one's output after torch has worked on it."""
    first = torch.empty_like(x)
    copy_kernel[(1,)](x, first, x.numel(), 1, BLOCK=128)
    first.mul_(2)
    out = torch.empty_like(x)
    copy_kernel[(1,)](first, out, x.numel(), 1, BLOCK=128)
    return out


def finished_by_torch(x):
    out = torch.empty_like(x)
    copy_kernel[(1,)](x, out, x.numel(), 1, BLOCK=128)
    return out.mul_(2)


def clone_of_the_input(x):
    """Right where the task is to copy."""
    made = x.clone()
    look_kernel[(1,)](made, x.numel())
    return made


def one_number(x):
    """[n] -> [1]: the result stands in memory that is filled with one value."""
    total = x.sum().reshape(1)
    look_kernel[(1,)](total, 1)
    return total


def data_as_numbers(x):
    out = torch.empty_like(x)
    applied_tuple_kernel[(1,)](tuple((x * 2).tolist()), out)
    return out


@triton.jit
def applied_tuple_kernel(values, out_ptr):
    for i in tl.static_range(len(values)):
        tl.store(out_ptr + i, values[i])
