"""Answers to exercise 2.8. Each holds its kernels, and imports what a cell would import, so that it can be judged alone."""

import torch

from ..spoiling import spoiled


def one_tile(q, k, v, k_blocks, v_blocks, slots, block_tables, kv_lengths):
    """A token's heads are a tile of the write, 64 tokens one of the decode, whose products are sums of float32."""
    import math

    import triton
    import triton.language as tl

    @triton.jit
    def write_kernel(
        k_ptr, v_ptr, kc_ptr, vc_ptr, slots_ptr, k_s, v_s, kc_s, vc_s, kv_heads,
        SIZE: tl.constexpr, HEADS: tl.constexpr, D: tl.constexpr,
    ):  # fmt: skip
        token = tl.program_id(0).to(tl.int64)
        slot = tl.load(slots_ptr + token)
        if slot >= 0:
            block = slot // SIZE
            place = slot % SIZE
            head = tl.arange(0, HEADS)[:, None]
            dim = tl.arange(0, D)[None, :]
            inside = head < kv_heads
            new_k = tl.load(k_ptr + token * k_s[0] + head * k_s[1] + dim, mask=inside)
            new_v = tl.load(v_ptr + token * v_s[0] + head * v_s[1] + dim, mask=inside)
            tl.store(kc_ptr + block * kc_s[0] + place * kc_s[1] + head * kc_s[2] + dim, new_k, mask=inside)
            tl.store(vc_ptr + block * vc_s[0] + place * vc_s[1] + head * vc_s[2] + dim, new_v, mask=inside)

    @triton.jit
    def decode_kernel(
        q_ptr, k_ptr, v_ptr, tables_ptr, lengths_ptr, out_ptr, q_s, k_s, v_s, table_s, group, scale_log2,
        SIZE: tl.constexpr, TILE: tl.constexpr, D: tl.constexpr,
    ):  # fmt: skip
        head = tl.program_id(0)
        row = tl.program_id(1).to(tl.int64)
        length = tl.load(lengths_ptr + row)
        dim = tl.arange(0, D)
        query = tl.load(q_ptr + row * q_s[0] + head * q_s[1] + dim).to(tl.float32)
        kv_head = head // group
        m = tl.full((), float("-inf"), tl.float32)
        l = tl.full((), 0.0, tl.float32)
        acc = tl.zeros((D,), tl.float32)
        for start in range(0, length, TILE):
            token = start + tl.arange(0, TILE)
            live = token < length
            entry = tl.load(tables_ptr + row * table_s + token // SIZE, mask=live, other=0).to(tl.int64)
            place = token % SIZE
            k_at = (entry * k_s[0] + place * k_s[1])[:, None] + kv_head * k_s[2] + dim[None, :]
            v_at = (entry * v_s[0] + place * v_s[1])[:, None] + kv_head * v_s[2] + dim[None, :]
            key = tl.load(k_ptr + k_at, mask=live[:, None], other=0.0).to(tl.float32)
            value = tl.load(v_ptr + v_at, mask=live[:, None], other=0.0).to(tl.float32)
            s = tl.sum(query[None, :] * key, 1) * scale_log2
            s = tl.where(live, s, float("-inf"))
            larger = tl.maximum(m, tl.max(s, 0))
            old = tl.exp2(m - larger)
            p = tl.exp2(s - larger)
            l = l * old + tl.sum(p, 0)
            acc = acc * old + tl.sum(p[:, None] * value, 0)
            m = larger
        out = acc / tl.where(l > 0, l, 1.0)
        heads = tl.num_programs(0)
        tl.store(out_ptr + (row * heads + head) * D + dim, out.to(out_ptr.dtype.element_ty))

    if k is not None:
        tokens, kv_heads, dim = k.shape
        write_kernel[(tokens,)](
            k, v, k_blocks, v_blocks, slots, k.stride(), v.stride(), k_blocks.stride(), v_blocks.stride(), kv_heads,
            SIZE=k_blocks.shape[1], HEADS=triton.next_power_of_2(kv_heads), D=dim,
        )  # fmt: skip
    if q is not None:
        batch, heads, dim = q.shape
        out = torch.empty((batch, heads, dim), dtype=q.dtype, device=q.device)
        decode_kernel[(heads, batch)](
            q, k_blocks, v_blocks, block_tables, kv_lengths, out, q.stride(), k_blocks.stride(), v_blocks.stride(),
            block_tables.stride(0), heads // k_blocks.shape[2], math.log2(math.e) * dim**-0.5,
            SIZE=k_blocks.shape[1], TILE=64, D=dim,
        )  # fmt: skip
        return out


def tensor_cores(q, k, v, k_blocks, v_blocks, slots, block_tables, kv_lengths):
    """A KV head's group is a tile of tl.dot, the next tile's entries are loaded ahead. The write has a program for each head."""
    import triton
    import triton.language as tl

    @triton.jit
    def move_head_kernel(
        from_ptr, to_ptr, slots_ptr, from_token, from_head, to_block, to_place, to_head, SIZE: tl.constexpr, D: tl.constexpr
    ):  # fmt: skip
        token, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
        dim = tl.arange(0, D)
        slot = tl.load(slots_ptr + token)
        wanted = (slot >= 0) & (dim >= 0)
        x = tl.load(from_ptr + token * from_token + head * from_head + dim, mask=wanted, other=0.0)
        place = (slot // SIZE) * to_block + (slot % SIZE) * to_place
        tl.store(to_ptr + place + head * to_head + dim, x, mask=wanted)

    @triton.jit
    def grouped_kernel(
        q_ptr, k_ptr, v_ptr, tables_ptr, lengths_ptr, out_ptr, q_row, q_head, k_block, k_place, k_head, v_block, v_place, v_head,
        table_row, scale, GROUP: tl.constexpr, SIZE: tl.constexpr, N: tl.constexpr, D: tl.constexpr, ROWS: tl.constexpr,
    ):  # fmt: skip
        sequence = tl.program_id(0).to(tl.int64)
        kv_head = tl.program_id(1)
        n = tl.load(lengths_ptr + sequence)
        r, d, lane = tl.arange(0, ROWS), tl.arange(0, D), tl.arange(0, N)
        head = kv_head * GROUP + r
        mine = (r < GROUP)[:, None]
        x = tl.load(q_ptr + sequence * q_row + head[:, None] * q_head + d[None, :], mask=mine, other=0.0)
        tables_ptr += sequence * table_row
        m = tl.full([ROWS], -float("inf"), dtype=tl.float32)
        l = tl.zeros([ROWS], dtype=tl.float32)
        acc = tl.zeros([ROWS, D], dtype=tl.float32)
        block = tl.load(tables_ptr + lane // SIZE, mask=lane < n, other=0)
        for first in range(0, n, N):
            t = first + lane
            there = (t < n)[:, None]
            at = block.to(tl.int64)[:, None]
            place = (t % SIZE)[:, None]
            block = tl.load(tables_ptr + (t + N) // SIZE, mask=t + N < n, other=0)
            keys = tl.load(k_ptr + at * k_block + place * k_place + kv_head * k_head + d[None, :], mask=there, other=0.0)
            values = tl.load(v_ptr + at * v_block + place * v_place + kv_head * v_head + d[None, :], mask=there, other=0.0)
            s = tl.where((t < n)[None, :], tl.dot(x, keys.T) * scale, -float("inf"))
            top = tl.maximum(m, tl.max(s, 1))
            p = tl.exp(s - top[:, None])
            old = tl.exp(m - top)
            l = l * old + tl.sum(p, 1)
            acc = tl.dot(p.to(values.dtype), values, acc * old[:, None])
            m = top
        acc = tl.where(l[:, None] > 0, acc / tl.where(l > 0, l, 1.0)[:, None], 0.0)
        heads = tl.num_programs(1) * GROUP
        tl.store(out_ptr + (sequence * heads + head[:, None]) * D + d[None, :], acc.to(out_ptr.dtype.element_ty), mask=mine)

    if k is not None:
        for new, cache in ((k, k_blocks), (v, v_blocks)):
            move_head_kernel[new.shape[:2]](
                new, cache, slots, *new.stride()[:2], *cache.stride()[:3], SIZE=cache.shape[1], D=new.shape[2], num_warps=1
            )
    if q is None:
        return None
    out = q.new_empty(q.shape)
    kv_heads, dim = k_blocks.shape[2:]
    grouped_kernel[(len(q), kv_heads)](
        q, k_blocks, v_blocks, block_tables, kv_lengths, out, *q.stride()[:2], *k_blocks.stride()[:3], *v_blocks.stride()[:3],
        block_tables.stride(0), dim**-0.5, GROUP=q.shape[1] // kv_heads, SIZE=k_blocks.shape[1], N=64, D=dim, ROWS=16,
    )  # fmt: skip
    return out


def a_block_at_a_time(q, k, v, k_blocks, v_blocks, slots, block_tables, kv_lengths):
    """One entry of the table in each turn. The write is one kernel over K and V, 16 rows of a head to a program."""
    import math

    import triton
    import triton.language as tl

    @triton.jit
    def rows_kernel(
        k_ptr, v_ptr, kc_ptr, vc_ptr, slots_ptr, ks0, ks1, vs0, vs1, kc0, kc1, kc2, vc0, vc1, vc2, rows, heads,
        SIZE: tl.constexpr, D: tl.constexpr, ROWS: tl.constexpr,
    ):  # fmt: skip
        row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
        token, head = (row // heads).to(tl.int64), row % heads
        dim = tl.arange(0, D)[None, :]
        slot = tl.load(slots_ptr + token, mask=row < rows, other=-1)
        real = slot >= 0
        block, place = slot // SIZE, slot % SIZE
        if tl.program_id(1) == 0:
            x = tl.load(k_ptr + token * ks0 + head * ks1 + dim, mask=real)
            tl.store(kc_ptr + block * kc0 + place * kc1 + head * kc2 + dim, x, mask=real)
        else:
            x = tl.load(v_ptr + token * vs0 + head * vs1 + dim, mask=real)
            tl.store(vc_ptr + block * vc0 + place * vc1 + head * vc2 + dim, x, mask=real)

    @triton.jit
    def blocks_kernel(
        q_ptr, k_ptr, v_ptr, tables_ptr, lengths_ptr, out_ptr, q0, q1, k0, k1, k2, v0, v1, v2, t0, o0, o1, heads, group, c,
        SIZE: tl.constexpr, D: tl.constexpr,
    ):  # fmt: skip
        pid = tl.program_id(0)
        head = pid % heads
        row = (pid // heads).to(tl.int64)
        n = tl.load(lengths_ptr + row)
        dim, place = tl.arange(0, D), tl.arange(0, SIZE)
        x = tl.load(q_ptr + row * q0 + head * q1 + dim).to(tl.float32) * c
        top = tl.full((), float("-inf"), tl.float32)
        total = tl.full((), 0.0, tl.float32)
        acc = tl.zeros((D,), tl.float32)
        for number in range(tl.cdiv(n, SIZE)):
            block = tl.load(tables_ptr + row * t0 + number).to(tl.int64)
            live = place < n - number * SIZE
            inside = live[:, None] & (dim >= 0)[None, :]
            key = tl.load(k_ptr + block * k0 + (head // group) * k2 + place[:, None] * k1 + dim[None, :], mask=inside, other=0.0)
            at = block * v0 + (head // group) * v2 + place[:, None] * v1 + dim[None, :]
            value = tl.load(v_ptr + at, mask=inside, other=0.0)
            s = tl.where(live, tl.sum(x[None, :] * key.to(tl.float32), axis=1), float("-inf"))
            new = tl.maximum(top, tl.max(s, axis=0))
            p, rescale = tl.exp2(s - new), tl.exp2(top - new)
            total = total * rescale + tl.sum(p, axis=0)
            acc = acc * rescale + tl.sum(p[:, None] * value.to(tl.float32), axis=0)
            top = new
        if n == 0:
            total += 1.0
        tl.store(out_ptr + row * o0 + head * o1 + dim, (acc / total).to(out_ptr.dtype.element_ty))

    if k is not None:
        rows = k.shape[0] * k.shape[1]
        rows_kernel[(triton.cdiv(rows, 16), 2)](
            k, v, k_blocks, v_blocks, slots, *k.stride()[:2], *v.stride()[:2], *k_blocks.stride()[:3], *v_blocks.stride()[:3],
            rows, k.shape[1], SIZE=k_blocks.shape[1], D=k.shape[2], ROWS=16,
        )  # fmt: skip
    if q is not None:
        batch, heads, dim = q.shape
        out = torch.empty_like(q)
        blocks_kernel[(batch * heads,)](
            q, k_blocks, v_blocks, block_tables, kv_lengths, out, *q.stride()[:2], *k_blocks.stride()[:3], *v_blocks.stride()[:3],
            block_tables.stride(0), *out.stride()[:2], heads, heads // k_blocks.shape[2], math.log2(math.e) / math.sqrt(dim),
            SIZE=k_blocks.shape[1], D=dim, num_warps=2,
        )  # fmt: skip
        return out


def lanes_meet_at_the_end(q, k, v, k_blocks, v_blocks, slots, block_tables, kv_lengths):
    """Each lane of a tile keeps a partial softmax of its own, and walks backwards; nothing is reduced over tokens in the loop."""
    import triton
    import triton.language as tl

    @triton.jit
    def put_kernel(
        new_ptr, cache_ptr, slots_ptr, new_s, cache_s, tokens, heads,
        SIZE: tl.constexpr, D: tl.constexpr, T: tl.constexpr, H: tl.constexpr,
    ):  # fmt: skip
        token = (tl.program_id(0) * T + tl.arange(0, T))[:, None, None].to(tl.int64)
        head = tl.arange(0, H)[None, :, None]
        dim = tl.arange(0, D)[None, None, :]
        slot = tl.load(slots_ptr + token, mask=token < tokens, other=-1)
        here = (slot >= 0) & (head < heads)
        x = tl.load(new_ptr + token * new_s[0] + head * new_s[1] + dim, mask=here)
        slot = tl.where(slot < 0, 0, slot)
        tl.store(cache_ptr + slot // SIZE * cache_s[0] + slot % SIZE * cache_s[1] + head * cache_s[2] + dim, x, mask=here)

    @triton.jit
    def lanes_kernel(
        q_ptr, k_ptr, v_ptr, tables_ptr, lengths_ptr, out_ptr, q_s, k_s, v_s, t_s, o_s, group, scale,
        SIZE: tl.constexpr, LANES: tl.constexpr, D: tl.constexpr,
    ):  # fmt: skip
        row, head = tl.program_id(1), tl.program_id(0)
        n = tl.load(lengths_ptr + row)
        dim = tl.arange(0, D)
        x = tl.load(q_ptr + row * q_s[0] + head * q_s[1] + dim).to(tl.float32)
        m = tl.full((LANES,), float("-inf"), tl.float32)
        l = tl.zeros((LANES,), tl.float32)
        acc = tl.zeros((LANES, D), tl.float32)
        turns = tl.cdiv(n, LANES)
        for turn in range(turns):
            token = (turns - 1 - turn) * LANES + tl.arange(0, LANES)
            live = token < n
            block = tl.load(tables_ptr + row * t_s[0] + token // SIZE, mask=live, other=0)
            base = tl.where(live, block, 0).to(tl.int64)
            k_at = k_ptr + base * k_s[0] + token % SIZE * k_s[1] + head // group * k_s[2]
            v_at = v_ptr + base * v_s[0] + token % SIZE * v_s[1] + head // group * v_s[2]
            key = tl.load(k_at[:, None] + dim[None, :], mask=live[:, None], other=0.0).to(tl.float32)
            value = tl.load(v_at[:, None] + dim[None, :], mask=live[:, None], other=0.0).to(tl.float32)
            s = tl.where(live, tl.sum(key * x[None, :], 1) * scale, float("-inf"))
            new = tl.maximum(m, s)
            base_of = tl.where(new == float("-inf"), 0.0, new)
            p, old = tl.exp(s - base_of), tl.exp(m - base_of)
            l = l * old + p
            acc = acc * old[:, None] + p[:, None] * value
            m = new
        top = tl.max(m, 0)
        weight = tl.exp(m - tl.where(top == float("-inf"), 0.0, top))
        total = tl.sum(weight * l, 0)
        out = tl.sum(weight[:, None] * acc, 0) / tl.where(total == 0, 1.0, total)
        tl.store(out_ptr + row * o_s[0] + head * o_s[1] + dim, out.to(out_ptr.dtype.element_ty))

    size, kv_heads, dim = k_blocks.shape[1:]
    if k is not None:
        for new, cache in ((k, k_blocks), (v, v_blocks)):
            put_kernel[(triton.cdiv(len(slots), 4),)](
                new, cache, slots, new.stride(), cache.stride(), len(slots), kv_heads,
                SIZE=size, D=dim, T=4, H=triton.next_power_of_2(kv_heads),
            )  # fmt: skip
    if q is not None:
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        lanes_kernel[(q.shape[1], q.shape[0])](
            q, k_blocks, v_blocks, block_tables, kv_lengths, out, q.stride(), k_blocks.stride(), v_blocks.stride(),
            block_tables.stride(), out.stride(), q.shape[1] // kv_heads, dim**-0.5, SIZE=size, LANES=32, D=dim, num_warps=4,
        )  # fmt: skip
        return out


def by_torch(q, k, v, k_blocks, v_blocks, slots, block_tables, kv_lengths):
    size = k_blocks.shape[1]
    if k is not None:
        live = slots >= 0
        k_blocks[slots[live] // size, slots[live] % size] = k[live]
        v_blocks[slots[live] // size, slots[live] % size] = v[live]
    if q is None:
        return None
    out = torch.zeros_like(q)
    for row, length in enumerate(kv_lengths.tolist()):
        blocks = block_tables[row, : -(-length // size)].long()
        group = q.shape[1] // k_blocks.shape[2]
        keys, values = (x[blocks].flatten(0, 1)[:length].float().repeat_interleave(group, 1) for x in (k_blocks, v_blocks))
        scores = torch.einsum("hd,nhd->hn", q[row].float(), keys) * q.shape[2] ** -0.5
        out[row] = torch.einsum("hn,nhd->hd", scores.softmax(1), values).to(q.dtype) if length else 0
    return out


def zeros(q, k, v, k_blocks, v_blocks, slots, block_tables, kv_lengths):
    return None if q is None else torch.zeros_like(q)


def change(name, *changes):
    return spoiled(one_tile, name, *changes)


WRITE = {"write", "write traffic", "write compiled"}
DECODE = {"lengths", "heads", "tables", "layouts", "step", "decode traffic", "decode compiled"}
ALL = WRITE | DECODE
SLOT, K_STORE, V_STORE = (
    "if slot >= 0:",
    "place * kc_s[1] + head * kc_s[2] + dim, new_k",
    "place * vc_s[1] + head * vc_s[2] + dim, new_v",
)
LIVE, KEY, VALUE = (
    "live = token < length",
    "tl.load(k_ptr + k_at, mask=live[:, None], other=0.0)",
    "tl.load(v_ptr + v_at, mask=live[:, None], other=0.0)",
)
SCALE, MASK, SUM = "math.log2(math.e) * dim**-0.5", 'tl.where(live, s, float("-inf"))', "l * old + tl.sum(p, 0)"
ENTRY, DIVIDED, KV_HEAD = (
    "tl.load(tables_ptr + row * table_s + token // SIZE, mask=live, other=0)",
    "acc / tl.where(l > 0, l, 1.0)",
    "head // group",
)
WALK = "for start in range(0, length, TILE)"
TILE, WRITE_LAUNCH = "TILE=64, D=dim,\n", "HEADS=triton.next_power_of_2(kv_heads), D=dim,\n"

# the write
no_skip = change("no_skip", (SLOT, "if slot >= -1:"))
swapped = change("swapped", (K_STORE, K_STORE.replace("new_k", "new_v")), (V_STORE, V_STORE.replace("new_v", "new_k")))
one_head = change("one_head", (WRITE_LAUNCH, "HEADS=1, D=dim,\n"))
rows_of_k_touch = change("rows_of_k_touch", ("token * k_s[0] + head * k_s[1]", "(token * kv_heads + head) * D"))
v_lies_like_k = change(
    "v_lies_like_k", ("block * vc_s[0] + place * vc_s[1] + head * vc_s[2]", "block * kc_s[0] + place * kc_s[1] + head * kc_s[2]")
)
place_by_number = change(
    "place_by_number", ("block = slot // SIZE", "block = token // SIZE"), ("place = slot % SIZE", "place = token % SIZE")
)
place_is_block = change("place_is_block", ("place = slot % SIZE", "place = slot // SIZE"))
written_twice = change(
    "written_twice",
    (SLOT, "if slot >= 0:\n          for again in range(2):"),
)
slot_of_each_element = change(
    "slot_of_each_element",
    (
        "slot = tl.load(slots_ptr + token)",
        "slot = tl.max(tl.max(tl.load(slots_ptr + token + tl.zeros((HEADS, D), tl.int32)), 1), 0)",
    ),
)
narrow_write = change("narrow_write", (WRITE_LAUNCH, "HEADS=triton.next_power_of_2(kv_heads), D=dim, num_warps=32,\n"))
always_16 = change("always_16", ("block = slot // SIZE", "block = slot // 16"), ("place = slot % SIZE", "place = slot % 16"))
skips_slot_zero = change("skips_slot_zero", (SLOT, "if slot > 0:"))

# the decode
no_scale = change("no_scale", (SCALE, "math.log2(math.e)"))
base_two = change("base_two", (SCALE, "dim**-0.5"))
scale_of_64 = change("scale_of_64", (SCALE, "math.log2(math.e) * 64**-0.5"))
not_divided = change("not_divided", (DIVIDED, "acc"))
empty_is_nan = change("empty_is_nan", (DIVIDED, "acc / l"))
dead_scores = change("dead_scores", (MASK, "s"))
dead_values = change("dead_values", (VALUE, "tl.load(v_ptr + v_at)"))
finite_mask = change("finite_mask", (MASK, "tl.where(live, s, -10000.0)"))
starts_at_zero = change("starts_at_zero", ('m = tl.full((), float("-inf"), tl.float32)', "m = tl.full((), 0.0, tl.float32)"))
maximum_falls = change("maximum_falls", ("tl.maximum(m, tl.max(s, 0))", "tl.max(s, 0)"))
head_in_group = change("head_in_group", (KV_HEAD, "head % group"))
first_tile_only = change("first_tile_only", (WALK, "for start in range(0, tl.minimum(length, TILE), TILE)"))
whole_tiles_only = change("whole_tiles_only", (WALK, "for start in range(0, length // TILE * TILE, TILE)"))
l_is_not_rescaled = change("l_is_not_rescaled", (SUM, "l + tl.sum(p, 0)"))
acc_is_not_rescaled = change("acc_is_not_rescaled", ("acc = acc * old + ", "acc = acc + "))
another_head_map = change("another_head_map", (KV_HEAD, "head % (tl.num_programs(0) // group)"))
first_kv_head = change("first_kv_head", (KV_HEAD, "head * 0"))
one_short = change("one_short", ("length = tl.load(lengths_ptr + row)", "length = tl.load(lengths_ptr + row) - 1"))
whole_blocks_only = change(
    "whole_blocks_only", ("length = tl.load(lengths_ptr + row)", "length = tl.load(lengths_ptr + row) // SIZE * SIZE")
)
one_more = change("one_more", ("length = tl.load(lengths_ptr + row)", "length = tl.load(lengths_ptr + row) + 1"))
no_table = change("no_table", (ENTRY, "(token // SIZE)"))
first_table = change("first_table", ("row * table_s + token", "token"))
table_as_narrow = change("table_as_narrow", ("block_tables.stride(0)", "block_tables.shape[1]"))
until_minus_one = change(
    "until_minus_one",
    (ENTRY, "tl.load(tables_ptr + row * table_s + token // SIZE, mask=token // SIZE < tl.cdiv(length, SIZE), other=-1)"),
    (LIVE, "live = token < tl.cdiv(length, SIZE) * SIZE"),
)
whole_last_block = change(
    "whole_last_block",
    (LIVE, "live = token < tl.cdiv(length, SIZE) * SIZE"),
    (MASK, 'tl.where(token < length, s, float("-inf"))'),
    (
        ".to(tl.float32)\n            s = ",
        ".to(tl.float32)\n            value = tl.where((token < length)[:, None], value, 0.0)\n            s = ",
    ),
)
keys_read_twice = change(
    "keys_read_twice", ("tl.sum(query[None, :] * key, 1)", "tl.sum(query[None, :] * " + KEY + ".to(tl.float32), 1)")
)
blocks_touch = change(
    "blocks_touch", ("(entry * k_s[0] + place * k_s[1])[:, None]", "((entry * SIZE + place) * k_s[1])[:, None]")
)
values_lie_like_keys = change(
    "values_lie_like_keys",
    (
        "(entry * v_s[0] + place * v_s[1])[:, None] + kv_head * v_s[2]",
        "(entry * k_s[0] + place * k_s[1])[:, None] + kv_head * k_s[2]",
    ),
)
narrow_decode = change("narrow_decode", (TILE, "TILE=16, D=dim, num_warps=16,\n"))
large_tile = change("large_tile", (TILE, "TILE=512, D=dim, num_warps=4,\n"))
in_float32 = change("in_float32", ("dtype=q.dtype", "dtype=torch.float32"))
gathers_first = change(
    "gathers_first", (ENTRY, "(row * entries + token // SIZE)"),
    ("table_s, group, scale_log2,\n", "entries, group, scale_log2,\n"),
    ("    @triton.jit\n    def decode_kernel(", """    @triton.jit
    def gather_kernel(from_ptr, to_ptr, tables_ptr, lengths_ptr, s, to_s, table_s, heads, SIZE: tl.constexpr, D: tl.constexpr):
        number, row = tl.program_id(0), tl.program_id(1).to(tl.int64)
        place, dim = tl.arange(0, SIZE)[:, None], tl.arange(0, D)[None, :]
        live = number * SIZE + place < tl.load(lengths_ptr + row)
        if number * SIZE < tl.load(lengths_ptr + row):
            block = tl.load(tables_ptr + row * table_s + number).to(tl.int64)
            to = row * tl.num_programs(0) + number
            for head in range(heads):
                x = tl.load(from_ptr + block * s[0] + place * s[1] + head * s[2] + dim, mask=live)
                tl.store(to_ptr + to * to_s[0] + place * to_s[1] + head * to_s[2] + dim, x, mask=live)

    @triton.jit
    def decode_kernel("""),
    ("        decode_kernel[", """        entries = block_tables.shape[1]
        gathered = [torch.empty((batch * entries, *x.shape[1:]), dtype=x.dtype, device=x.device) for x in (k_blocks, v_blocks)]
        for x, to in zip((k_blocks, v_blocks), gathered, strict=True):
            gather_kernel[(entries, batch)](
                x, to, block_tables, kv_lengths, x.stride(), to.stride(), block_tables.stride(0), x.shape[2],
                SIZE=x.shape[1], D=dim,
            )
        k_blocks, v_blocks = gathered
        decode_kernel["""),
    ("block_tables.stride(0), heads //", "entries, heads //"),
)  # fmt: skip

ROWS = {"lengths", "heads", "tables", "layouts", "step", "decode traffic"}  # several sequences
# each of the others costs a process for its launches: tests/exercises/test_paged_answers.py judges them together
WRONG = [(zeros, ALL), (one_short, DECODE), (no_skip, {"write", "write traffic", "step"})]
MORE_WRONG = [
    (by_torch, ALL),
    (written_twice, {"write traffic"}),
    (dead_scores, DECODE),
    (dead_values, DECODE),
    (empty_is_nan, {"lengths", "step", "decode traffic"}),
    (no_table, DECODE),
    (whole_last_block, {"decode traffic"}),
    (gathers_first, {"decode traffic"}),
    (narrow_decode, {"decode compiled"}),
]
REST_WRONG = [  # judged by the soak and on a GPU
    (table_as_narrow, {"tables"}),
    (rows_of_k_touch, {"write"}),
    (narrow_write, {"write compiled"}),
    (finite_mask, {"lengths"}),
    (another_head_map, {"heads", "layouts", "step", "decode traffic"}),
    (values_lie_like_keys, {"layouts"}),
    (swapped, WRITE | {"step"}),
    (v_lies_like_k, {"write"}),
    (skips_slot_zero, {"write", "write traffic"}),
    (always_16, {"write", "write traffic"}),
    (slot_of_each_element, {"write traffic"}),
    (no_scale, DECODE),
    (acc_is_not_rescaled, {"lengths", "decode traffic"}),
    (whole_blocks_only, DECODE),
    (first_table, ROWS),
    (blocks_touch, {"layouts"}),
    (keys_read_twice, {"decode traffic"}),
    (one_head, WRITE | {"step"}),
    (place_by_number, WRITE | {"step"}),
    (place_is_block, WRITE | {"step"}),
    (base_two, DECODE),
    (scale_of_64, {"lengths", "decode compiled"}),
    (not_divided, DECODE),
    (starts_at_zero, {"lengths"}),
    (maximum_falls, {"lengths"}),
    (first_tile_only, {"lengths", "decode traffic"}),
    (whole_tiles_only, DECODE),
    (head_in_group, {"heads", "layouts", "step", "decode traffic", "decode compiled"}),
    (l_is_not_rescaled, {"lengths", "decode traffic"}),
    (first_kv_head, {"heads", "layouts", "step", "decode traffic", "decode compiled"}),
    (one_more, DECODE),
    (until_minus_one, DECODE),
    (large_tile, {"decode compiled"}),
    (in_float32, DECODE),
]
RIGHT = [one_tile, tensor_cores]
MORE_RIGHT = [a_block_at_a_time]
REST_RIGHT = [lanes_meet_at_the_end]
