"""Answers to exercise 2.2. Each holds its kernel, and imports what a cell would import, so that it can be judged alone."""

import torch

from ..spoiling import spoiled


def by_rows(scores, values):
    import triton
    import triton.language as tl

    @triton.jit
    def rows_kernel(scores_ptr, values_ptr, out_ptr, lse_ptr, n, row_stride, BLOCK: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        m = tl.full((), float("-inf"), tl.float32)
        l = tl.full((), 0.0, tl.float32)
        acc = tl.full((), 0.0, tl.float32)
        for start in range(0, n, BLOCK):
            key = start + tl.arange(0, BLOCK)
            live = key < n
            s = tl.load(scores_ptr + row * row_stride + key, mask=live, other=float("-inf")).to(tl.float32)
            v = tl.load(values_ptr + key, mask=live, other=0.0).to(tl.float32)
            s = s * 1.4426950408889634
            larger = tl.maximum(m, tl.max(s, 0))
            base = tl.where(larger == float("-inf"), 0.0, larger)
            old = tl.exp2(m - base)
            p = tl.exp2(s - base)
            l = l * old + tl.sum(p, 0)
            acc = acc * old + tl.sum(tl.where(p > 0, p * v, 0.0), 0)
            m = larger
        some = l > 0
        tl.store(out_ptr + row, acc / tl.where(some, l, 1.0))
        tl.store(lse_ptr + row, tl.where(some, (m + tl.log2(tl.where(some, l, 1.0))) * 0.6931471805599453, float("-inf")))

    rows, n = scores.shape
    out = torch.empty(rows, dtype=torch.float32, device=scores.device)
    lse = torch.empty(rows, dtype=torch.float32, device=scores.device)
    rows_kernel[(rows,)](scores, values, out, lse, n, scores.stride(0), BLOCK=2048)
    return out, lse


def a_state_for_each_lane(scores, values):
    """Nothing is reduced inside the loop: every lane keeps a partial of its own, and they meet at the end. e in place of 2."""
    import triton
    import triton.language as tl

    @triton.jit
    def lanes_kernel(scores_ptr, values_ptr, out_ptr, lse_ptr, n, row_stride, BLOCK: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        lane = tl.arange(0, BLOCK)
        m = tl.full((BLOCK,), float("-inf"), tl.float32)
        l = tl.zeros((BLOCK,), tl.float32)
        acc = tl.zeros((BLOCK,), tl.float32)
        for start in range(0, n, BLOCK):
            live = start + lane < n
            s = tl.load(scores_ptr + row * row_stride + start + lane, mask=live, other=float("-inf")).to(tl.float32)
            v = tl.load(values_ptr + start + lane, mask=live & (s > float("-inf")), other=0.0).to(tl.float32)
            larger = tl.maximum(m, s)
            base = tl.where(larger > float("-inf"), larger, 0.0)
            old, p = tl.exp(m - base), tl.exp(s - base)
            l = l * old + p
            acc = acc * old + p * v
            m = larger
        top = tl.max(m, 0)
        weight = tl.exp(m - tl.where(top > float("-inf"), top, 0.0))
        total = tl.sum(weight * l, 0)
        mean = tl.sum(weight * acc, 0) / tl.where(total > 0, total, 1.0)
        tl.store(out_ptr + row, mean)
        tl.store(lse_ptr + row, tl.where(total > 0, top + tl.log(tl.where(total > 0, total, 1.0)), float("-inf")))

    out = scores.new_empty(scores.shape[0], dtype=torch.float32)
    lse = torch.empty_like(out)
    lanes_kernel[(out.numel(),)](scores, values, out, lse, scores.shape[1], scores.stride(0), BLOCK=1024)
    return out, lse


def several_rows_a_program(scores, values):
    """Four rows share the values that a program loads."""
    import triton
    import triton.language as tl

    @triton.jit
    def tile_kernel(s_ptr, v_ptr, o_ptr, e_ptr, rows, n, stride, ROWS: tl.constexpr, BLOCK: tl.constexpr):
        row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
        real = row < rows
        start_of_row = row.to(tl.int64) * stride
        best = tl.full((ROWS,), float("-inf"), tl.float32)
        total = tl.zeros((ROWS,), tl.float32)
        acc = tl.zeros((ROWS,), tl.float32)
        for start in range(0, n, BLOCK):
            key = start + tl.arange(0, BLOCK)
            inside = real[:, None] & (key < n)[None, :]
            s = tl.load(s_ptr + start_of_row[:, None] + key[None, :], mask=inside, other=float("-inf")).to(tl.float32)
            v = tl.load(v_ptr + key, mask=key < n, other=0.0).to(tl.float32)
            new = tl.maximum(best, tl.max(s, 1))
            shift = tl.where(new == float("-inf"), 0.0, new)
            p = tl.exp2((s - shift[:, None]) * 1.4426950408889634)
            rescale = tl.exp2((best - shift) * 1.4426950408889634)
            total = total * rescale + tl.sum(p, 1)
            acc = acc * rescale + tl.sum(p * tl.where(p > 0, v[None, :], 0.0), 1)
            best = new
        none = total == 0
        safe = tl.where(none, 1.0, total)
        tl.store(o_ptr + row, acc / safe, mask=real)
        tl.store(e_ptr + row, tl.where(none, float("-inf"), best + tl.log(safe)), mask=real)

    rows, n = scores.shape
    out, lse = (torch.empty(rows, device=scores.device) for _ in range(2))
    tile_kernel[(triton.cdiv(rows, 4),)](scores, values, out, lse, rows, n, scores.stride(0), ROWS=4, BLOCK=512)
    return out, lse


def parts_of_a_row(scores, values):
    """Split-KV: each program attends to 2048 keys, a second kernel merges the parts of a row."""
    import triton
    import triton.language as tl

    @triton.jit
    def part_kernel(scores_ptr, values_ptr, m_ptr, l_ptr, acc_ptr, n, row_stride, parts, BLOCK: tl.constexpr):
        row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
        key = part * BLOCK + tl.arange(0, BLOCK)
        s = tl.load(scores_ptr + row * row_stride + key, mask=key < n, other=float("-inf")).to(tl.float32)
        m = tl.max(s, 0)
        p = tl.exp(s - tl.where(m == float("-inf"), 0.0, m))
        v = tl.load(values_ptr + key, mask=key < n, other=0.0).to(tl.float32)
        at = row * parts + part
        tl.store(m_ptr + at, m)
        tl.store(l_ptr + at, tl.sum(p, 0))
        tl.store(acc_ptr + at, tl.sum(tl.where(p > 0, p * v, 0.0), 0))

    @triton.jit
    def merge_kernel(m_ptr, l_ptr, acc_ptr, out_ptr, lse_ptr, parts, PARTS: tl.constexpr):
        row = tl.program_id(0)
        part = tl.arange(0, PARTS)
        m = tl.load(m_ptr + row * parts + part, mask=part < parts, other=float("-inf"))
        top = tl.max(m, 0)
        weight = tl.exp(m - tl.where(top == float("-inf"), 0.0, top))
        l = tl.sum(weight * tl.load(l_ptr + row * parts + part, mask=part < parts, other=0.0), 0)
        acc = tl.sum(weight * tl.load(acc_ptr + row * parts + part, mask=part < parts, other=0.0), 0)
        tl.store(out_ptr + row, acc / tl.where(l > 0, l, 1.0))
        tl.store(lse_ptr + row, tl.where(l > 0, top + tl.log(tl.where(l > 0, l, 1.0)), float("-inf")))

    rows, n = scores.shape
    parts = triton.cdiv(n, 2048)
    m, l, acc = torch.empty(3, rows, parts, device=scores.device)
    out, lse = torch.empty(2, rows, device=scores.device)
    part_kernel[(rows, parts)](scores, values, m, l, acc, n, scores.stride(0), parts, BLOCK=2048)
    merge_kernel[(rows,)](m, l, acc, out, lse, parts, PARTS=triton.next_power_of_2(parts))
    return out, lse


def tail_apart(scores, values):
    """Whole blocks without a mask, then the rest with one; pointers move, and a block adjusts to short rows."""
    import triton
    import triton.language as tl

    @triton.jit
    def tail_kernel(s_ptr, v_ptr, result_ptr, n, stride, rows, BLOCK: tl.constexpr):
        row = tl.program_id(0)
        s_ptr += row.to(tl.int64) * stride
        lane = tl.arange(0, BLOCK)
        m = tl.full([], float("-inf"), tl.float32)
        l = tl.full([], 0, tl.float32)
        acc = tl.full([], 0, tl.float32)
        whole = n // BLOCK * BLOCK
        for start in tl.range(0, whole, BLOCK, num_stages=3):
            s = tl.load(s_ptr + start + lane).to(tl.float32) * 1.4426950408889634
            v = tl.where(s == float("-inf"), 0.0, tl.load(v_ptr + start + lane).to(tl.float32))
            new = tl.maximum(m, tl.max(s, axis=0))
            safe = tl.maximum(new, -3.0e38)
            a = tl.exp2(m - safe)
            p = tl.exp2(s - safe)
            l, acc, m = a * l + tl.sum(p, axis=0), a * acc + tl.sum(p * v, axis=0), new
        if whole < n:
            rest = lane < n - whole
            s = tl.load(s_ptr + whole + lane, mask=rest, other=float("-inf")).to(tl.float32) * 1.4426950408889634
            v = tl.load(v_ptr + whole + lane, mask=rest & (s > float("-inf")), other=0).to(tl.float32)
            new = tl.maximum(m, tl.max(s, axis=0))
            safe = tl.maximum(new, -3.0e38)
            a = tl.exp2(m - safe)
            p = tl.exp2(s - safe)
            l, acc, m = a * l + tl.sum(p, axis=0), a * acc + tl.sum(p * v, axis=0), new
        tl.store(result_ptr + row, tl.where(l > 0, acc / l, 0.0))
        tl.store(result_ptr + rows + row, tl.where(l > 0, (m + tl.log2(l)) / 1.4426950408889634, float("-inf")))

    rows, n = scores.shape
    result = torch.empty((2, rows), dtype=torch.float32, device=scores.device)
    block = min(4096, max(16, triton.next_power_of_2(n)))
    tail_kernel[(rows,)](scores, values, result, n, scores.stride(0), rows, BLOCK=block, num_warps=8)
    return result[0], result[1]


def a_fold_of_lanes(scores, values):
    """Every key is a partial (s, 1, v): lanes fold theirs with one function, and tl.reduce folds the lanes with the same one."""
    import triton
    import triton.language as tl

    @triton.jit
    def join(ma, la, aa, mb, lb, ab):
        m = tl.maximum(ma, mb)
        reference = tl.maximum(m, -3.0e38)
        fa = tl.exp(ma - reference)
        fb = tl.exp(mb - reference)
        return m, la * fa + lb * fb, aa * fa + ab * fb

    @triton.jit
    def fold_kernel(s_ptr, v_ptr, result_ptr, rows, n, stride, LANES: tl.constexpr):
        r = tl.program_id(0)
        line = s_ptr + tl.cast(r, tl.int64) * stride
        m = tl.full((LANES,), float("-inf"), tl.float32)
        l = tl.zeros((LANES,), tl.float32)
        a = tl.zeros((LANES,), tl.float32)
        for step in range(tl.cdiv(n, LANES)):
            j = step * LANES + tl.arange(0, LANES)
            s = tl.load(line + j, mask=j < n, other=float("-inf")).to(tl.float32)
            seen = s > float("-inf")
            v = tl.load(v_ptr + j, mask=seen, other=0.0).to(tl.float32)
            m, l, a = join(m, l, a, s, tl.where(seen, 1.0, 0.0), v)
        m, l, a = tl.reduce((m, l, a), 0, join)
        none = l == 0.0
        l = l + tl.where(none, 1.0, 0.0)
        tl.store(result_ptr + r, a / l)
        tl.store(result_ptr + rows + r, tl.where(none, m, m + tl.log(l)))

    values = values.contiguous()  # it is, so that this copies nothing
    result = torch.empty((2, scores.size(0)), dtype=torch.float32, device=scores.device)
    sizes = (scores.size(0), scores.size(1), scores.stride(0))
    fold_kernel[(scores.size(0),)](scores, values, result, *sizes, LANES=1024, num_warps=4)
    return result[0], result[1]


def three_passes(scores, values):
    """Right, but each score is loaded three times: for the maximum, the sum, the weighted values."""
    import triton
    import triton.language as tl

    @triton.jit
    def passes_kernel(scores_ptr, values_ptr, out_ptr, lse_ptr, n, row_stride, BLOCK: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        scores_ptr += row * row_stride
        lane = tl.arange(0, BLOCK)
        m = tl.full((), float("-inf"), tl.float32)
        for start in range(0, n, BLOCK):
            s = tl.load(scores_ptr + start + lane, mask=start + lane < n, other=float("-inf")).to(tl.float32)
            m = tl.maximum(m, tl.max(s, 0))
        base = tl.where(m == float("-inf"), 0.0, m)
        l = tl.full((), 0.0, tl.float32)
        for start in range(0, n, BLOCK):
            s = tl.load(scores_ptr + start + lane, mask=start + lane < n, other=float("-inf")).to(tl.float32)
            l += tl.sum(tl.exp(s - base), 0)
        acc = tl.full((), 0.0, tl.float32)
        for start in range(0, n, BLOCK):
            s = tl.load(scores_ptr + start + lane, mask=start + lane < n, other=float("-inf")).to(tl.float32)
            v = tl.load(values_ptr + start + lane, mask=(start + lane < n) & (s > float("-inf")), other=0.0).to(tl.float32)
            acc += tl.sum(tl.exp(s - base) * v, 0)
        tl.store(out_ptr + row, acc / tl.where(l > 0, l, 1.0))
        tl.store(lse_ptr + row, tl.where(l > 0, base + tl.log(tl.where(l > 0, l, 1.0)), float("-inf")))

    rows, n = scores.shape
    out, lse = (torch.empty(rows, dtype=torch.float32, device=scores.device) for _ in range(2))
    passes_kernel[(rows,)](scores, values, out, lse, n, scores.stride(0), BLOCK=2048)
    return out, lse


def zeros(scores, values):
    return torch.zeros(scores.shape[0]), torch.zeros(scores.shape[0])


def by_torch(scores, values):
    scores = scores.float()
    lse = torch.logsumexp(scores, 1)
    weights = torch.exp(scores - torch.where(lse == -torch.inf, 0.0, lse)[:, None])
    return torch.where(weights > 0, weights * values.float(), 0.0).sum(1), lse


ALL = {"rows", "masked keys", "large scores", "rows apart", "traffic", "compiled"}
LSE = "(m + tl.log2(tl.where(some, l, 1.0))) * 0.6931471805599453"


def change(name, *changes):
    return spoiled(by_rows, name, *changes)


l_is_not_rescaled = change("l_is_not_rescaled", ("l = l * old + ", "l = l + "))
acc_is_not_rescaled = change("acc_is_not_rescaled", ("acc = acc * old + ", "acc = acc + "))
maximum_of_the_block = change("maximum_of_the_block", ("tl.maximum(m, tl.max(s, 0))", "tl.max(s, 0)"))
starts_at_zero = change("starts_at_zero", ('m = tl.full((), float("-inf"), tl.float32)', "m = tl.full((), 0.0, tl.float32)"))
no_guard = change("no_guard", ('tl.where(larger == float("-inf"), 0.0, larger)', "larger"))
zero_times_nan = change("zero_times_nan", ("tl.where(p > 0, p * v, 0.0)", "p * v"))
pads_with_zero = change("pads_with_zero", ('mask=live, other=float("-inf"))', "mask=live, other=0.0)"))
no_mask = change("no_mask", ('mask=live, other=float("-inf"))', "mask=key < n + BLOCK)"))
stride_ignored = change("stride_ignored", ("row * row_stride", "row * n"))
first_block_only = change("first_block_only", ("range(0, n, BLOCK)", "range(0, BLOCK, BLOCK)"))
base_two = change("base_two", ("            s = s * 1.4426950408889634\n", ""))
lse_in_base_two = change("lse_in_base_two", (LSE, LSE.removesuffix(" * 0.6931471805599453")))
lse_without_maximum = change("lse_without_maximum", (LSE, LSE.replace("m + ", "")))
not_divided = change("not_divided", ("acc / tl.where(some, l, 1.0)", "acc"))
empty_is_nan = change("empty_is_nan", ("acc / tl.where(some, l, 1.0)", "acc / l"))
l_in_half = change("l_in_half", ("l = l * old + tl.sum(p, 0)", "l = (l * old + tl.sum(p, 0)).to(tl.bfloat16).to(tl.float32)"))
without_maximum = change("lse_without_maximum", (LSE, LSE.replace("m + ", "")))
not_divided = change("not_divided", ("acc / tl.where(some, l, 1.0)", "acc"))
empty_is_nan = change("empty_is_nan", ("acc / tl.where(some, l, 1.0)", "acc / l"))
sums_in_half = change("sums_in_half", ("p = tl.exp2(s - base)", "p = tl.exp2(s - base).to(tl.float16).to(tl.float32)"))
without_maximum = change(
    "without_maximum", ("larger = tl.maximum(m, tl.max(s, 0))", "larger = tl.maximum(tl.full((), 0.0, tl.float32), m)")
)
OUT = "out = torch.empty(rows, dtype="
results_in_the_dtype = change("results_in_the_dtype", (OUT + "torch.float32", OUT + "scores.dtype"))
one_row_short = change("one_row_short", ("[(rows,)]", "[(max(rows - 1, 1),)]"))
one_by_one = change("one_by_one", ("BLOCK=2048", "BLOCK=128"))
two_passes = spoiled(three_passes, "two_passes", (
    """        l = tl.full((), 0.0, tl.float32)
        for start in range(0, n, BLOCK):
            s = tl.load(scores_ptr + start + lane, mask=start + lane < n, other=float("-inf")).to(tl.float32)
            l += tl.sum(tl.exp(s - base), 0)
        acc =""", "        l = tl.full((), 0.0, tl.float32)\n        acc ="),
    ("            acc += ", "            l += tl.sum(tl.exp(s - base), 0)\n            acc += "))  # fmt: skip
IN_TORCH = """scores = scores.float()
    lse = torch.logsumexp(scores, 1)
    weights = torch.exp(scores - torch.where(lse == -torch.inf, 0.0, lse)[:, None])
    return torch.where(weights > 0, weights * values.float(), 0.0).sum(1), lse"""
GUARD = 'tl.where(larger == float("-inf"), 0.0, larger)'
base_from_ten_thousand_down = change("base_from_ten_thousand_down", (GUARD, "tl.maximum(larger, -14427.0)"))
base_from_a_hundred_thousand_down = change("base_from_a_hundred_thousand_down", (GUARD, "tl.maximum(larger, -144270.0)"))
lse_in_two_bases = change("lse_in_two_bases", (LSE, "m + tl.log(tl.where(some, l, 1.0))"))
ROW_LENGTH = "rows, n = scores.shape"
clones = change("clones", (ROW_LENGTH, f"scores, values = scores.clone(), values.clone()\n    {ROW_LENGTH}"))
makes_contiguous = change("makes_contiguous", (ROW_LENGTH, f"scores = scores.contiguous()\n    {ROW_LENGTH}"))
there_and_back = change("there_and_back", (ROW_LENGTH, f"scores, values = scores * 2 * 0.5, -(-values)\n    {ROW_LENGTH}"))
converts = change("converts", (ROW_LENGTH, f"scores, values = scores.float(), values.float()\n    {ROW_LENGTH}"))
sums_in_the_dtype = change(
    "sums_in_the_dtype",
    ('mask=live, other=0.0).to(tl.float32)', "mask=live, other=0.0)"),
    ("p = tl.exp2(s - base)", "p = tl.exp2(s - base).to(v.dtype)"),
    ("l = l * old + tl.sum(p, 0)", "l = (l * old + tl.sum(p, 0)).to(tl.float32)"),
    ("acc = acc * old + tl.sum(tl.where(p > 0, p * v, 0.0), 0)",
     "acc = (acc * old + tl.sum(tl.where(p > 0, p * v, 0.0).to(v.dtype), 0)).to(tl.float32)"),
)  # fmt: skip
dummy_kernel = change("dummy_kernel", ("return out, lse", IN_TORCH))

# each of the others costs a process for its launches: tests/exercises/test_attend_rows_answers.py judges them together
WRONG = [(zeros, ALL), (three_passes, {"traffic"}), (no_guard, {"masked keys"}), (one_by_one, {"compiled"})]
SHORT = ALL - {"compiled"}  # where the one row is a whole number of blocks
LONG_ROWS = {"rows", "masked keys", "traffic", "compiled"}
MORE_WRONG = [
    (by_torch, ALL),
    (dummy_kernel, ALL),
    (two_passes, {"traffic"}),
    (l_is_not_rescaled, LONG_ROWS),
    (acc_is_not_rescaled, LONG_ROWS),
    (first_block_only, LONG_ROWS),
    (maximum_of_the_block, {"masked keys"}),
    (starts_at_zero, {"large scores"}),
    (without_maximum, {"large scores"}),
    (base_from_ten_thousand_down, {"large scores"}),
    (base_from_a_hundred_thousand_down, {"large scores"}),
    (lse_in_two_bases, ALL),
    (clones, ALL),
    (there_and_back, ALL),
    (makes_contiguous, {"rows apart"}),
    (converts, {"rows", "masked keys", "large scores", "traffic", "compiled"}),
    (sums_in_the_dtype, {"rows", "masked keys", "traffic", "compiled"}),
    (zero_times_nan, {"masked keys"}),
    (empty_is_nan, {"masked keys"}),
    (pads_with_zero, SHORT),
    (no_mask, SHORT),
    (one_row_short, SHORT),
    (stride_ignored, {"rows apart"}),
    (base_two, ALL),
    (lse_in_base_two, ALL),
    (lse_without_maximum, ALL),
    (not_divided, ALL),
    (l_in_half, ALL - {"large scores"}),
    (results_in_the_dtype, {"rows", "masked keys", "large scores", "compiled"}),
]
RIGHT = [by_rows, several_rows_a_program]
MORE_RIGHT = [a_state_for_each_lane, parts_of_a_row, tail_apart, a_fold_of_lanes]
