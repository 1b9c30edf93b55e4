"""Answers to exercise 2.4. Each holds its kernel, and imports what a cell would import, so that it can be judged alone."""

import torch

from ..spoiling import spoiled


def one_loop(q, k, v, causal):
    """Every tile is masked."""
    import triton
    import triton.language as tl

    @triton.jit
    def one_loop_kernel(
        q_ptr, k_ptr, v_ptr, out_ptr, q_batch, q_row, q_head, k_batch, k_row, k_head, v_batch, v_row, v_head,
        out_batch, out_row, out_head, heads, group, q_len, kv_len, scale,
        D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr,
    ):  # fmt: skip
        batch = (tl.program_id(1) // heads).to(tl.int64)
        head = (tl.program_id(1) % heads).to(tl.int64)
        first = tl.program_id(0) * BM
        rows = first + tl.arange(0, BM)
        dims = tl.arange(0, D)
        kv_head = head // group
        q = tl.load(q_ptr + batch * q_batch + head * q_head + rows[:, None] * q_row + dims[None, :], (rows < q_len)[:, None], 0.0)
        m = tl.full((BM,), float("-inf"), tl.float32)
        l = tl.zeros((BM,), tl.float32)
        acc = tl.zeros((BM, D), tl.float32)
        end = tl.minimum(kv_len, first + BM + kv_len - q_len) if CAUSAL else kv_len
        for start in range(0, end, BN):
            keys = start + tl.arange(0, BN)
            live = keys < kv_len
            key_at = k_ptr + batch * k_batch + kv_head * k_head + keys[:, None] * k_row + dims[None, :]
            value_at = v_ptr + batch * v_batch + kv_head * v_head + keys[:, None] * v_row + dims[None, :]
            key = tl.load(key_at, live[:, None], 0.0)
            value = tl.load(value_at, live[:, None], 0.0)
            s = tl.dot(q, key.T) * scale
            newest = rows + kv_len - q_len if CAUSAL else rows * 0 + kv_len - 1
            live = keys[None, :] <= newest[:, None]
            s = tl.where(live, s, float("-inf"))
            larger = tl.maximum(m, tl.max(s, 1))
            base = tl.where(larger == float("-inf"), 0.0, larger)
            old = tl.exp2(m - base)
            p = tl.exp2(s - base[:, None])
            l = l * old + tl.sum(p, 1)
            acc = acc * old[:, None] + tl.dot(p.to(value.dtype), value)
            m = larger
        out = acc / tl.where(l > 0, l, 1.0)[:, None]
        to = out_ptr + batch * out_batch + head * out_head + rows[:, None] * out_row + dims[None, :]
        tl.store(to, out.to(out_ptr.dtype.element_ty), (rows < q_len)[:, None])

    batch, q_len, heads, dim = q.shape
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    strides = [s for tensor in (q, k, v, out) for s in tensor.stride()[:3]]
    scale = dim**-0.5 * 1.4426950408889634
    one_loop_kernel[(triton.cdiv(q_len, 64), batch * heads)](
        q, k, v, out, *strides, heads, heads // k.shape[2], q_len, k.shape[1], scale, D=dim, BM=64, BN=64, CAUSAL=causal,
    )  # fmt: skip
    return out


def two_loops(q, k, v, causal):
    """Whole tiles without a mask, then those on the diagonal and the last with one. Long programs start first."""
    import math

    import triton
    import triton.language as tl

    @triton.jit
    def two_loops_kernel(
        q_ptr, k_ptr, v_ptr, out_ptr, q_strides, k_strides, v_strides, out_strides, q_heads, group, q_len, kv_len, scale_log2,
        CAUSAL: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    ):  # fmt: skip
        tile = tl.num_programs(0) - 1 - tl.program_id(0)
        head = tl.program_id(1)
        batch = tl.program_id(2).to(tl.int64)
        row0 = tile * BLOCK_M
        rows = row0 + tl.arange(0, BLOCK_M)
        lanes = tl.arange(0, BLOCK_N)
        dims = tl.arange(0, HEAD_DIM)
        offset = kv_len - q_len
        q_ptr += batch * q_strides[0] + head * q_strides[2]
        k_ptr += batch * k_strides[0] + (head // group) * k_strides[2]
        v_ptr += batch * v_strides[0] + (head // group) * v_strides[2]
        q = tl.load(q_ptr + rows[:, None] * q_strides[1] + dims[None, :], mask=(rows < q_len)[:, None], other=0.0)
        end, plain = kv_len, kv_len
        if CAUSAL:
            end = tl.minimum(kv_len, row0 + BLOCK_M + offset)
            plain = tl.minimum(kv_len, row0 + 1 + offset)
        plain = tl.maximum(plain, 0) // BLOCK_N * BLOCK_N

        m = tl.full((BLOCK_M,), float("-inf"), tl.float32)
        l = tl.zeros((BLOCK_M,), tl.float32)
        acc = tl.zeros((BLOCK_M, HEAD_DIM), tl.float32)
        for start in range(0, plain, BLOCK_N):
            at = start + lanes
            k = tl.load(k_ptr + at[None, :] * k_strides[1] + dims[:, None])
            s = tl.dot(q, k)
            m_new = tl.maximum(m, tl.max(s, 1) * scale_log2)
            p = tl.exp2(s * scale_log2 - m_new[:, None])
            alpha = tl.exp2(m - m_new)
            l = l * alpha + tl.sum(p, 1)
            v = tl.load(v_ptr + at[:, None] * v_strides[1] + dims[None, :])
            acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
            m = m_new
        for start in range(plain, end, BLOCK_N):
            at = start + lanes
            k = tl.load(k_ptr + at[None, :] * k_strides[1] + dims[:, None], mask=(at < kv_len)[None, :], other=0.0)
            s = tl.dot(q, k)
            seen = (at < kv_len)[None, :]
            if CAUSAL:
                seen = seen & (at[None, :] <= rows[:, None] + offset)
            s = tl.where(seen, s, float("-inf"))
            m_new = tl.maximum(m, tl.max(s, 1) * scale_log2)
            shift = tl.where(m_new == float("-inf"), 0.0, m_new)
            p = tl.exp2(s * scale_log2 - shift[:, None])
            alpha = tl.exp2(m - shift)
            l = l * alpha + tl.sum(p, 1)
            v = tl.load(v_ptr + at[:, None] * v_strides[1] + dims[None, :], mask=(at < kv_len)[:, None], other=0.0)
            acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
            m = m_new
        l = tl.where(l == 0.0, 1.0, l)
        out_ptr += batch * out_strides[0] + head * out_strides[2]
        out = (acc / l[:, None]).to(out_ptr.dtype.element_ty)
        tl.store(out_ptr + rows[:, None] * out_strides[1] + dims[None, :], out, mask=(rows < q_len)[:, None])

    batch, q_len, q_heads, head_dim = q.shape
    out = torch.empty_like(q, memory_format=torch.contiguous_format)
    two_loops_kernel[(triton.cdiv(q_len, 128), q_heads, batch)](
        q, k, v, out, *(tensor.stride()[:3] for tensor in (q, k, v, out)), q_heads, q_heads // k.shape[2], q_len, k.shape[1],
        math.log2(math.e) / math.sqrt(head_dim), CAUSAL=causal, HEAD_DIM=head_dim, BLOCK_M=128, BLOCK_N=64, num_warps=8,
        num_stages=3,
    )  # fmt: skip
    return out


def descriptors(q, k, v, causal):
    """K and V come through tensor descriptors, which give 0 for rows that do not exist; e in place of 2."""
    import triton
    import triton.language as tl
    from triton.tools.tensor_descriptor import TensorDescriptor

    @triton.jit
    def descriptor_kernel(
        q_ptr, k_desc, v_desc, out_ptr, qb, qs, qh, ob, os, oh, group, n_q, n_k, scale,
        D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr,
    ):  # fmt: skip
        row0 = tl.program_id(0) * BM
        head, batch = tl.program_id(1), tl.program_id(2)
        row = row0 + tl.arange(0, BM)
        dim = tl.arange(0, D)
        q_ptr += batch.to(tl.int64) * qb + head * qh
        q = tl.load(q_ptr + row[:, None] * qs + dim[None, :], mask=(row < n_q)[:, None], other=0.0)
        last_key = row + (n_k - n_q) if CAUSAL else row * 0 + n_k - 1
        tiles = tl.cdiv(n_k, BN)
        if CAUSAL:
            tiles = tl.minimum(tiles, tl.cdiv(tl.maximum(row0 + BM + n_k - n_q, 0), BN))
        biggest = tl.full((BM,), float("-inf"), tl.float32)
        weight_sum = tl.zeros((BM,), tl.float32)
        acc = tl.zeros((BM, D), tl.float32)
        for j in range(tiles):
            k = k_desc.load([batch, head // group, j * BN, 0]).reshape(BN, D)
            v = v_desc.load([batch, head // group, j * BN, 0]).reshape(BN, D)
            s = tl.dot(q, tl.trans(k)) * scale
            col = j * BN + tl.arange(0, BN)
            s += tl.where((col[None, :] <= last_key[:, None]) & (col < n_k)[None, :], 0.0, float("-inf"))
            now = tl.maximum(biggest, tl.max(s, 1))
            safe = tl.maximum(now, -3.0e38)
            p = tl.exp(s - safe[:, None])
            fade = tl.exp(biggest - safe)
            weight_sum = weight_sum * fade + tl.sum(p, 1)
            acc = acc * fade[:, None] + tl.dot(p.to(v.dtype), v)
            biggest = now
        acc = tl.where((weight_sum > 0)[:, None], acc / weight_sum[:, None], 0.0)
        out_ptr += batch.to(tl.int64) * ob + head * oh
        tl.store(out_ptr + row[:, None] * os + dim[None, :], acc.to(q.dtype), mask=(row < n_q)[:, None])

    b, n_q, h, d = q.shape
    n_k = k.shape[1]
    out = torch.zeros(q.shape, dtype=q.dtype, device=q.device)
    kd, vd = (
        TensorDescriptor(x, [b, x.shape[2], n_k, d], [x.stride(0), x.stride(2), x.stride(1), 1], [1, 1, 32, d]) for x in (k, v)
    )
    descriptor_kernel[(-(-n_q // 128), h, b)](
        q, kd, vd, out, *q.stride()[:3], *out.stride()[:3], h // k.shape[2], n_q, n_k, d**-0.5,
        D=d, BM=128, BN=32, CAUSAL=causal, num_warps=8, num_stages=2,
    )  # fmt: skip
    return out


def packed_heads(q, k, v, causal):
    """The rows of a tile are the queries of all heads of a group: row r is query r // group of head r % group."""
    import triton
    import triton.language as tl

    @triton.jit
    def step(s, v, m, l, acc):
        top = tl.maximum(m, tl.max(s, axis=1))
        guard = tl.where(top > float("-inf"), top, 0.0)
        w = tl.math.exp2(s - guard[:, None])
        r = tl.math.exp2(m - guard)
        return top, l * r + tl.sum(w, axis=1), tl.dot(w.to(v.dtype), v, acc=acc * r[:, None])

    @triton.jit
    def packed_kernel(
        Q, K, V, O, sqb, sqn, sqh, skb, skn, skh, svb, svn, svh, sob, son, soh, kv_heads, n, keys, scale,
        GROUP: tl.constexpr, D: tl.constexpr, M: tl.constexpr, N: tl.constexpr, CAUSAL: tl.constexpr,
    ):  # fmt: skip
        b, g = (tl.program_id(0) // kv_heads).to(tl.int64), tl.program_id(0) % kv_heads
        r = tl.program_id(1) * M + tl.arange(0, M)
        token, head = r // GROUP, g * GROUP + r % GROUP
        d = tl.arange(0, D)
        here = (token < n)[:, None]
        q = tl.load(Q + b * sqb + token[:, None] * sqn + head[:, None] * sqh + d[None, :], mask=here, other=0)
        m = tl.full([M], -float("inf"), dtype=tl.float32)
        l = tl.zeros([M], dtype=tl.float32)
        acc = tl.zeros([M, D], dtype=tl.float32)
        stop = keys
        if CAUSAL:
            stop = tl.minimum(keys, (tl.program_id(1) * M + M - 1) // GROUP + 1 + keys - n)
        for c in tl.range(0, stop, N):
            j = c + tl.arange(0, N)
            there = j < keys
            k = tl.load(K + b * skb + g * skh + j[None, :] * skn + d[:, None], mask=there[None, :], other=0)
            v = tl.load(V + b * svb + g * svh + j[:, None] * svn + d[None, :], mask=there[:, None], other=0)
            s = tl.dot(q, k, out_dtype=tl.float32) * scale
            if c + N > keys:
                s = tl.where(there[None, :], s, -float("inf"))
            if CAUSAL:
                s = tl.where(token[:, None] >= j[None, :] - (keys - n), s, -float("inf"))
            m, l, acc = step(s, v, m, l, acc)
        o = acc * tl.where(l > 0, 1 / tl.where(l > 0, l, 1.0), 0.0)[:, None]
        tl.store(O + b * sob + token[:, None] * son + head[:, None] * soh + d[None, :], o.to(O.dtype.element_ty), mask=here)

    batch, n, heads, dim = q.shape
    out = q.new_empty(q.shape)
    group = heads // k.size(2)
    grid = (batch * k.size(2), triton.cdiv(n * group, 64))
    packed_kernel[grid](
        q, k, v, out, *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *out.stride()[:3], k.size(2), n, k.size(1),
        1.4426950408889634 / dim**0.5, GROUP=group, D=dim, M=64, N=64, CAUSAL=causal, num_warps=4, num_stages=2,
    )  # fmt: skip
    return out


def backwards(q, k, v, causal):
    """From the last tile of keys to the first; the scale is folded into q."""
    import triton
    import triton.language as tl

    @triton.jit
    def backwards_kernel(
        q_ptr, k_ptr, v_ptr, o_ptr, q_s, k_s, v_s, o_s, heads, group, rows, cols, factor,
        CAUSAL: tl.constexpr, DIM: tl.constexpr, TILE_Q: tl.constexpr, TILE_K: tl.constexpr,
    ):  # fmt: skip
        index = tl.program_id(0)
        tile, head, seq = index // heads % tl.cdiv(rows, TILE_Q), index % heads, index // heads // tl.cdiv(rows, TILE_Q)
        i = tile * TILE_Q + tl.arange(0, TILE_Q)
        d = tl.arange(0, DIM)
        seq = seq.to(tl.int64)
        q = tl.load(q_ptr + seq * q_s[0] + i[:, None] * q_s[1] + head * q_s[2] + d[None, :], mask=i[:, None] < rows, other=0.0)
        q = (q.to(tl.float32) * factor).to(q.dtype)
        limit = cols + i * 0
        if CAUSAL:
            limit = tl.minimum(cols, i + 1 + cols - rows)
        tiles = tl.cdiv(tl.maximum(tl.max(limit, 0), 0), TILE_K)
        m = tl.full((TILE_Q,), float("-inf"), tl.float32)
        l = tl.zeros((TILE_Q,), tl.float32)
        acc = tl.zeros((TILE_Q, DIM), tl.float32)
        for back in range(1, tiles + 1):
            j = (tiles - back) * TILE_K + tl.arange(0, TILE_K)
            k = tl.load(k_ptr + seq * k_s[0] + j[:, None] * k_s[1] + head // group * k_s[2] + d[None, :], j[:, None] < cols, 0.0)
            s = tl.where(j[None, :] < limit[:, None], tl.dot(q, k.T), float("-inf"))
            top = tl.maximum(m, tl.max(s, 1))
            base = tl.where(top == float("-inf"), 0.0, top)
            p = tl.exp2(s - base[:, None])
            shrink = tl.exp2(m - base)
            v = tl.load(v_ptr + seq * v_s[0] + j[:, None] * v_s[1] + head // group * v_s[2] + d[None, :], j[:, None] < cols, 0.0)
            l = l * shrink + tl.sum(p, 1)
            acc = acc * shrink[:, None]
            acc += tl.dot(p.to(v.dtype), v)
            m = top
        o = tl.where(l[:, None] > 0, acc / tl.where(l > 0, l, 1.0)[:, None], 0.0).to(q.dtype)
        tl.store(o_ptr + seq * o_s[0] + i[:, None] * o_s[1] + head * o_s[2] + d[None, :], o, mask=i[:, None] < rows)

    batch, rows, heads, dim = q.shape
    out = torch.empty((batch, rows, heads, dim), device=q.device, dtype=q.dtype)
    backwards_kernel[(batch * heads * triton.cdiv(rows, 64),)](
        q, k, v, out, q.stride(), k.stride(), v.stride(), out.stride(), heads, heads // k.shape[2], rows, k.shape[1],
        dim**-0.5 * 1.4426950408889634, CAUSAL=bool(causal), DIM=dim, TILE_Q=64, TILE_K=32, num_warps=4,
    )  # fmt: skip
    return out


def zeros(q, k, v, causal):
    return torch.zeros_like(q)


def by_torch(q, k, v, causal):
    group = q.shape[2] // k.shape[2]
    keys, values = (x.float().transpose(1, 2).repeat_interleave(group, 1) for x in (k, v))
    scores = q.float().transpose(1, 2) @ keys.transpose(2, 3) * q.shape[-1] ** -0.5
    if causal:
        unseen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(k.shape[1] - q.shape[1] + 1)
        scores = scores.masked_fill(unseen, -torch.inf)
    return (scores.softmax(-1).nan_to_num() @ values).transpose(1, 2).to(q.dtype)


ALL = {"lengths", "causal", "heads", "scores", "rows apart", "traffic", "compiled"}


def change(name, *changes):
    return spoiled(one_loop, name, *changes)


SCALE, NEWEST = "dim**-0.5 * 1.4426950408889634", "rows + kv_len - q_len if CAUSAL else rows * 0 + kv_len - 1"
END = "tl.minimum(kv_len, first + BM + kv_len - q_len) if CAUSAL else kv_len"
DOT, ADD = "tl.dot(q, key.T) * scale", "tl.dot(p.to(value.dtype), value)"
TILES, GRID = "BM=64, BN=64, CAUSAL=causal", "(triton.cdiv(q_len, 64), batch * heads)"
MASK, LARGER, SUM = 'tl.where(live, s, float("-inf"))', "tl.maximum(m, tl.max(s, 1))", "l * old + tl.sum(p, 1)"
DIVIDED = "acc / tl.where(l > 0, l, 1.0)[:, None]"

l_is_not_rescaled = change("l_is_not_rescaled", (SUM, "l + tl.sum(p, 1)"))
acc_is_not_rescaled = change("acc_is_not_rescaled", ("acc = acc * old[:, None] + ", "acc = acc + "))
maximum_of_the_tile = change("maximum_of_the_tile", (LARGER, "tl.max(s, 1)"))
starts_at_zero = change("starts_at_zero", ('m = tl.full((BM,), float("-inf"), tl.float32)', "m = tl.zeros((BM,), tl.float32)"))
no_guard = change("no_guard", ('tl.where(larger == float("-inf"), 0.0, larger)', "larger"))
empty_is_nan = change("empty_is_nan", (DIVIDED, "acc / l[:, None]"))
finite_mask = change("finite_mask", (MASK, "tl.where(live, s, -10000.0)"))
very_low_mask = change("very_low_mask", (MASK, "tl.where(live, s, -1.0e30)"))
top_left = change("top_left", (NEWEST, "tl.minimum(rows, kv_len - 1) if CAUSAL else rows * 0 + kv_len - 1"), (END, "kv_len"))
not_itself = change("not_itself", (NEWEST, NEWEST.replace("- q_len", "- q_len - 1")))
FURTHER = "tl.minimum(rows + 1 + kv_len - q_len, kv_len - 1) if CAUSAL else rows * 0 + kv_len - 1"
one_too_many = change("one_too_many", (NEWEST, FURTHER), (END, END.replace("BM +", "BM + 1 +")))
no_mask = change("no_mask", (NEWEST, "rows * 0 + kv_len - 1"), (END, "kv_len"))
tail_unmasked = change("tail_unmasked", (NEWEST, NEWEST.replace("kv_len - 1", "kv_len + BN")))
another_head_map = change("another_head_map", ("kv_head = head // group", "kv_head = head % (heads // group)"))
first_kv_head = change("first_kv_head", ("kv_head = head // group", "kv_head = head * 0"))
first_sequence = change("first_sequence", ("kv_head * v_head + ", "kv_head * v_head - batch * v_batch + "))
no_scale = change("no_scale", (SCALE, "1.4426950408889634"))
base_two = change("base_two", (SCALE, "dim**-0.5"))
scale_of_64 = change("scale_of_64", (SCALE, "64**-0.5 * 1.4426950408889634"))
not_divided = change("not_divided", (DIVIDED, "acc"))
rows_side_by_side = change("rows_side_by_side", ("keys[:, None] * k_row + dims", "keys[:, None] * D * (heads // group) + dims"))
all_keys_read = change("all_keys_read", (END, "kv_len"))
v_lies_like_k = change("v_lies_like_k", ("for tensor in (q, k, v, out)", "for tensor in (q, k, k, out)"))
SIZES = "batch, q_len, heads, dim = q.shape"
copies_first = change("copies_first", (SIZES, f"q, k, v = q.clone(), k.contiguous(), v.contiguous()\n    {SIZES}"))
adds_zero = change("adds_zero", (SIZES, f"q, k, v = q + 0, k + 0, v + 0\n    {SIZES}"))
v_rows_like_k = change("v_rows_like_k", ("keys[:, None] * v_row + dims", "keys[:, None] * k_row + dims"))
small_tiles = change("small_tiles", (GRID, "(triton.cdiv(q_len, 32), batch * heads)"), (TILES, "BM=32, BN=64, CAUSAL=causal"))
v_of_any_row = change("v_of_any_row", ("tl.load(value_at, live[:, None], 0.0)", "tl.load(value_at)"))
stores_any_row = change("stores_any_row", ("(rows < q_len)[:, None])\n\n", "(rows < q_len + BM)[:, None])\n\n"))
grid_rounded_down = change("grid_rounded_down", (GRID, "(max(q_len // 64, 1), batch * heads)"))
last_tile_left_out = change("last_tile_left_out", ("range(0, end, BN)", "range(0, tl.maximum(end // BN, 1) * BN, BN)"))
four_warps = change(
    "four_warps", (GRID, "(triton.cdiv(q_len, 128), batch * heads)"), (TILES, "BM=128, BN=128, CAUSAL=causal, num_warps=4")
)
no_tensor_cores = change(
    "no_tensor_cores",
    (DOT, 'tl.dot(q.to(tl.float32), key.T.to(tl.float32), input_precision="ieee") * scale'),
    (ADD, 'tl.dot(p, value.to(tl.float32), input_precision="ieee")'),
    (TILES, "BM=64, BN=16, CAUSAL=causal, num_warps=8, num_stages=1"),
)
keys_read_twice = change("keys_read_twice", (DOT, "tl.dot(q, tl.load(key_at, live[:, None], 0.0).T) * scale"))
in_float32 = change("in_float32", ("dtype=q.dtype", "dtype=torch.float32"))
dummy_kernel = change("dummy_kernel", ("    return out\n", """    group = heads // k.shape[2]
    keys, values = (x.float().transpose(1, 2).repeat_interleave(group, 1) for x in (k, v))
    scores = q.float().transpose(1, 2) @ keys.transpose(2, 3) * dim**-0.5
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(k.shape[1] - q_len + 1) > 0, -torch.inf)
    return (scores.softmax(-1).nan_to_num() @ values).transpose(1, 2).to(q.dtype)
"""))  # fmt: skip

# each of the others costs a process for its launches: tests/exercises/test_flash_answers.py judges them together
WRONG = [(zeros, ALL), (all_keys_read, {"traffic"}), (no_guard, {"causal"})]
LONG = {"lengths", "causal", "rows apart", "traffic", "compiled"}  # more than one tile of keys
MORE_WRONG = [
    (by_torch, ALL),
    (copies_first, ALL),
    (adds_zero, ALL),
    (acc_is_not_rescaled, LONG),
    (maximum_of_the_tile, {"scores"}),
    (starts_at_zero, {"scores"}),
    (finite_mask, {"causal", "scores"}),
    (very_low_mask, {"causal"}),
    (top_left, ALL - {"lengths", "scores"}),
    (not_itself, ALL - {"lengths"}),
    (another_head_map, {"heads"}),
    (not_divided, ALL),
    (rows_side_by_side, {"rows apart"}),
    (v_lies_like_k, {"rows apart"}),
    (small_tiles, {"traffic"}),
    (no_tensor_cores, {"compiled"}),
]
REST_WRONG = [  # judged on a GPU, where that takes a moment each
    (v_rows_like_k, {"rows apart"}),
    (dummy_kernel, ALL),
    (tail_unmasked, {"lengths", "scores", "rows apart", "traffic"}),
    (first_sequence, {"lengths", "heads", "rows apart"}),
    (scale_of_64, {"lengths", "causal", "compiled"}),
    (four_warps, {"compiled"}),
    (l_is_not_rescaled, LONG),
    (empty_is_nan, {"causal"}),
    (one_too_many, ALL - {"lengths"}),
    (no_mask, ALL - {"lengths"}),
    (first_kv_head, {"lengths", "heads"}),
    (no_scale, ALL),
    (base_two, ALL),
    (keys_read_twice, {"traffic"}),
    (v_of_any_row, ALL),
    (stores_any_row, ALL),
    (grid_rounded_down, {"lengths", "causal", "traffic", "compiled"}),
    (last_tile_left_out, LONG | {"scores"}),
    (in_float32, ALL),
]
RIGHT = [one_loop, two_loops]
MORE_RIGHT = [descriptors, packed_heads, backwards]
