"""Answers to exercise 2.9. Each function holds both of the learner's, and its kernels, so that it can be judged alone."""

import torch

from ..spoiling import spoiled

COVER, BALANCED, CRUMBS = "every block once", "balanced", "no crumbs"
PLAN = {COVER, BALANCED, CRUMBS}
DECODE = {"parts", "heads", "views", "edges", "traffic", "compiled"}
ALL = PLAN | DECODE


def quarter_shares():
    """Items of a quarter of a share; parts are normalised, and merged in tiles of parts."""
    import triton
    import triton.language as tl

    @triton.jit
    def parts_kernel(
        q_ptr, k_ptr, v_ptr, tables_ptr, lengths_ptr, items_ptr, part_ptr, part_lse_ptr,
        q_row, q_head, k_block, k_token, k_head, v_block, v_token, v_head, table_row, scale,
        GROUP: tl.constexpr, SIZE: tl.constexpr, D: tl.constexpr, ROWS: tl.constexpr, BN: tl.constexpr,
    ):  # fmt: skip
        item = tl.program_id(0)
        sequence = tl.load(items_ptr + item * 4).to(tl.int64)
        kv_head = tl.load(items_ptr + item * 4 + 1).to(tl.int64)
        begin = tl.load(items_ptr + item * 4 + 2) * SIZE
        end = tl.minimum(tl.load(items_ptr + item * 4 + 3) * SIZE, tl.load(lengths_ptr + sequence))
        row, dim, lane = tl.arange(0, ROWS), tl.arange(0, D), tl.arange(0, BN)
        head = kv_head * GROUP + row
        of_group = (row < GROUP)[:, None]
        q = tl.load(q_ptr + sequence * q_row + head[:, None] * q_head + dim[None, :], mask=of_group, other=0.0)
        m = tl.full((ROWS,), float("-inf"), tl.float32)
        l = tl.zeros((ROWS,), tl.float32)
        acc = tl.zeros((ROWS, D), tl.float32)
        for start in range(begin, end, BN):
            token = start + lane
            live = token < end
            block = tl.load(tables_ptr + sequence * table_row + token // SIZE, mask=live, other=0).to(tl.int64)
            slot = token % SIZE
            key_at = k_ptr + kv_head * k_head + (block * k_block + slot * k_token)[:, None] + dim[None, :]
            value_at = v_ptr + kv_head * v_head + (block * v_block + slot * v_token)[:, None] + dim[None, :]
            key = tl.load(key_at, mask=live[:, None], other=0.0)
            s = tl.where(live[None, :], tl.dot(q, key.T) * scale, float("-inf"))
            larger = tl.maximum(m, tl.max(s, 1))
            p = tl.exp2(s - larger[:, None])
            old = tl.exp2(m - larger)
            l = l * old + tl.sum(p, 1)
            value = tl.load(value_at, mask=live[:, None], other=0.0)
            acc = acc * old[:, None] + tl.dot(p.to(value.dtype), value)
            m = larger
        safe = tl.where(l > 0, l, 1.0)
        at = item * GROUP + row
        tl.store(part_ptr + at[:, None] * D + dim[None, :], acc / safe[:, None], mask=of_group)
        tl.store(part_lse_ptr + at, tl.where(l > 0, m + tl.log2(safe), float("-inf")), mask=row < GROUP)

    @triton.jit
    def merge_kernel(
        part_ptr, part_lse_ptr, first_ptr, out_ptr, lse_ptr, kv_heads,
        GROUP: tl.constexpr, D: tl.constexpr, PARTS: tl.constexpr,
    ):  # fmt: skip
        sequence, head = tl.program_id(0), tl.program_id(1)
        pair = sequence * kv_heads + head // GROUP
        begin, end = tl.load(first_ptr + pair), tl.load(first_ptr + pair + 1)
        dim, lane = tl.arange(0, D), tl.arange(0, PARTS)
        m = tl.full((), float("-inf"), tl.float32)
        l = tl.full((), 0.0, tl.float32)
        acc = tl.zeros((D,), tl.float32)
        for start in range(begin, end, PARTS):
            part = start + lane
            at = part * GROUP + head % GROUP
            lse = tl.load(part_lse_ptr + at, mask=part < end, other=float("-inf"))
            larger = tl.maximum(m, tl.max(lse, 0))
            base = tl.where(larger == float("-inf"), 0.0, larger)
            weight = tl.exp2(lse - base)
            old = tl.exp2(m - base)
            out = tl.load(part_ptr + at[:, None] * D + dim[None, :], mask=(part < end)[:, None], other=0.0)
            l = l * old + tl.sum(weight, 0)
            acc = acc * old + tl.sum(weight[:, None] * out, 0)
            m = larger
        safe = tl.where(l > 0, l, 1.0)
        row = sequence * kv_heads * GROUP + head
        tl.store(out_ptr + row * D + dim, (acc / safe).to(out_ptr.dtype.element_ty))
        tl.store(lse_ptr + row, tl.where(l > 0, (m + tl.log2(safe)) * 0.6931471805599453, float("-inf")))

    def plan_splits(lengths, kv_heads, block_size, programs):
        blocks = [-(-length // block_size) for length in lengths]
        most = max(-(-sum(blocks) * kv_heads // (4 * programs)), 8)
        items = []
        for sequence, count in enumerate(blocks):
            for head in range(kv_heads):
                for first in range(0, count, most):
                    items.append((sequence, head, first, min(first + most, count)))
        return items

    def split_decode(q, k_blocks, v_blocks, block_tables, kv_lengths, items, first):
        sequences, q_heads, head_dim = q.shape
        size, kv_heads = k_blocks.shape[1:3]
        group = q_heads // kv_heads
        parts = torch.empty(max(len(items), 1), group, head_dim, dtype=torch.float32, device=q.device)
        part_lse = torch.empty(max(len(items), 1), group, dtype=torch.float32, device=q.device)
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        lse = torch.empty(sequences, q_heads, dtype=torch.float32, device=q.device)
        rows = max(16, triton.next_power_of_2(group))
        if len(items):
            parts_kernel[(len(items),)](
                q, k_blocks, v_blocks, block_tables, kv_lengths, items, parts, part_lse,
                q.stride(0), q.stride(1), *k_blocks.stride()[:3], *v_blocks.stride()[:3], block_tables.stride(0),
                head_dim**-0.5 * 1.4426950408889634, GROUP=group, SIZE=size, D=head_dim, ROWS=rows, BN=64, num_stages=3,
            )  # fmt: skip
        merge_kernel[(sequences, q_heads)](parts, part_lse, first, out, lse, kv_heads, GROUP=group, D=head_dim, PARTS=64)
        return out, lse

    return plan_splits, split_decode


def one_wave():
    """As few items as balance allows. A part is (m, l, acc) in base e, and a program merges all heads of a pair."""
    import heapq
    import math

    import triton
    import triton.language as tl

    @triton.jit
    def attend_kernel(
        Q, K, V, tables, lengths, items, M, L, A, q_s, k_s, v_s, width, scale, columns,
        G: tl.constexpr, R: tl.constexpr, B: tl.constexpr, D: tl.constexpr, T: tl.constexpr,
    ):  # fmt: skip
        i = tl.program_id(0)
        b, g = tl.load(items + 4 * i).to(tl.int64), tl.load(items + 4 * i + 1).to(tl.int64)
        lo, hi = tl.load(items + 4 * i + 2), tl.load(items + 4 * i + 3)
        stop = min(hi * B, tl.load(lengths + b))
        r, d, t = tl.arange(0, R), tl.arange(0, D), tl.arange(0, T)
        q = tl.load(Q + b * q_s[0] + (g * G + r)[:, None] * q_s[1] + d, mask=r[:, None] < G, other=0)
        m = tl.full([R], -float("inf"), tl.float32)
        l = tl.zeros([R], tl.float32)
        acc = tl.zeros([R, D], tl.float32)
        for c in range(lo * B, stop, T):
            here = c + t < stop
            page = tl.load(tables + b * width + (c + t) // B, here, 0).to(tl.int64)
            k = tl.load(K + g * k_s[2] + page[None, :] * k_s[0] + ((c + t) % B)[None, :] * k_s[1] + d[:, None], here[None, :], 0)
            v = tl.load(V + g * v_s[2] + page[:, None] * v_s[0] + ((c + t) % B)[:, None] * v_s[1] + d[None, :], here[:, None], 0)
            s = tl.dot(q, k) * scale + tl.where(here, 0.0, -float("inf"))[None, :]
            top = tl.maximum(m, tl.max(s, 1))
            w = tl.exp(s - top[:, None])
            f = tl.exp(m - top)
            l = f * l + tl.sum(w, 1)
            acc = tl.dot(w.to(v.dtype), v, acc * f[:, None])
            m = top
        mine = r < G
        tl.store(M + i * G + r, m, mine)
        tl.store(L + i * G + r, l, mine)
        tl.store(A + (i * G + r)[:, None] * D + d, acc, mine[:, None])

    @triton.jit
    def join_kernel(M, L, A, first, out, lse, heads, G: tl.constexpr, R: tl.constexpr, D: tl.constexpr):
        b, g = tl.program_id(0), tl.program_id(1)
        pair = b * heads + g
        r, d = tl.arange(0, R), tl.arange(0, D)
        mine = r < G
        m = tl.full([R], -float("inf"), tl.float32)
        l = tl.zeros([R], tl.float32)
        acc = tl.zeros([R, D], tl.float32)
        for i in range(tl.load(first + pair), tl.load(first + pair + 1)):
            pm = tl.load(M + i * G + r, mine, -float("inf"))
            top = tl.maximum(m, pm)
            ground = tl.where(top > -float("inf"), top, 0.0)
            f, w = tl.exp(m - ground), tl.exp(pm - ground)
            l = f * l + w * tl.load(L + i * G + r, mine, 0.0)
            acc = f[:, None] * acc + w[:, None] * tl.load(A + (i * G + r)[:, None] * D + d, mine[:, None], 0.0)
            m = top
        o = tl.where(l[:, None] > 0, acc / l[:, None], 0.0)
        tl.store(out + (pair * G + r)[:, None] * D + d, o.to(out.dtype.element_ty), mine[:, None])
        tl.store(lse + pair * G + r, m + tl.log(l), mine)

    def plan_splits(lengths, kv_heads, block_size, programs):
        blocks = [math.ceil(length / block_size) for length in lengths]
        total = sum(blocks) * kv_heads
        allowed = total / programs + max(math.ceil(total / (4 * programs)), 8)
        items = []
        for finer in (1, 2, 3, 4):
            most = max(math.ceil(total / (finer * programs)), 8)
            items = [
                (sequence, head, first, min(first + most, count))
                for sequence, count in enumerate(blocks)
                for head in range(kv_heads)
                for first in range(0, count, most)
            ]
            done = [0] * programs
            for _, _, first, end in items:
                heapq.heapreplace(done, done[0] + end - first)
            if max(done) <= allowed:
                break
        return items

    def split_decode(q, k_blocks, v_blocks, block_tables, kv_lengths, items, first):
        n, heads, dim = q.shape
        kv_heads = k_blocks.shape[2]
        group, count = heads // kv_heads, items.shape[0]
        rows = max(16, 1 << (group - 1).bit_length())
        m, l = (torch.empty(count, group, device=q.device) for _ in range(2))
        acc = torch.empty(count, group, dim, device=q.device)
        out, lse = torch.empty(n, heads, dim, dtype=q.dtype, device=q.device), torch.empty(n, heads, device=q.device)
        if count > 0:
            attend_kernel[count,](
                q, k_blocks, v_blocks, block_tables, kv_lengths, items, m, l, acc, q.stride(), k_blocks.stride(),
                v_blocks.stride(), block_tables.stride(0), dim**-0.5, block_tables.shape[1],
                G=group, R=rows, B=k_blocks.shape[1], D=dim, T=64,
            )  # fmt: skip
        join_kernel[n, kv_heads](m, l, acc, first, out, lse, kv_heads, G=group, R=rows, D=dim)
        return out, lse

    return plan_splits, split_decode


def borders():
    """Borders of equal shares, laid over all pairs. Tokens are rows of the tiles, heads their columns, a block at a time."""
    import triton
    import triton.language as tl

    @triton.jit
    def columns_kernel(
        q_ptr, k_ptr, v_ptr, table_ptr, length_ptr, item_ptr, out_ptr, lse_ptr,
        q0, q1, k0, k1, k2, v0, v1, v2, t0, log2_scale,
        GROUP: tl.constexpr, COLUMNS: tl.constexpr, SIZE: tl.constexpr, DIM: tl.constexpr,
    ):  # fmt: skip
        i = tl.program_id(0)
        of = item_ptr + i * 4
        sequence = tl.load(of).to(tl.int64)
        kv = tl.load(of + 1)
        length = tl.load(length_ptr + sequence)
        token, dim, column = tl.arange(0, SIZE), tl.arange(0, DIM), tl.arange(0, COLUMNS)
        real = column < GROUP
        qt = tl.load(q_ptr + sequence * q0 + (kv * GROUP + column)[None, :] * q1 + dim[:, None], mask=real[None, :], other=0.0)
        m = tl.full((COLUMNS,), float("-inf"), tl.float32)
        l = tl.zeros((COLUMNS,), tl.float32)
        acc = tl.zeros((DIM, COLUMNS), tl.float32)
        for j in range(tl.load(of + 2), tl.load(of + 3)):
            block = tl.load(table_ptr + sequence * t0 + j).to(tl.int64)
            seen = j * SIZE + token < length
            k = tl.load(k_ptr + block * k0 + token[:, None] * k1 + kv * k2 + dim[None, :], mask=seen[:, None], other=0.0)
            s = tl.where(seen[:, None], tl.dot(k, qt) * log2_scale, float("-inf"))
            new = tl.maximum(m, tl.max(s, 0))
            p = tl.math.exp2(s - new[None, :])
            a = tl.math.exp2(m - new)
            l = l * a + tl.sum(p, 0)
            v = tl.load(v_ptr + block * v0 + token[:, None] * v1 + kv * v2 + dim[None, :], mask=seen[:, None], other=0.0)
            acc = acc * a[None, :] + tl.dot(tl.trans(v), p.to(v.dtype))
            m = new
        some = l > 0
        out = acc / tl.where(some, l, 1.0)[None, :]
        tl.store(out_ptr + (i * GROUP + column)[None, :] * DIM + dim[:, None], out, mask=real[None, :])
        tl.store(lse_ptr + i * GROUP + column, tl.where(some, (m + tl.log2(l)) * 0.6931471805599453, float("-inf")), mask=real)

    @triton.jit
    def weigh_kernel(
        part_ptr, part_lse_ptr, first_ptr, out_ptr, lse_ptr, GROUP: tl.constexpr, DIM: tl.constexpr, N: tl.constexpr
    ):
        """Two passes over the parts: all their lse, then what they weigh."""
        row = tl.program_id(0)
        begin = tl.load(first_ptr + row // GROUP)
        end = tl.load(first_ptr + row // GROUP + 1)
        n, dim = tl.arange(0, N), tl.arange(0, DIM)
        top = tl.full((), float("-inf"), tl.float32)
        for at in range(begin, end, N):
            top = tl.maximum(
                top, tl.max(tl.load(part_lse_ptr + (at + n) * GROUP + row % GROUP, mask=at + n < end, other=float("-inf")), 0)
            )
        top = tl.where(top == float("-inf"), 0.0, top)
        total = tl.zeros((), tl.float32)
        acc = tl.zeros((DIM,), tl.float32)
        for at in range(begin, end):
            weight = tl.exp(tl.load(part_lse_ptr + at * GROUP + row % GROUP) - top)
            total += weight
            acc += weight * tl.load(part_ptr + (at * GROUP + row % GROUP) * DIM + dim)
        tl.store(out_ptr + row * DIM + dim, tl.where(total > 0, acc / total, 0.0).to(out_ptr.dtype.element_ty))
        tl.store(lse_ptr + row, top + tl.log(total))

    def plan_splits(lengths, kv_heads, block_size, programs):
        pairs = [(s, h, (n + block_size - 1) // block_size) for s, n in enumerate(lengths) for h in range(kv_heads) if n > 0]
        total = sum(count for _, _, count in pairs)
        share = max((total + 4 * programs - 1) // (4 * programs), 8)
        items, left = [], share
        for s, h, count in pairs:
            at = 0
            while at < count:
                step = min(left, count - at)
                items.append([s, h, at, at + step])
                at, left = at + step, left - step or share
        return items

    def split_decode(q, k_blocks, v_blocks, block_tables, kv_lengths, items, first):
        n, heads, dim = q.shape
        group, count = heads // k_blocks.shape[2], len(items)
        part = q.new_empty((count, group, dim), dtype=torch.float32)
        part_lse = q.new_empty((count, group), dtype=torch.float32)
        out = torch.zeros(n, heads, dim, dtype=q.dtype, device=q.device)
        lse = torch.zeros((n, heads), device=q.device)
        columns_kernel[(count,)](
            q, k_blocks, v_blocks, block_tables, kv_lengths, items, part, part_lse,
            q.stride(0), q.stride(1), k_blocks.stride(0), k_blocks.stride(1), k_blocks.stride(2), v_blocks.stride(0),
            v_blocks.stride(1), v_blocks.stride(2), block_tables.stride(0), 1.4426950408889634 / dim**0.5,
            GROUP=group, COLUMNS=16 if group <= 16 else 32, SIZE=k_blocks.shape[1], DIM=dim, num_warps=4,
        )  # fmt: skip
        weigh_kernel[(n * heads,)](part, part_lse, first, out, lse, GROUP=group, DIM=dim, N=32)
        return out, lse

    return plan_splits, split_decode


def fixed_grid():
    """A grid that never changes: programs stride over the items. A pair in one piece writes its result at once."""
    import itertools

    import triton
    import triton.language as tl

    @triton.jit
    def walking_kernel(
        q_ptr, k_ptr, v_ptr, tables, lengths, items, first, n, part_ptr, part_lse_ptr, out_ptr, lse_ptr,
        qs, qh, kb, kt, kh, vb, vt, vh, ts, kv_heads, scale,
        G: tl.constexpr, B: tl.constexpr, D: tl.constexpr, R: tl.constexpr, T: tl.constexpr,
    ):  # fmt: skip
        row, dim, lane = tl.arange(0, R), tl.arange(0, D), tl.arange(0, T)
        keep = row < G
        for item in range(tl.program_id(0), n, tl.num_programs(0)):
            seq = tl.load(items + item * 4).to(tl.int64)
            kv = tl.load(items + item * 4 + 1)
            begin = tl.load(items + item * 4 + 2) * B
            end = tl.minimum(tl.load(lengths + seq), tl.load(items + item * 4 + 3) * B)
            pair = seq * kv_heads + kv
            alone = tl.load(first + pair + 1) - tl.load(first + pair) == 1
            head = kv * G + row
            q = tl.load(q_ptr + seq * qs + head[:, None] * qh + dim[None, :], mask=keep[:, None], other=0.0)
            m = tl.full((R,), float("-inf"), tl.float32)
            l = tl.zeros((R,), tl.float32)
            acc = tl.zeros((R, D), tl.float32)
            for start in tl.range(begin, end, T, num_stages=2):
                token = start + lane
                live = token < end
                block = tl.load(tables + seq * ts + token // B, mask=live, other=0).to(tl.int64)
                k = tl.load(
                    k_ptr + kv * kh + (block * kb + token % B * kt)[:, None] + dim[None, :], mask=live[:, None], other=0.0
                )
                s = tl.where(live[None, :], tl.dot(q, tl.trans(k)) * scale, float("-inf"))
                now = tl.maximum(m, tl.max(s, 1))
                base = tl.where(now == float("-inf"), 0.0, now)
                p = tl.exp2(s - base[:, None])
                shrink = tl.exp2(m - base)
                v = tl.load(
                    v_ptr + kv * vh + (block * vb + token % B * vt)[:, None] + dim[None, :], mask=live[:, None], other=0.0
                )
                l = l * shrink + tl.sum(p, 1)
                acc = acc * shrink[:, None]
                acc += tl.dot(p.to(v.dtype), v)
                m = now
            some = l > 0
            acc = tl.where(some[:, None], acc / tl.where(some, l, 1.0)[:, None], 0.0)
            lse = tl.where(some, (m + tl.log2(tl.where(some, l, 1.0))) * 0.6931471805599453, float("-inf"))
            if alone:
                to = pair * G + row
                tl.store(out_ptr + to[:, None] * D + dim[None, :], acc.to(out_ptr.dtype.element_ty), mask=keep[:, None])
                tl.store(lse_ptr + to, lse, mask=keep)
            else:
                at = item * G + row
                tl.store(part_ptr + at[:, None] * D + dim[None, :], acc, mask=keep[:, None])
                tl.store(part_lse_ptr + at, lse, mask=keep)

    @triton.jit
    def merging_kernel(part_ptr, part_lse_ptr, first, out_ptr, lse_ptr, G: tl.constexpr, D: tl.constexpr):
        pair, row = tl.program_id(0), tl.program_id(1)
        begin, end = tl.load(first + pair), tl.load(first + pair + 1)
        if end - begin != 1:
            dim = tl.arange(0, D)
            lse = tl.full((), float("-inf"), tl.float32)
            out = tl.zeros((D,), tl.float32)
            for part in range(begin, end):
                other = tl.load(part_lse_ptr + part * G + row)
                top = tl.maximum(lse, other)
                if top > float("-inf"):
                    mine, theirs = tl.exp(lse - top), tl.exp(other - top)
                    both = mine + theirs
                    out = (mine * out + theirs * tl.load(part_ptr + (part * G + row) * D + dim)) / both
                    lse = top + tl.log(both)
            tl.store(out_ptr + (pair * G + row) * D + dim, out.to(out_ptr.dtype.element_ty))
            tl.store(lse_ptr + pair * G + row, lse)

    def plan_splits(lengths, kv_heads, block_size, programs):
        blocks = [(length - 1) // block_size + 1 if length else 0 for length in lengths]
        most = max(-(-(sum(blocks) * kv_heads) // (programs * 4)), 8)
        items = []
        for sequence in range(len(blocks)):
            pieces = -(-blocks[sequence] // most)
            cuts = [blocks[sequence] * piece // pieces for piece in range(pieces + 1)] if pieces else []
            items += [(sequence, head, a, b) for a, b in itertools.pairwise(cuts) for head in range(kv_heads)]
        return items

    def split_decode(q, k_blocks, v_blocks, block_tables, kv_lengths, items, first):
        sequences, heads, dim = q.shape
        kv_heads = k_blocks.shape[2]
        group, n = heads // kv_heads, items.shape[0]
        parts = torch.empty(n, group, dim, device=q.device)
        part_lse = torch.empty(n, group, device=q.device)
        out = torch.empty(sequences, heads, dim, dtype=q.dtype, device=q.device)
        lse = torch.empty(sequences, heads, device=q.device)
        walking_kernel[(24 if q.device.type == "cpu" else 264,)](
            q, k_blocks, v_blocks, block_tables, kv_lengths, items, first, n, parts, part_lse, out, lse,
            *q.stride()[:2], *k_blocks.stride()[:3], *v_blocks.stride()[:3], block_tables.stride(0), kv_heads,
            dim**-0.5 * 1.4426950408889634, G=group, B=k_blocks.shape[1], D=dim, R=max(16, triton.next_power_of_2(group)), T=64,
        )  # fmt: skip
        merging_kernel[(sequences * kv_heads, group)](parts, part_lse, first, out, lse, G=group, D=dim)
        return out, lse

    return plan_splits, split_decode


def by_torch():
    """Right plan; decode by torch, from blocks gathered into contiguous keys and values."""

    def plan_splits(lengths, kv_heads, block_size, programs):
        blocks = [-(-length // block_size) for length in lengths]
        most = max(-(-sum(blocks) * kv_heads // (4 * programs)), 8)
        return [
            (sequence, head, first, min(first + most, count))
            for sequence, count in enumerate(blocks) for head in range(kv_heads) for first in range(0, count, most)
        ]  # fmt: skip

    def split_decode(q, k_blocks, v_blocks, block_tables, kv_lengths, items, first):
        out, lse = torch.zeros_like(q), torch.full(q.shape[:2], -torch.inf, device=q.device)
        group = q.shape[1] // k_blocks.shape[2]
        for sequence, length in enumerate(kv_lengths.tolist()):
            blocks = block_tables[sequence, : -(-length // k_blocks.shape[1])].long()
            k, v = (x[blocks].flatten(0, 1)[:length].float().repeat_interleave(group, 1) for x in (k_blocks, v_blocks))
            scores = torch.einsum("hd,thd->ht", q[sequence].float(), k) * q.shape[2] ** -0.5
            lse[sequence] = scores.logsumexp(1)
            out[sequence] = torch.einsum("ht,thd->hd", scores.softmax(1), v).to(q.dtype) if length else 0
        return out, lse

    return plan_splits, split_decode


def zeros():
    def plan_splits(lengths, kv_heads, block_size, programs):
        return []

    def split_decode(q, k_blocks, v_blocks, block_tables, kv_lengths, items, first):
        return torch.zeros_like(q), torch.zeros(q.shape[:2], device=q.device)

    return plan_splits, split_decode


def change(name, *changes):
    return spoiled(quarter_shares, name, *changes)


MOST = "most = max(-(-sum(blocks) * kv_heads // (4 * programs)), 8)"
EACH = "for first in range(0, count, most):"
BLOCKS = "-(-length // block_size) for length in lengths]\n        most"
END = "tl.minimum(tl.load(items_ptr + item * 4 + 3) * SIZE, tl.load(lengths_ptr + sequence))"
BASE = 'base = tl.where(larger == float("-inf"), 0.0, larger)'
PART = "tl.store(part_ptr + at[:, None] * D + dim[None, :], acc / safe[:, None], mask=of_group)"
WEIGHT = "weight = tl.exp2(lse - base)"
SCALE = "head_dim**-0.5 * 1.4426950408889634"
HEADS = "head = kv_head * GROUP + row"
WALK = "for start in range(begin, end, BN)"

unsplit = change("unsplit", (MOST, "most = 10**9"))
by_batch = change("by_batch", (MOST, f"{MOST} if len(lengths) < 12 else 10**9"))
sixteen_each = change(
    "sixteen_each",
    (EACH, "for first in range(0, count, max(-(-count // 16), 1)):"),
    ("min(first + most, count)))", "min(first + max(-(-count // 16), 1), count)))"),
)
by_the_longest = change("by_the_longest", (MOST, "most = max(-(-max(blocks, default=0) * kv_heads // (4 * programs)), 8)"))
single_blocks = change("single_blocks", (MOST, "most = 1"))
no_least = change("no_least", (MOST, MOST.replace(", 8)", ", 1)")))
share_rounded_down = change(
    "share_rounded_down",
    (MOST, MOST.replace("-(-sum(blocks) * kv_heads // (4 * programs))", "sum(blocks) * kv_heads // (4 * programs)")),
)
one_head_counted = change("one_head_counted", (MOST, MOST.replace(" * kv_heads", "")))
rounded_down = change("rounded_down", (BLOCKS, BLOCKS.replace("-(-length // block_size)", "length // block_size")))
one_block_too_many = change(
    "one_block_too_many", (BLOCKS, BLOCKS.replace("-(-length // block_size)", "length // block_size + 1"))
)
first_head_only = change("first_head_only", ("for head in range(kv_heads):", "for head in range(1):"))
end_is_last = change("end_is_last", ("min(first + most, count)))", "min(first + most, count) - 1))"))
overlapping = change("overlapping", ("min(first + most, count)))", "min(first + most + 1, count)))"))
items_for_none = change("items_for_none", ("for first in range(0, count, most)", "for first in range(0, max(count, 1), most)"))
shuffled = change(
    "shuffled", ("        return items\n", "        import random\n\n        return random.sample(items, len(items))\n")
)

ends_with_the_block = change("ends_with_the_block", (END, "tl.load(items_ptr + item * 4 + 3) * SIZE"))
whole_sequence = change("whole_sequence", (END, "tl.load(lengths_ptr + sequence)"))
first_part = change(
    "first_part",
    (
        "tl.load(first_ptr + pair), tl.load(first_ptr + pair + 1)",
        "tl.load(first_ptr + pair), tl.minimum(tl.load(first_ptr + pair) + 1, tl.load(first_ptr + pair + 1))",
    ),
)
mean_of_parts = change(
    "mean_of_parts",
    (WEIGHT, "weight = tl.where(lse > float('-inf'), 1.0, 0.0) + 0 * larger"),
    ("old = tl.exp2(m - base)\n            out", "old = 1.0\n            out"),
)
merge_without_guard = change("merge_without_guard", (BASE, "base = larger"))
merge_divides_by_zero = change("merge_divides_by_zero", ("(acc / safe).to", "(acc / l).to"))
part_divides_by_zero = change("part_divides_by_zero", ("acc / safe[:, None]", "acc / l[:, None]"))
merge_from_zero = change("merge_from_zero", ('m = tl.full((), float("-inf"), tl.float32)', "m = tl.full((), 0.0, tl.float32)"))
not_divided = change("not_divided", ("(acc / safe).to", "acc.to"))
old_not_rescaled = change("old_not_rescaled", ("acc = acc * old[:, None] + tl.dot", "acc = acc + tl.dot"))
first_tile_of_parts = change(
    "first_tile_of_parts",
    ("for start in range(begin, end, PARTS)", "for start in range(begin, tl.minimum(end, begin + PARTS), PARTS)"),
)
merge_not_rescaled = change("merge_not_rescaled", ("acc = acc * old + tl.sum", "acc = acc + tl.sum"))
part_maximum_falls = change("part_maximum_falls", ("tl.maximum(m, tl.max(s, 1))", "tl.max(s, 1)"))
merge_maximum_falls = change("merge_maximum_falls", ("tl.maximum(m, tl.max(lse, 0))", "tl.max(lse, 0)"))
part_not_divided = change("part_not_divided", ("acc / safe[:, None]", "acc"))
part_without_log = change("part_without_log", ("tl.where(l > 0, m + tl.log2(safe), float", "tl.where(l > 0, m, float"))
part_natural_log = change("part_natural_log", ("m + tl.log2(safe), float", "m + tl.log(safe), float"))
empty_part_is_zero = change(
    "empty_part_is_zero", ('tl.log2(safe), float("-inf")), mask=row < GROUP', "tl.log2(safe), 0.0), mask=row < GROUP")
)
parts_from_zero = change("parts_from_zero", ("begin = tl.load(items_ptr + item * 4 + 2) * SIZE", "begin = 0"))
base_two_lse = change("base_two_lse", ("(m + tl.log2(safe)) * 0.6931471805599453", "m + tl.log2(safe)"))
two_bases = change(
    "two_bases",
    (WEIGHT, "weight = tl.exp(lse - base)"),
    ("old = tl.exp2(m - base)\n            out", "old = tl.exp(m - base)\n            out"),
)
no_scale = change("no_scale", (SCALE, "1.4426950408889634"))
base_two = change("base_two", (SCALE, "head_dim**-0.5"))
first_kv_head = change("first_kv_head", ("kv_head * k_head", "0 * k_head"))
another_head_map = change("another_head_map", (HEADS, "head = kv_head + row * 2"))
v_of_any_row = change("v_of_any_row", ("value = tl.load(value_at, mask=live[:, None], other=0.0)", "value = tl.load(value_at)"))
k_of_any_row = change("k_of_any_row", ("key = tl.load(key_at, mask=live[:, None], other=0.0)", "key = tl.load(key_at)"))
packed_strides = change("packed_strides", ("*k_blocks.stride()[:3]", "size * kv_heads * head_dim, kv_heads * head_dim, head_dim"))
packed_q = change("packed_q", ("q.stride(0), q.stride(1)", "q_heads * head_dim, head_dim"))
a_head_each = change(
    "a_head_each", (HEADS, "head = kv_head * GROUP + tl.program_id(1) + row * 0"),
    ("(row < GROUP)[:, None]", "(row < 1)[:, None]"),
    ("at = item * GROUP + row", "at = item * GROUP + tl.program_id(1) + row * 0"),
    ('float("-inf")), mask=row < GROUP)', 'float("-inf")), mask=row < 1)'),
    ("parts_kernel[(len(items),)]", "parts_kernel[(len(items), group)]"),
)  # fmt: skip
padded_parts = change(
    "padded_parts", ("at = item * GROUP + row", "at = item * ROWS + row"), (PART, PART.replace(", mask=of_group", "")),
    ("at = part * GROUP + head % GROUP", "at = part * 16 + head % GROUP"),
    ("group, head_dim, dtype=torch.float32", "16, head_dim, dtype=torch.float32"),
    ("max(len(items), 1), group, dtype", "max(len(items), 1), 16, dtype"),
)  # fmt: skip
keys_read_twice = change("keys_read_twice", ("tl.dot(q, key.T)", "tl.dot(q, tl.load(key_at, mask=live[:, None], other=0.0).T)"))
no_tensor_cores = change(
    "no_tensor_cores", ("tl.dot(q, key.T)", 'tl.dot(q.to(tl.float32), key.T.to(tl.float32), input_precision="ieee")'),
    ("tl.dot(p.to(value.dtype), value)", 'tl.dot(p, value.to(tl.float32), input_precision="ieee")'), ("BN=64", "BN=16"),
)  # fmt: skip

# each of the others costs a process for its launches: tests/exercises/test_split_decode_answers.py judges them together
WRONG = [(zeros, ALL), (by_torch, DECODE)]
WRONG_PLANS = [
    (unsplit, {BALANCED}),
    (by_batch, {BALANCED}),
    (sixteen_each, {BALANCED, CRUMBS}),
    (by_the_longest, {CRUMBS}),
    (no_least, {CRUMBS}),
    (share_rounded_down, {CRUMBS}),
    (one_head_counted, {CRUMBS}),
    (rounded_down, PLAN),
    (one_block_too_many, PLAN),
    (first_head_only, PLAN),
    (end_is_last, PLAN),
    (overlapping, PLAN),
    (items_for_none, {COVER}),
    (shuffled, PLAN),
]
MORE_WRONG_PLANS = [(single_blocks, {CRUMBS})]  # in the long tests: half a million items
MORE_WRONG = [
    (ends_with_the_block, DECODE),
    (merge_without_guard, {"edges"}),
    (a_head_each, {"traffic"}),
]
REST_WRONG = [  # in the long tests, and on a GPU
    (whole_sequence, DECODE),
    (mean_of_parts, DECODE),
    (packed_strides, {"views"}),
    (first_part, DECODE),
    (merge_divides_by_zero, {"edges"}),
    (part_divides_by_zero, {"edges"}),
    (merge_from_zero, {"edges"}),
    (not_divided, DECODE),
    (old_not_rescaled, {"parts", "traffic"}),
    (first_tile_of_parts, {"parts"}),
    (merge_not_rescaled, {"parts"}),
    (part_maximum_falls, {"edges"}),
    (merge_maximum_falls, {"edges"}),
    (part_not_divided, DECODE),
    (part_without_log, DECODE),
    (part_natural_log, DECODE),
    (empty_part_is_zero, {"edges"}),
    (parts_from_zero, DECODE),
    (base_two_lse, DECODE),
    (two_bases, DECODE),
    (no_scale, DECODE),
    (base_two, DECODE),
    (first_kv_head, {"parts", "heads", "views", "edges", "compiled"}),
    (another_head_map, {"parts", "heads", "views", "edges", "traffic", "compiled"}),
    (v_of_any_row, DECODE),
    (k_of_any_row, {"traffic"}),
    (packed_q, {"views"}),
    (padded_parts, {"traffic"}),
    (keys_read_twice, {"traffic"}),
    (no_tensor_cores, {"compiled"}),
]
RIGHT = [quarter_shares, one_wave]
MORE_RIGHT = [borders, fixed_grid]
