"""Kernels without a mistake, continued: matrix products in the ways people write them."""

import triton
import triton.language as tl

# fmt: off


@triton.jit
def wrapped_matmul_kernel(
    a_ptr, b_ptr, c_ptr, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr
):
    """Rows and columns beyond the end wrap around to the first ones and are not stored; programs go in groups of rows."""
    program, tiles_m, tiles_n = tl.program_id(0), tl.cdiv(m, BM), tl.cdiv(n, BN)
    group = program // (GROUP * tiles_n)
    height = min(tiles_m - group * GROUP, GROUP)
    tile_m, tile_n = group * GROUP + (program % (GROUP * tiles_n)) % height, (program % (GROUP * tiles_n)) // height
    rows, cols, depth = (tile_m * BM + tl.arange(0, BM)) % m, (tile_n * BN + tl.arange(0, BN)) % n, tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for step in range(tl.cdiv(k, BK)):
        a = tl.load(a_ptr + rows[:, None] * k + (step * BK + depth)[None, :], mask=depth[None, :] < k - step * BK, other=0.0)
        b_ptrs = b_ptr + (step * BK + depth)[:, None] * n + cols[None, :]
        b = tl.load(b_ptrs, mask=depth[:, None] < k - step * BK, other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    rows, cols = tile_m * BM + tl.arange(0, BM), tile_n * BN + tl.arange(0, BN)
    tl.store(c_ptr + rows[:, None] * n + cols[None, :], acc, mask=(rows < m)[:, None] & (cols < n)[None, :])


@triton.jit
def uninitialised_edge_kernel(a_ptr, b_ptr, c_ptr, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Masked rows without other=: only rows of the product that are not stored see them. The depth has its zeros."""
    rows, cols, depth = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    a = tl.load(a_ptr + rows[:, None] * k + depth[None, :], mask=(rows < m)[:, None])
    b = tl.load(b_ptr + depth[:, None] * n + cols[None, :], mask=(cols < n)[None, :])
    c = tl.dot(tl.where((depth < k)[None, :], a, 0.0), tl.where((depth < k)[:, None], b, 0.0), input_precision="ieee")
    tl.store(c_ptr + rows[:, None] * n + cols[None, :], c, mask=(rows < m)[:, None] & (cols < n)[None, :])


@triton.jit
def split_k_kernel(a_ptr, b_ptr, c_ptr, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLITS: tl.constexpr):
    """Each split adds its part of the depth by atomics."""
    rows, cols = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(tl.program_id(2) * BK, k, BK * SPLITS):
        depth = start + tl.arange(0, BK)
        a = tl.load(a_ptr + rows[:, None] * k + depth[None, :], mask=(rows < m)[:, None] & (depth < k)[None, :], other=0.0)
        b = tl.load(b_ptr + depth[:, None] * n + cols[None, :], mask=(depth < k)[:, None] & (cols < n)[None, :], other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.atomic_add(c_ptr + rows[:, None] * n + cols[None, :], acc, mask=(rows < m)[:, None] & (cols < n)[None, :])


@triton.jit
def persistent_kernel(a_ptr, b_ptr, c_ptr, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Fewer programs than tiles: each takes every num_programs-th. Block pointers with boundary checks."""
    tiles_n = tl.cdiv(n, BN)
    for tile in range(tl.program_id(0), tl.cdiv(m, BM) * tiles_n, tl.num_programs(0)):
        row, col = tile // tiles_n * BM, tile % tiles_n * BN
        a_block = tl.make_block_ptr(a_ptr, (m, k), (k, 1), (row, 0), (BM, BK), (1, 0))
        b_block = tl.make_block_ptr(b_ptr, (k, n), (n, 1), (0, col), (BK, BN), (1, 0))
        acc = tl.zeros((BM, BN), tl.float32)
        for _ in range(0, k, BK):
            a = tl.load(a_block, boundary_check=(0, 1), padding_option="zero")
            b = tl.load(b_block, boundary_check=(0, 1), padding_option="zero")
            acc = tl.dot(a, b, acc, input_precision="ieee")
            a_block, b_block = tl.advance(a_block, (0, BK)), tl.advance(b_block, (BK, 0))
        c_block = tl.make_block_ptr(c_ptr, (m, n), (n, 1), (row, col), (BM, BN), (1, 0))
        tl.store(c_block, acc, boundary_check=(0, 1))


@triton.jit
def descriptor_kernel(a, b, c_ptr, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """a and b are descriptors made on the host; c's is made here. n is a multiple of 4 elements."""
    row, col = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, k, BK):
        acc = tl.dot(a.load([row, start]), b.load([start, col]), acc, input_precision="ieee")
    c = tl.make_tensor_descriptor(c_ptr, [m, n], [n, 1], [BM, BN])
    c.store([row, col], acc)


@triton.jit
def grouped_kernel(a_table, b_table, c_table, m_ptr, n, k, groups, tensors, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Products of several pairs: tables hold the addresses, and `tensors`, a tuple, is what they may lead to."""
    group = tl.program_id(0)
    m = tl.load(m_ptr + group)
    a_ptr = tl.load(a_table + group).to(tl.pointer_type(tl.float32))
    b_ptr = tl.load(b_table + group).to(tl.pointer_type(tl.float32))
    c_ptr = tl.load(c_table + group).to(tl.pointer_type(tl.float32))
    rows, cols, depth = tl.program_id(1) * BM + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    if tl.program_id(1) * BM < m:
        a = tl.load(a_ptr + rows[:, None] * k + depth[None, :], mask=(rows < m)[:, None] & (depth < k)[None, :], other=0.0)
        b = tl.load(b_ptr + depth[:, None] * n + cols[None, :], mask=(depth < k)[:, None] & (cols < n)[None, :], other=0.0)
        c = tl.dot(a, b, input_precision="ieee")
        tl.store(c_ptr + rows[:, None] * n + cols[None, :], c, mask=(rows < m)[:, None] & (cols < n)[None, :])


@triton.jit
def expert_kernel(
    x_ptr, w_ptr, token_ptr, expert_ptr, out_ptr, tokens, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    """Tokens sorted by expert, blocks padded with an index beyond the last token; each token's row is written once."""
    block = tl.program_id(0)
    token = tl.load(token_ptr + block * BM + tl.arange(0, BM))
    expert = tl.load(expert_ptr + block).to(tl.int64)
    live, cols, depth = token < tokens, tl.arange(0, BN), tl.arange(0, BK)
    x = tl.load(x_ptr + token[:, None] * k + depth[None, :], mask=live[:, None] & (depth < k)[None, :], other=0.0)
    w_ptr += expert * k * n
    w = tl.load(w_ptr + depth[:, None] * n + cols[None, :], mask=(depth < k)[:, None] & (cols < n)[None, :], other=0.0)
    out = tl.dot(x, w, input_precision="ieee")
    tl.store(out_ptr + token[:, None] * n + cols[None, :], out, mask=live[:, None] & (cols < n)[None, :])


@triton.jit
def stream_k_kernel(a_ptr, b_ptr, c_ptr, part_ptr, flag_ptr, n, k, half, B: tl.constexpr, BK: tl.constexpr):
    """Two programs share one tile: the first leaves its sum and raises a flag, the second waits for it and adds."""
    me, rows, cols = tl.program_id(0), tl.arange(0, B), tl.arange(0, B)
    acc = tl.zeros((B, B), tl.float32)
    for start in range(0 if me == 0 else half, half if me == 0 else k, BK):
        depth = start + tl.arange(0, BK)
        a = tl.load(a_ptr + rows[:, None] * k + depth[None, :], mask=(depth < k)[None, :], other=0.0)
        b = tl.load(b_ptr + depth[:, None] * n + cols[None, :], mask=(depth < k)[:, None], other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    place = rows[:, None] * B + cols[None, :]
    if me == 0:
        tl.store(part_ptr + place, acc)
        tl.atomic_xchg(flag_ptr, 1, sem="release")
    else:
        while tl.atomic_cas(flag_ptr, 1, 0, sem="acquire") != 1:
            pass
        tl.store(c_ptr + rows[:, None] * n + cols[None, :], acc + tl.load(part_ptr + place))
