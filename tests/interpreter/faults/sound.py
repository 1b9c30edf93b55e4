"""Kernels without a mistake, of the kinds that people write: none of the checks may say a word. Rows and vectors.

Padding is read where it is then replaced, outputs are new memory, masks stand where they are needed and nowhere else.
"""

import triton
import triton.language as tl

# fmt: off


@triton.jit
def softmax_kernel(x_ptr, out_ptr, row_stride, n, BLOCK: tl.constexpr):
    row, cols = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * row_stride + cols, mask=cols < n, other=float("-inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * n + cols, e / tl.sum(e, axis=0), mask=cols < n)


@triton.jit
def softmax_whole_row_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """The padded row is read without a mask, and its padding replaced."""
    row, cols = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    x = tl.where(cols < n, tl.load(x_ptr + row * BLOCK + cols), float("-inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * n + cols, e / tl.sum(e, axis=0), mask=cols < n)


@triton.jit
def _welford(mean_a, m2_a, count_a, mean_b, m2_b, count_b):
    count = count_a + count_b
    share = tl.where(count == 0.0, 0.0, count_b / tl.where(count == 0.0, 1.0, count))
    delta = mean_b - mean_a
    return mean_a + delta * share, m2_a + m2_b + delta * delta * count_a * share, count


@triton.jit
def layer_norm_kernel(x_ptr, w_ptr, b_ptr, out_ptr, mean_ptr, rstd_ptr, n, eps, BLOCK: tl.constexpr):
    row, cols = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    live = cols < n
    x = tl.load(x_ptr + row * n + cols, mask=live)  # no other=: the lanes beyond count 0 and are replaced
    x = tl.where(live, x, 0.0)
    mean, m2, count = tl.reduce((x, tl.zeros_like(x), live.to(tl.float32)), 0, _welford)
    rstd = tl.rsqrt(m2 / count + eps)
    w, b = tl.load(w_ptr + cols, mask=live), tl.load(b_ptr + cols, mask=live)
    tl.store(out_ptr + row * n + cols, (x - mean) * rstd * w + b, mask=live)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)


@triton.jit
def layer_norm_weight_kernel(x_ptr, dy_ptr, mean_ptr, rstd_ptr, dw_ptr, lock_ptr, seen_ptr, n, BLOCK: tl.constexpr):
    """Programs take a lock to add to one row of dw; the first one to come finds it unwritten and does not read it."""
    row, cols = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    live = cols < n
    x, dy = tl.load(x_ptr + row * n + cols, mask=live, other=0.0), tl.load(dy_ptr + row * n + cols, mask=live, other=0.0)
    part = dy * (x - tl.load(mean_ptr + row)) * tl.load(rstd_ptr + row)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    if tl.load(seen_ptr) == 0:
        tl.atomic_xchg(seen_ptr, 1)
    else:
        part += tl.load(dw_ptr + cols, mask=live)
    tl.store(dw_ptr + cols, part, mask=live)
    tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def dropout_kernel(x_ptr, out_ptr, seed, p, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes, mask=lanes < n)
    keep = tl.rand(seed, lanes) > p
    tl.store(out_ptr + lanes, tl.where(keep, x / (1 - p), 0.0), mask=lanes < n)


@triton.jit
def paged_gather_kernel(cache_ptr, table_ptr, out_ptr, length, PAGE: tl.constexpr, D: tl.constexpr):
    """One program copies one page; the table is padded with -1, and the last page is written in part."""
    page, slot, dim = tl.program_id(0), tl.arange(0, PAGE)[:, None], tl.arange(0, D)[None, :]
    block = tl.load(table_ptr + page).to(tl.int64)
    row = page * PAGE + slot
    live = (block >= 0) & (row < length)
    value = tl.load(cache_ptr + (block * PAGE + slot) * D + dim, mask=live)
    tl.store(out_ptr + row * D + dim, value, mask=live)


@triton.jit
def paged_decode_kernel(
    q_ptr, k_ptr, v_ptr, table_ptr, out_ptr, lse_ptr, length, per_split, pages, D: tl.constexpr, PAGE: tl.constexpr
):
    """One split of a decode step over pages: keys are read without a mask and their scores replaced, values with one."""
    split, dim, slot = tl.program_id(0), tl.arange(0, D), tl.arange(0, PAGE)
    q = tl.load(q_ptr + dim)
    best, total, acc = -float("inf"), 0.0, tl.zeros((D,), tl.float32)
    for page in range(split * per_split, tl.minimum((split + 1) * per_split, pages)):
        block = tl.load(table_ptr + page).to(tl.int64)
        place = (block * PAGE + slot)[:, None] * D + dim[None, :]
        live = page * PAGE + slot < length
        score = tl.where(live, tl.sum(tl.load(k_ptr + place) * q[None, :], axis=1), float("-inf"))
        new = tl.maximum(best, tl.max(score, axis=0))
        weight = tl.exp(score - new)
        scale = tl.exp(best - new)
        v = tl.load(v_ptr + place, mask=live[:, None], other=0.0)
        acc = acc * scale + tl.sum(weight[:, None] * v, axis=0)
        total = total * scale + tl.sum(weight, axis=0)
        best = new
    tl.store(out_ptr + split * D + dim, acc / tl.where(total == 0.0, 1.0, total))
    tl.store(lse_ptr + split, tl.where(total == 0.0, float("-inf"), best + tl.log(tl.where(total == 0.0, 1.0, total))))


@triton.jit
def merge_kernel(parts_ptr, lse_ptr, out_ptr, splits, D: tl.constexpr, S: tl.constexpr):
    split, dim = tl.arange(0, S), tl.arange(0, D)
    lse = tl.load(lse_ptr + split, mask=split < splits, other=float("-inf"))
    weight = tl.exp(lse - tl.max(lse, axis=0))
    parts = tl.load(parts_ptr + split[:, None] * D + dim[None, :], mask=(split < splits)[:, None], other=0.0)
    tl.store(out_ptr + dim, tl.sum(parts * weight[:, None], axis=0) / tl.sum(weight, axis=0))


@triton.jit
def histogram_kernel(x_ptr, out_ptr, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes, mask=lanes < n, other=-1)
    live = x >= 0
    counts = tl.histogram(tl.where(live, x, 0), BINS) - tl.where(tl.arange(0, BINS) == 0, tl.sum((~live).to(tl.int32), axis=0), 0)
    tl.atomic_add(out_ptr + tl.arange(0, BINS), counts)


@triton.jit
def in_place_kernel(x_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes, mask=lanes < n)
    tl.store(x_ptr + lanes, x * 2 + 1, mask=lanes < n)
    x = tl.load(x_ptr + lanes, mask=lanes < n)
    tl.store(x_ptr + lanes, x - 1, mask=lanes < n)


@triton.jit
def transpose_kernel(x_ptr, out_ptr, rows, cols, B: tl.constexpr):
    row, col = tl.program_id(0) * B + tl.arange(0, B), tl.program_id(1) * B + tl.arange(0, B)
    x = tl.load(x_ptr + row[:, None] * cols + col[None, :], mask=(row < rows)[:, None] & (col < cols)[None, :])
    tl.store(out_ptr + col[:, None] * rows + row[None, :], x.T, mask=(col < cols)[:, None] & (row < rows)[None, :])


@triton.jit
def cumsum_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Block after block; a running sum is right up to n whatever lies beyond."""
    before = 0.0
    for start in range(0, n, BLOCK):
        lanes = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + lanes, mask=lanes < n, other=0.0)
        tl.store(out_ptr + lanes, before + tl.cumsum(x, axis=0), mask=lanes < n)
        before += tl.sum(x, axis=0)


@triton.jit
def top_kernel(x_ptr, value_ptr, rank_ptr, n, K: tl.constexpr, BLOCK: tl.constexpr):
    row, lanes = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + lanes, mask=lanes < n, other=float("-inf"))
    tl.store(value_ptr + row * K + tl.arange(0, K), tl.topk(x, K))
    tl.store(rank_ptr + row * n + lanes, tl.sum((x[:, None] < x[None, :]).to(tl.int32), axis=1), mask=lanes < n)


@triton.jit
def int4_kernel(packed_ptr, scale_ptr, out_ptr, n, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    """Eight numbers of 4 bits in an int32, zero point 8, a scale for each group."""
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    word = tl.load(packed_ptr + lanes // 8, mask=lanes < n)
    number = ((word >> (lanes % 8) * 4) & 0xF) - 8
    scale = tl.load(scale_ptr + lanes // GROUP, mask=lanes < n)
    tl.store(out_ptr + lanes, number * scale, mask=lanes < n)


@triton.jit
def quantise_kernel(x_ptr, out_ptr, scale_ptr, n, BLOCK: tl.constexpr):
    row, lanes = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + lanes, mask=lanes < n, other=0.0)
    scale = tl.max(tl.abs(x), axis=0) / 127
    scale = tl.where(scale == 0.0, 1.0, scale)
    tl.store(out_ptr + row * n + lanes, tl.floor(x / scale + 0.5).to(tl.int8), mask=lanes < n)
    tl.store(scale_ptr + row, scale)


@triton.jit
def rope_kernel(x_ptr, cos_ptr, sin_ptr, heads, dim, HALF: tl.constexpr):
    """In place, pairing i with i + dim/2; HALF is the power of two above dim/2."""
    token, head, lane = tl.program_id(0), tl.program_id(1), tl.arange(0, HALF)
    half = dim // 2
    live = lane < half
    base = x_ptr + (token.to(tl.int64) * heads + head) * dim
    a, b = tl.load(base + lane, mask=live), tl.load(base + half + lane, mask=live)
    cos, sin = tl.load(cos_ptr + token * half + lane, mask=live), tl.load(sin_ptr + token * half + lane, mask=live)
    tl.store(base + lane, a * cos - b * sin, mask=live)
    tl.store(base + half + lane, b * cos + a * sin, mask=live)


@triton.jit
def loss_kernel(logit_ptr, label_ptr, out_ptr, n, ignore, BLOCK: tl.constexpr):
    """Cross entropy; a row whose label is to be ignored points before the tensor, under a mask."""
    row, lanes = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    label = tl.load(label_ptr + row)
    x = tl.load(logit_ptr + row * n + lanes, mask=lanes < n, other=float("-inf"))
    best = tl.max(x, axis=0)
    total = best + tl.log(tl.sum(tl.exp(x - best), axis=0))
    hit = tl.load(logit_ptr + row * n + label, mask=label != ignore, other=0.0)
    tl.store(out_ptr + row, tl.where(label == ignore, 0.0, total - hit))


@triton.jit
def search_kernel(sorted_ptr, wanted_ptr, out_ptr, n, m, BLOCK: tl.constexpr):
    """A binary search in every lane: lanes that are done go on with a mask."""
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    wanted = tl.load(wanted_ptr + lanes, mask=lanes < m, other=0)
    low, high = tl.zeros((BLOCK,), tl.int32), tl.zeros((BLOCK,), tl.int32) + n
    left = n
    while left > 0:
        middle = (low + high) // 2
        open = low < high
        smaller = tl.load(sorted_ptr + middle, mask=open) < wanted
        low = tl.where(open & smaller, middle + 1, low)
        high = tl.where(open & ~smaller, middle, high)
        left = left // 2
    tl.store(out_ptr + lanes, low, mask=lanes < m)


@triton.jit
def compact_kernel(x_ptr, out_ptr, count_ptr, n, BLOCK: tl.constexpr):
    """Positive elements, in any order: each program takes its places from a counter."""
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes, mask=lanes < n, other=0.0)
    keep = (x > 0.0).to(tl.int32)
    start = tl.atomic_add(count_ptr, tl.sum(keep, axis=0))
    tl.store(out_ptr + start + tl.cumsum(keep, axis=0) - 1, x, mask=keep != 0)
