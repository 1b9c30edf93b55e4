"""Answers to exercise 2.1. Each function stands alone: its source is also judged in a process of its own."""

import math

import torch

from ..spoiling import spoiled

KEYS, GROUPS, EMPTY, UNWRITTEN, LARGE = "keys", "groups", "empty parts", "unwritten memory", "large scores"
ALL = {KEYS, GROUPS, EMPTY, UNWRITTEN, LARGE}


def all_at_once(m, l, acc):
    """Right: the parts' weights, zero where there is no key."""
    largest = m.amax(0)
    weight = torch.where(m == -torch.inf, 0.0, torch.exp(m - largest))
    total = torch.where(weight > 0, weight * l, 0.0).sum(0)
    merged = torch.where(weight[..., None] > 0, weight[..., None] * acc, 0.0).sum(0)
    return largest, total, merged


def one_after_the_other(m, l, acc):
    """Right: the running state of online softmax, rescaled when a larger score comes."""
    state_m = torch.full_like(m[0], -torch.inf)
    state_l = torch.zeros_like(l[0])
    state_acc = torch.zeros_like(acc[0])
    for part_m, part_l, part_acc in zip(m, l, acc, strict=True):
        live = part_m > -torch.inf
        new_m = torch.maximum(state_m, part_m)
        base = torch.where(new_m == -torch.inf, 0.0, new_m)
        old, new = torch.exp(state_m - base), torch.exp(part_m - base)
        state_l = old * state_l + torch.where(live, new * part_l, 0)
        state_acc = old[:, None] * state_acc + torch.where(live[:, None], new[:, None] * part_acc, 0)
        state_m = new_m
    return state_m, state_l, state_acc


def row_by_row(m, l, acc):
    """Right: floats, rows and a dict, the slow way."""
    parts, rows, dim = acc.shape
    out_m, out_l, out_acc = torch.full((rows,), -math.inf), torch.zeros(rows), torch.zeros(rows, dim)
    for row in range(rows):
        scores = {part: float(m[part, row]) for part in range(parts) if float(m[part, row]) != -math.inf}
        if not scores:
            continue
        highest = max(scores.values())
        out_m[row] = highest
        for part, score in scores.items():
            weight = math.exp(score - highest)
            out_l[row] += weight * l[part, row]
            out_acc[row] += weight * acc[part, row]
    return out_m, out_l, out_acc


def in_double_by_softmax(m, l, acc):
    """Right: torch's logsumexp and softmax over parts, in double, and back."""
    dead = torch.isneginf(m)
    m, l, acc = m.double(), l.double().masked_fill(dead, 0), acc.double().masked_fill(dead[:, :, None], 0)
    top = m.max(dim=0).values
    shifted = torch.exp(m - top.clamp(min=-1e300))
    return top.float(), (shifted * l).sum(dim=0).float(), torch.einsum("pr,prd->rd", shifted, acc).float()


def two_at_a_time(m, l, acc):
    """Right: a tree of pairs, as a merge kernel might do it."""
    acc = torch.where(m[..., None] == -torch.inf, torch.zeros_like(acc), acc)
    l = torch.where(m == -torch.inf, torch.zeros_like(l), l)
    states = [(m[i], l[i], acc[i]) for i in range(m.shape[0])]
    while len(states) > 1:
        paired = []
        for i in range(0, len(states) - 1, 2):
            (ma, la, aa), (mb, lb, ab) = states[i], states[i + 1]
            top = torch.maximum(ma, mb)
            safe = torch.nan_to_num(top, neginf=0.0)
            a, b = torch.exp(ma - safe), torch.exp(mb - safe)
            paired.append((top, a * la + b * lb, a.unsqueeze(1) * aa + b.unsqueeze(1) * ab))
        states = paired + states[len(paired) * 2 :]
    return states[0]


def a_fold_of_cleaned_parts(m, l, acc):
    """Right: part by part, l and acc riding side by side in one tensor; nan_to_num for -inf - -inf, and a list comes back."""
    parts, rows = m.shape
    state_m = m.new_full((rows,), float("-inf"))
    sums = acc.new_zeros(rows, 1 + acc.shape[2])
    for i in range(parts):
        seen = m[i].isneginf().logical_not()
        piece = torch.cat((l[i].unsqueeze(1), acc[i]), dim=1).masked_fill(~seen.unsqueeze(1), 0)
        new_m = torch.maximum(state_m, m[i])
        old = (state_m - new_m).nan_to_num(nan=0.0).exp()
        young = (m[i] - new_m).nan_to_num(nan=0.0).exp()
        sums = sums * old.unsqueeze(1) + piece * young.unsqueeze(1)
        state_m = new_m
    return [state_m, sums[:, 0], sums[:, 1:]]


TOTAL = "torch.where(weight > 0, weight * l, 0.0).sum(0)"
MERGED = "torch.where(weight[..., None] > 0, weight[..., None] * acc, 0.0).sum(0)"
WEIGHT = "torch.where(m == -torch.inf, 0.0, torch.exp(m - largest))"


def change(name, *changes):
    return spoiled(all_at_once, name, *changes)


def zeros(m, l, acc):
    return torch.zeros_like(m[0]), torch.zeros_like(l[0]), torch.zeros_like(acc[0])


def first_part(m, l, acc):
    return m[0], l[0], acc[0]


def output_and_not_a_part(m, l, acc):
    weight = torch.softmax(m, 0)
    return m.amax(0), l.sum(0), (weight[..., None] * acc).sum(0)


WRONG = [
    (zeros, ALL),
    (first_part, ALL),
    (output_and_not_a_part, ALL),
    (change("unscaled_sum", (TOTAL, "torch.where(m > -torch.inf, l, 0.0).sum(0)")), ALL),
    (change("unscaled_values", (MERGED, "torch.where(m[..., None] > -torch.inf, acc, 0.0).sum(0)")), ALL),
    (change("divides_at_once", (MERGED, f"{MERGED} / total[:, None]")), ALL),
    (change("counts_parts", (TOTAL, "weight.sum(0)")), {GROUPS}),
    (change("smallest_is_kept", ("m.amax(0)", "m.amin(0)")), ALL),
    (change("without_the_maximum", ("torch.exp(m - largest)", "torch.exp(m) / torch.exp(largest)")), {LARGE}),
    (change("nan_where_all_is_empty", (WEIGHT, "torch.exp(m - largest)"), (TOTAL, "(weight * l).sum(0)"),
            (MERGED, "(weight[..., None] * acc).sum(0)")), {EMPTY, UNWRITTEN}),
    (change("zero_times_nan", (TOTAL, "(weight * l).sum(0)"), (MERGED, "(weight[..., None] * acc).sum(0)")), {UNWRITTEN}),
    (change("weights_l_but_not_acc_of_dead", (TOTAL, "(weight * l).sum(0)")), {UNWRITTEN}),
    (change("a_finite_mask", ("largest = m.amax(0)", "m = m.clamp(min=-1e4)\n    largest = m.amax(0)")),
     {EMPTY, UNWRITTEN, LARGE}),
    (change("base_from_ten_thousand_down", (WEIGHT, "torch.exp(m - largest.clamp(min=-1e4))")), {LARGE}),
    (change("base_from_a_hundred_thousand_down", (WEIGHT, "torch.exp(m - largest.clamp(min=-1e5))")), {LARGE}),
    (change("in_double",
            ("largest = m.amax(0)", "m, l, acc = m.double(), l.double(), acc.double()\n    largest = m.amax(0)")), ALL),
    (change("cleans_its_inputs", ("largest = m.amax(0)", "l[m == -torch.inf] = 0\n    largest = m.amax(0)")), {EMPTY, UNWRITTEN}),
    (change("zero_as_the_least_maximum", ("m.amax(0)", "m.amax(0).clamp(min=0.0)")), ALL - {GROUPS}),
    (change("transposed", ("return largest, total, merged", "return largest, total, merged.mT.contiguous()")), ALL),
    (change("in_another_order", ("return largest, total, merged", "return total, largest, merged")), ALL),
    (change("l_of_the_largest_only", (TOTAL, "l.gather(0, m.argmax(0, keepdim=True))[0]")), ALL),
    (change("base_two", ("torch.exp(m - largest)", "torch.exp2(m - largest)")), ALL),
    (change("in_half", (MERGED, "torch.where(weight[..., None] > 0, weight[..., None] * acc, 0.0).half().sum(0).float()")), ALL),
]  # fmt: skip
RIGHT = [all_at_once, one_after_the_other, row_by_row, in_double_by_softmax, two_at_a_time, a_fold_of_cleaned_parts]
