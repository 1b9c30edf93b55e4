"""Answers to exercise 2.3. Each function stands alone: its source is also judged in a process of its own."""

import math

import torch

from ..spoiling import spoiled


def a_walk(memory, shape, tile_q, tile_k):
    """Right: a running maximum, sum and output for each tile of queries."""
    offset, group = shape.kv_len - shape.q_len, shape.q_heads // shape.kv_heads

    def keys_read(row):
        if not shape.causal:
            return shape.kv_len
        seen = max(min(row + tile_q, shape.q_len) + offset, 0)
        return min(shape.kv_len, -(-seen // tile_k) * tile_k)

    row_bytes = shape.head_dim * shape.element_bytes
    keys = sum(keys_read(row) for row in range(0, shape.q_len, tile_q))
    memory.predict(
        shape.q_heads * shape.q_len * row_bytes,
        shape.q_heads * 2 * keys * row_bytes,
        shape.q_heads * shape.q_len * (row_bytes + 4),
    )
    for head in range(shape.q_heads):
        for row in range(0, shape.q_len, tile_q):
            end = min(row + tile_q, shape.q_len)
            q = memory.load_q(head, row, end) * shape.head_dim**-0.5
            m, l = torch.full((end - row,), -torch.inf), torch.zeros(end - row)
            acc = torch.zeros(end - row, shape.head_dim)
            for start in range(0, keys_read(row), tile_k):
                stop = min(start + tile_k, shape.kv_len)
                scores = q @ memory.load_k(head // group, start, stop).T
                if shape.causal:
                    ahead = torch.arange(start, stop)[None, :] > torch.arange(row, end)[:, None] + offset
                    scores = scores.masked_fill(ahead, -torch.inf)
                larger = torch.maximum(m, scores.amax(1))
                base = torch.where(larger == -torch.inf, 0.0, larger)
                old, p = torch.exp(m - base), torch.exp(scores - base[:, None])
                l = l * old + p.sum(1)
                acc = acc * old[:, None] + p @ memory.load_v(head // group, start, stop)
                m = larger
            memory.store(head, row, acc / torch.where(l > 0, l, 1.0)[:, None], m + torch.log(l))


def parts_that_are_merged(memory, shape, tile_q, tile_k):
    """Right: every tile of keys gives an output and a log-sum-exp, which are merged at the end; rows outside, heads inside."""
    d, ahead_by = shape.head_dim, shape.kv_len - shape.q_len
    tiles_of = {}
    for first in range(0, shape.q_len, tile_q):
        last = min(first + tile_q, shape.q_len) - 1
        tiles_of[first] = [
            (a, min(a + tile_k, shape.kv_len)) for a in range(0, shape.kv_len, tile_k) if not shape.causal or a <= last + ahead_by
        ]
    keys = sum(b - a for tiles in tiles_of.values() for a, b in tiles)
    each = d * shape.element_bytes
    memory.predict(
        q_bytes=shape.q_len * shape.q_heads * each,
        kv_bytes=2 * keys * shape.q_heads * each,
        stored_bytes=shape.q_len * shape.q_heads * each + shape.q_len * shape.q_heads * 4,
    )
    for first, tiles in tiles_of.items():
        n = min(tile_q, shape.q_len - first)
        for head in range(shape.q_heads):
            kv_head = head * shape.kv_heads // shape.q_heads
            q = memory.load_q(head, first, first + n).double() / math.sqrt(d)
            outs, lses = [torch.zeros(n, d, dtype=torch.float64)], [torch.full((n,), -math.inf, dtype=torch.float64)]
            for a, b in tiles:
                k, v = memory.load_k(kv_head, a, b).double(), memory.load_v(kv_head, a, b).double()
                s = q @ k.mT
                if shape.causal:
                    s[torch.arange(a, b) - ahead_by > torch.arange(first, first + n)[:, None]] = -math.inf
                lse = s.logsumexp(1)
                outs.append(torch.nan_to_num(torch.softmax(s, 1)) @ v)
                lses.append(lse)
            lses = torch.stack(lses)
            total = lses.logsumexp(0)
            weights = torch.nan_to_num(torch.exp(lses - total))
            memory.store(head, first, (weights[..., None] * torch.stack(outs)).sum(0), total)


def rows_as_floats(memory, shape, tile_q, tile_k):
    """Right: query by query inside a tile, with Python's floats for the state; the keys backwards."""
    element, heads = shape.element_bytes, shape.q_heads
    tiles_q = [(a, min(a + tile_q, shape.q_len)) for a in range(0, shape.q_len, tile_q)]
    tiles_k = [(a, min(a + tile_k, shape.kv_len)) for a in range(0, shape.kv_len, tile_k)]

    def sees(query, key):
        return not shape.causal or key - shape.kv_len <= query - shape.q_len

    needed = [(one, two) for one in tiles_q for two in tiles_k if sees(one[1] - 1, two[0])]
    kv_bytes = heads * sum((b - a) * shape.head_dim * element * 2 for _, (a, b) in needed)
    q_bytes = heads * shape.q_len * shape.head_dim * element
    memory.predict(q_bytes, kv_bytes, q_bytes + 4 * heads * shape.q_len)
    for head in range(heads):
        kv_head = head // (heads // shape.kv_heads)
        for one in tiles_q:
            q = memory.load_q(head, *one)
            state = [(-math.inf, 0.0, torch.zeros(shape.head_dim)) for _ in q]
            for other, two in reversed(needed):
                if other != one:
                    continue
                k, v = memory.load_k(kv_head, *two), memory.load_v(kv_head, *two)
                all_scores = (q @ k.T / math.sqrt(shape.head_dim)).tolist()
                for i, scores in enumerate(all_scores):
                    for j, score in enumerate(scores):
                        if sees(one[0] + i, two[0] + j):
                            m, l, acc = state[i]
                            new = max(m, score)
                            a, b = math.exp(m - new), math.exp(score - new)
                            state[i] = (new, l * a + b, acc * a + v[j] * b)
            out = torch.stack([acc / l if l else acc for _, l, acc in state])
            memory.store(head, one[0], out, torch.tensor([m + math.log(l) if l else -math.inf for m, l, _ in state]))


def without_queries_that_see_nothing(memory, shape, tile_q, tile_k):
    """Right: a tile of queries that sees no key is not even loaded."""
    back = shape.q_len - shape.kv_len
    size = shape.head_dim * shape.element_bytes
    plan, q_rows, keys = [], 0, 0
    for start in range(0, shape.q_len, tile_q):
        stop = min(shape.q_len, start + tile_q)
        end = max(0, stop - back) if shape.causal else shape.kv_len
        tiles = [(a, min(shape.kv_len, a + tile_k)) for a in range(0, end, tile_k)]
        plan.append((start, stop, tiles))
        if tiles:
            q_rows += stop - start
            keys += tiles[-1][1]
    memory.predict(shape.q_heads * q_rows * size, shape.q_heads * keys * 2 * size, shape.q_heads * shape.q_len * (size + 4))
    for h in range(shape.q_heads):
        for start, stop, tiles in plan:
            m = torch.full((stop - start, 1), -torch.inf)
            l, acc = torch.zeros(stop - start, 1), torch.zeros(stop - start, shape.head_dim)
            q = memory.load_q(h, start, stop) if tiles else None
            for a, b in tiles:
                s = q @ memory.load_k(h * shape.kv_heads // shape.q_heads, a, b).T / shape.head_dim**0.5
                if shape.causal:
                    s = torch.where(torch.arange(a, b) + back <= torch.arange(start, stop)[:, None], s, -torch.inf)
                new = torch.maximum(m, s.max(1, keepdim=True).values)
                finite = new.clamp(min=-1e30)
                w = torch.exp(s - finite)
                l = l * torch.exp(m - finite) + w.sum(1, keepdim=True)
                acc = acc * torch.exp(m - finite) + w @ memory.load_v(h * shape.kv_heads // shape.q_heads, a, b)
                m = new
            memory.store(h, start, torch.where(l > 0, acc / l, 0.0), (m + l.log())[:, 0])


def by_transposes(memory, shape, tile_q, tile_k):
    """Right: scores with keys along the first axis, base 2, the closed form written with full and partial tiles."""
    s = shape
    n_tiles, per_row = -(-s.q_len // tile_q), s.head_dim * s.element_bytes
    ends = [s.kv_len] * n_tiles
    if s.causal:
        ends = [s.kv_len - s.q_len + min((i + 1) * tile_q, s.q_len) for i in range(n_tiles)]
    counts = [max(0, -(-end // tile_k)) for end in ends]
    keys = sum(min(count * tile_k, s.kv_len) for count in counts)
    memory.predict(s.q_len * s.q_heads * per_row, 2 * keys * per_row * s.q_heads, s.q_len * s.q_heads * (4 + per_row))
    for head in range(s.q_heads):
        for i, count in enumerate(counts):
            lo, hi = i * tile_q, min((i + 1) * tile_q, s.q_len)
            q = memory.load_q(head, lo, hi).T * (math.log2(math.e) / math.sqrt(s.head_dim))
            best, total, acc = torch.full((hi - lo,), -math.inf), torch.zeros(hi - lo), torch.zeros(s.head_dim, hi - lo)
            for tile in range(count):
                a, b = tile * tile_k, min((tile + 1) * tile_k, s.kv_len)
                kv_head = head // (s.q_heads // s.kv_heads)
                scores = memory.load_k(kv_head, a, b) @ q
                if s.causal:
                    scores[torch.arange(a, b)[:, None] > torch.arange(lo, hi)[None] + s.kv_len - s.q_len] = -math.inf
                new = torch.maximum(best, scores.amax(0))
                shift = torch.nan_to_num(new, neginf=0.0)
                weights, rescale = torch.exp2(scores - shift), torch.exp2(best - shift)
                total, acc = total * rescale + weights.sum(0), acc * rescale + memory.load_v(kv_head, a, b).T @ weights
                best = new
            out = (acc / total.clamp(min=1e-30)).T
            memory.store(head, lo, out, (best + torch.log2(total)) * math.log(2))


def planned_and_mixed(memory, shape, tile_q, tile_k):
    """Right: the whole walk as a plan first, whose bytes are added up; einsum and tril; normalised parts mixed by their lse."""
    back, plan = shape.q_len - shape.kv_len, []
    for head in range(shape.q_heads):
        for a in range(0, shape.q_len, tile_q):
            z = min(shape.q_len, a + tile_q)
            tiles = []
            for k0 in range(0, shape.kv_len, tile_k):
                if shape.causal and k0 > z - 1 - back:
                    break
                tiles.append((k0, min(shape.kv_len, k0 + tile_k)))
            plan.append((head, a, z, tiles))
    line = shape.head_dim * shape.element_bytes
    memory.predict(
        sum((z - a) * line for _, a, z, tiles in plan if tiles),
        sum((k1 - k0) * 2 * line for *_, tiles in plan for k0, k1 in tiles),
        sum((z - a) * (line + 4) for _, a, z, _ in plan),
    )
    for head, a, z, tiles in plan:
        if not tiles:
            memory.store(head, a, torch.zeros(z - a, shape.head_dim), torch.full((z - a,), -torch.inf))
            continue
        kv_head, q, outs, lses = head * shape.kv_heads // shape.q_heads, memory.load_q(head, a, z), [], []
        for k0, k1 in tiles:
            scores = torch.einsum("qd,kd->qk", q, memory.load_k(kv_head, k0, k1)).mul(shape.head_dim**-0.5)
            if shape.causal:
                keep = torch.ones(z - a, k1 - k0, dtype=torch.bool).tril(a - back - k0)
                scores = scores.where(keep, torch.tensor(-torch.inf))
            lses.append(scores.logsumexp(1, keepdim=True))
            outs.append((scores - lses[-1]).exp().nan_to_num(0.0) @ memory.load_v(kv_head, k0, k1))
        whole = torch.cat(lses, 1).logsumexp(1, keepdim=True)
        out = sum(part * (lse - whole).exp().nan_to_num(0.0) for part, lse in zip(outs, lses, strict=True))
        memory.store(head, a, out, whole[:, 0])


RESULT, CAUSAL, HEADS, PREDICTION, TRAFFIC = "result", "causal", "heads", "prediction", "traffic"
VALUES = {RESULT, CAUSAL, HEADS}
BYTES = {PREDICTION, TRAFFIC}
WALK = "for start in range(0, keys_read(row), tile_k):"
NEXT = "                m = larger\n"
LOAD_Q = "            q = memory.load_q"
DIVIDED = "acc / torch.where(l > 0, l, 1.0)[:, None]"
UNBOUNDED = "(-(-(min(row + tile_q, shape.q_len) + offset) // tile_k) * tile_k if shape.causal else shape.kv_len)"
REACH = f"max(0, {UNBOUNDED})"


def change(name, *changes):
    return spoiled(a_walk, name, *changes)


def nothing(memory, shape, tile_q, tile_k):
    return None


def all_keys_at_once(memory, shape, tile_q, tile_k):
    for head in range(shape.q_heads):
        k, v = (load(head, 0, shape.kv_len) for load in (memory.load_k, memory.load_v))
        q = memory.load_q(head, 0, shape.q_len)
        scores = q @ k.T / shape.head_dim**0.5
        memory.store(head, 0, torch.softmax(scores, 1) @ v, scores.logsumexp(1))


KEPT = """cache = {}
    load_k, load_v = memory.load_k, memory.load_v

    def kept(load, *tile):
        if (load, *tile) not in cache:
            cache[(load, *tile)] = load(*tile)
        return cache[(load, *tile)]

    for head in range(shape.q_heads):
"""
WRONG = [
    (nothing, VALUES | BYTES),
    (all_keys_at_once, VALUES | BYTES),
    (change("no_rescaling_of_l", ("l = l * old + ", "l = l + ")), VALUES),
    (change("no_rescaling_of_acc", ("acc * old[:, None] + ", "acc + ")), VALUES),
    (change("no_root", (" * shape.head_dim**-0.5", "")), VALUES),
    (change("not_divided", ("acc / torch.where(l > 0, l, 1.0)[:, None]", "acc")), VALUES),
    (change("lse_without_the_sum", ("m + torch.log(l)", "m")), VALUES),
    (change("no_mask", ("if shape.causal:\n                    ahead", "if False:\n                    ahead")), {CAUSAL}),
    (change("top_left", ("[:, None] + offset", "[:, None]")), {CAUSAL}),
    (change("one_too_many", ("[None, :] > torch", "[None, :] - 1 > torch")), {CAUSAL}),
    (change("no_guard", ("torch.where(larger == -torch.inf, 0.0, larger)", "larger")), {CAUSAL}),
    (change("no_diagonal", ("-(-seen // tile_k) * tile_k", "seen // tile_k * tile_k")), {CAUSAL, TRAFFIC}),
    (change("one_key_too_few", ("min(row + tile_q, shape.q_len) + offset", "min(row + tile_q, shape.q_len) + offset - 1")),
     {CAUSAL, TRAFFIC}),
    (change("reads_part_of_a_cut_tile",
            ("return min(shape.kv_len, -(-seen // tile_k) * tile_k)", "return min(shape.kv_len, seen)"),
            ("min(start + tile_k, shape.kv_len)", "min(start + tile_k, keys_read(row))")), {TRAFFIC}),
    (change("as_far_as_the_first_query", ("min(row + tile_q, shape.q_len) + offset", "row + 1 + offset")), {CAUSAL, TRAFFIC}),
    (change("head_dim_without_root", ("shape.head_dim**-0.5", "shape.head_dim**-1.0")), VALUES),
    (change("zero_by_zero", ("torch.where(l > 0, l, 1.0)", "l")), {CAUSAL}),
    (change("stores_bfloat16", (DIVIDED, f"({DIVIDED}).bfloat16()")), VALUES),
    (change("heads_in_turns", ("memory.load_k(head // group", "memory.load_k(head % shape.kv_heads"),
            ("memory.load_v(head // group", "memory.load_v(head % shape.kv_heads")), {HEADS}),
    (change("values_of_the_first_head", ("memory.load_v(head // group", "memory.load_v(0")), VALUES),
    (change("reads_what_is_masked", (WALK, "for start in range(0, shape.kv_len, tile_k):")), BYTES),
    (change("predicts_what_is_masked", ("if not shape.causal:\n", "if True:\n")), {TRAFFIC}),
    (change("no_prediction", ("memory.predict(", "print and (")), {PREDICTION}),
    (change("not_cut_off", ("keys = sum(keys_read(row)", f"keys = sum({REACH}")), {PREDICTION}),
    (change("fewer_than_no_keys", ("keys = sum(keys_read(row)", f"keys = sum(min(shape.kv_len, {UNBOUNDED})")), {PREDICTION}),
    (change("a_float", ("shape.q_heads * 2 * keys * row_bytes", "shape.q_heads * 2.0 * keys * row_bytes")), VALUES | BYTES),
    (change("forgets_v", ("shape.q_heads * 2 * keys", "shape.q_heads * keys")), {PREDICTION}),
    (change("counts_kv_heads", ("shape.q_heads * 2 * keys", "shape.kv_heads * 2 * keys")), {PREDICTION}),
    (change("four_bytes", ("shape.head_dim * shape.element_bytes", "shape.head_dim * 4")), {PREDICTION}),
    (change("forgets_lse", ("(row_bytes + 4)", "row_bytes")), {PREDICTION}),
    (change("predicts_no_diagonal", ("keys = sum(keys_read(row)", "keys = sum(keys_read(row) // tile_k * tile_k")), {PREDICTION}),
    (change("late", ("    memory.predict(", "    memory.load_q(0, 0, 1)\n    memory.predict(")), BYTES),
    (change("loads_q_again", (WALK, f"{WALK}\n                memory.load_q(head, row, end)")), BYTES),
    (change("stores_as_it_goes", (NEXT, f"{NEXT}                memory.store(head, row, acc, m)\n")), BYTES),
    (change("keeps_tiles", ("    for head in range(shape.q_heads):\n", f"    {KEPT}"),
            ("memory.load_k(head", "kept(load_k, head"), ("memory.load_v(head", "kept(load_v, head")), BYTES),
    (change("last_tile_left_out", (LOAD_Q, f"            if end - row < tile_q and row:\n                continue\n{LOAD_Q}")),
     VALUES | BYTES),
]  # fmt: skip
RIGHT = [a_walk, parts_that_are_merged, rows_as_floats, without_queries_that_see_nothing, by_transposes, planned_and_mixed]
