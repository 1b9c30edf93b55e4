"""Small kernels with one kind of traffic each, whose cost a reader can count: gathers, broadcasts, atomics, views, casts."""

import torch
import triton
import triton.language as tl


@triton.jit
def copy_2d_kernel(src_ptr, dst_ptr, M, N, src_row, src_col, dst_row, dst_col, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    cols = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    live = (rows < M) & (cols < N)
    value = tl.load(src_ptr + rows * src_row + cols * src_col, mask=live)
    tl.store(dst_ptr + rows * dst_row + cols * dst_col, value, mask=live)


def copy_2d(src: torch.Tensor, dst: torch.Tensor, *, bm: int, bn: int) -> None:
    """src, dst: [M, N] with any strides."""
    m, n = src.shape
    copy_2d_kernel[(triton.cdiv(m, bm), triton.cdiv(n, bn))](src, dst, m, n, *src.stride(), *dst.stride(), BM=bm, BN=bn)


@triton.jit
def gather_kernel(x_ptr, index_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    index = tl.load(index_ptr + at, mask=at < n, other=0)
    picked = tl.load(x_ptr + index, mask=at < n)
    tl.store(out_ptr + at, picked, mask=at < n)


@triton.jit
def broadcast_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """Every lane loads the same element, and then one scalar load does the same work."""
    lanes = tl.arange(0, BLOCK)
    every = tl.load(x_ptr + lanes * 0)
    one = tl.load(x_ptr)
    tl.store(out_ptr + tl.program_id(0) * BLOCK + lanes, every + one)


@triton.jit
def histogram_kernel(key_ptr, count_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(key_ptr + at, mask=at < n, other=0)
    tl.atomic_add(count_ptr + key, 1, mask=at < n)


@triton.jit
def lock_kernel(lock_ptr):
    tl.atomic_cas(lock_ptr, 0, 1)
    tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def add_one_kernel(x_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at, mask=at < n) + 1, mask=at < n)


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Two loads on one line."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(x_ptr + at, mask=at < n) + tl.load(y_ptr + at, mask=at < n)
    tl.store(out_ptr + at, total, mask=at < n)


@triton.jit
def words_kernel(bytes_ptr, out_ptr, WORDS: tl.constexpr):
    """int8 memory read as int32 through a cast pointer."""
    at = tl.arange(0, WORDS)
    words = tl.load(bytes_ptr.to(tl.pointer_type(tl.int32)) + at)
    tl.store(out_ptr + at, words)


@triton.jit
def halves_kernel(words_ptr, out_ptr, HALVES: tl.constexpr):
    """The low half of each int32, read as int16 through a cast pointer."""
    at = tl.arange(0, HALVES)
    low = tl.load(words_ptr.to(tl.pointer_type(tl.int16)) + at * 2)
    tl.store(out_ptr + at, low)


@triton.jit
def both_widths_kernel(words_ptr, out_ptr, N: tl.constexpr):
    """Whole int32 words N..2N-1; then, on one line, whole words 0..N-1 and the low halves of words N//2.. (N of them)."""
    at, halves_ptr = tl.arange(0, N), words_ptr.to(tl.pointer_type(tl.int16))
    late = tl.load(words_ptr + N + at)
    early = tl.load(words_ptr + at) + tl.load(halves_ptr + N + at * 2)
    tl.store(out_ptr + at, late + early)


@triton.jit
def across_kernel(middle_ptr, others_ptr, out_ptr, BEFORE: tl.constexpr, BLOCK: tl.constexpr):
    """Starts BEFORE elements in front of `middle`, which has fewer than BLOCK: in the tensor next to it, passed as well."""
    at = tl.arange(0, BLOCK)
    both = tl.load(middle_ptr - BEFORE + at)
    tl.store(out_ptr + at, both)


@triton.jit
def nothing_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """With n = 0 no lane of any access is active."""
    at = tl.arange(0, BLOCK)
    value = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(out_ptr + at, value, mask=at < n)
    tl.atomic_add(out_ptr + at, value, mask=at < n)


@triton.jit
def halved(x_ptr, at):
    return tl.load(x_ptr + at) * 0.5


@triton.jit
def helped_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    first = halved(x_ptr, at)
    second = halved(x_ptr, at + BLOCK)
    tl.store(out_ptr + at, first + second)


@triton.jit
def block_pointer_kernel(x_ptr, out_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    at = (tl.program_id(0) * BM, tl.program_id(1) * BN)
    source = tl.make_block_ptr(x_ptr, (M, N), (N, 1), at, (BM, BN), (1, 0))
    target = tl.make_block_ptr(out_ptr, (M, N), (N, 1), at, (BM, BN), (1, 0))
    tl.store(target, tl.load(source, boundary_check=(0, 1)), boundary_check=(0, 1))


@triton.jit
def descriptor_kernel(source, target, BM: tl.constexpr, BN: tl.constexpr):
    at = [tl.program_id(0) * BM, tl.program_id(1) * BN]
    target.store(at, source.load(at))


@triton.jit
def batched_dot_kernel(a_ptr, b_ptr, out_ptr, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """out[b] = a[b] @ b[b], one program, one dot of three dimensions."""
    i, m = tl.arange(0, B)[:, None, None], tl.arange(0, M)[None, :, None]
    k_row, k_col, n = tl.arange(0, K)[None, None, :], tl.arange(0, K)[None, :, None], tl.arange(0, N)[None, None, :]
    a = tl.load(a_ptr + (i * M + m) * K + k_row)
    b = tl.load(b_ptr + (i * K + k_col) * N + n)
    tl.store(out_ptr + (i * M + m) * N + n, tl.dot(a, b))


@triton.jit
def arithmetic_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """Each line of arithmetic has a known number of operations for each element (see test_ledger_accesses)."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    x = x * 2.0 + 1.0  # 2
    x = -x / 3.0  # 2, and a division
    x = tl.fma(x, x, x)  # 2
    x = tl.clamp(tl.maximum(x, 0.5), 0.0, 9.0)  # 1 + 2
    x = tl.where(x > 1.0, tl.abs(x), tl.floor(x)).to(tl.float16).to(tl.float32)  # 0
    x = x - tl.sum(x, axis=0)  # BLOCK - 1 in all, and 1 each
    x = tl.cumsum(x, axis=0)  # BLOCK - 1 in all
    x = tl.exp2(x) + tl.sqrt(tl.log(tl.abs(x)))  # 1, and three special
    tl.store(out_ptr + at, x)
