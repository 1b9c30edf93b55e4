"""Answers to exercise 1.5. Each function stands alone: its source is also judged in a process of its own."""

import math

import torch

from ..spoiling import spoiled

CURVE, STEP, FLOOR, TOKENS, LIMIT = "curve", "step", "floor", "tokens", "context limit"
ALL = {CURVE, STEP, FLOOR, TOKENS, LIMIT}


def one_after_another(kernels, curves, peak_tflops, limits):
    """Right: plain floats in loops, the way one does it on paper."""
    peak = peak_tflops * 1e12
    points = {kind: (curve["bytes"].tolist(), curve["seconds"].tolist()) for kind, curve in curves.items()}
    rate = points["read"][0][-1] / points["read"][1][-1]

    def seconds(kind, size):
        sizes, times = points[kind]
        if size <= sizes[0]:
            return times[0]
        if size >= sizes[-1]:
            return size * times[-1] / sizes[-1]
        i = max(k for k in range(len(sizes) - 1) if sizes[k] <= size)
        share = math.log(size / sizes[i]) / math.log(sizes[i + 1] / sizes[i])
        return times[i] * (times[i + 1] / times[i]) ** share

    step, floor, gap, gpu_rate, user_rate, context = [], [], [], [], [], []
    for row, batch in enumerate(kernels["batch"].tolist()):
        t, flops, moved = 0.0, 0.0, 0.0
        columns = [kernels[k][row].tolist() for k in ("flops", "bytes", "count")]
        for f, b, c, is_product in zip(*columns, kernels["is_product"].tolist(), strict=True):
            t += c * max(f / peak, seconds("product" if is_product else "read", b))
            flops += c * f
            moved += c * b
        least = max(flops / peak, moved / rate)
        step.append(t)
        floor.append(least)
        gap.append(t / least)
        gpu_rate.append(batch / t)
        user_rate.append(1 / t)
    for w, kv, group, ridge in zip(*(limits[k].tolist() for k in ("weights", "kv_bytes", "group", "ridge")), strict=True):
        context.append(2 * w / (kv * (ridge - group)) if ridge > group else math.inf)
    names = ("step_seconds", "floor_seconds", "gap", "tokens_per_second", "tokens_per_second_per_user", "context_limit")
    lists = (step, floor, gap, gpu_rate, user_rate, context)
    return {name: torch.tensor(values, dtype=torch.float64) for name, values in zip(names, lists, strict=True)}


def by_searching(kernels, curves, peak_tflops, limits):
    """Right: searchsorted and torch.where, everything as tables."""
    moved = kernels["bytes"]

    def look(curve):
        sizes, seconds = curve["bytes"], curve["seconds"]
        x, y = sizes.log(), seconds.log()
        at = moved.clamp(min=float(sizes[0])).log()
        within = seconds[0].expand(moved.shape)
        if len(x) > 1:
            right = torch.searchsorted(x, at).clamp(1, len(x) - 1)
            slope = (y[right] - y[right - 1]) / (x[right] - x[right - 1])
            within = (y[right - 1] + slope * (at - x[right - 1])).exp()
        return torch.where(moved > sizes[-1], moved * seconds[-1] / sizes[-1], within)

    memory = torch.where(kernels["is_product"], look(curves["product"]), look(curves["read"]))
    rate = curves["read"]["bytes"][-1] / curves["read"]["seconds"][-1]
    each = torch.maximum(memory, kernels["flops"] / peak_tflops / 1e12)
    step = (each * kernels["count"]).sum(-1)
    total = {k: (kernels[k] * kernels["count"]).sum(-1) for k in ("flops", "bytes")}
    floor = torch.maximum(total["flops"] / (peak_tflops * 1e12), total["bytes"] / rate)
    below = limits["ridge"] <= limits["group"]
    context = 2 * limits["weights"] / limits["kv_bytes"] / (limits["ridge"] - limits["group"])
    return {
        "step_seconds": step,
        "floor_seconds": floor,
        "gap": step / floor,
        "tokens_per_second": kernels["batch"] / step,
        "tokens_per_second_per_user": step.reciprocal(),
        "context_limit": context.masked_fill(below, float("inf")),
    }


def through_numpy(kernels, curves, peak_tflops, limits):
    """Right: numpy's interp on logarithms; the ends need care, and 0 bytes have no logarithm."""
    import numpy as np

    moved, flops, count = (kernels[k].numpy() for k in ("bytes", "flops", "count"))
    memory = {}
    for kind, curve in curves.items():
        sizes, times = curve["bytes"].numpy(), curve["seconds"].numpy()
        inside = np.exp(np.interp(np.log(np.maximum(moved, sizes[0])), np.log(sizes), np.log(times)))
        memory[kind] = np.where(moved > sizes[-1], times[-1] * moved / sizes[-1], inside)
    each = np.where(kernels["is_product"].numpy(), memory["product"], memory["read"])
    step = np.sum(count * np.maximum(flops / (peak_tflops * 1e12), each), axis=1)
    slowest = float(curves["read"]["seconds"][-1] / curves["read"]["bytes"][-1])
    floor = np.maximum((count * flops).sum(1) / (peak_tflops * 1e12), (count * moved).sum(1) * slowest)
    w, kv, g, r = (limits[k].numpy() for k in ("weights", "kv_bytes", "group", "ridge"))
    with np.errstate(divide="ignore"):
        context = np.where(r > g, 2 * w / kv / (r - g), np.inf)
    out = {"step_seconds": step, "floor_seconds": floor, "gap": step / floor, "context_limit": context}
    out |= {"tokens_per_second": kernels["batch"].numpy() / step, "tokens_per_second_per_user": 1 / step}
    return {name: torch.from_numpy(np.ascontiguousarray(values)) for name, values in out.items()}


def segment_by_segment(kernels, curves, peak_tflops, limits):
    """Right: a power law on every segment, written over the flat start; microseconds and teraflops."""
    moved = kernels["bytes"]
    memory = torch.empty_like(moved)
    for column, is_product in enumerate(kernels["is_product"]):
        curve = curves["product" if is_product else "read"]
        size, us, here = curve["bytes"], curve["seconds"] * 1e6, moved[:, column]
        looked = torch.full(here.shape, float(us[0]), dtype=torch.float64)
        for i in range(size.numel() - 1):
            power = (us[i + 1].log2() - us[i].log2()) / (size[i + 1].log2() - size[i].log2())
            inside = (here >= size[i]) & (here <= size[i + 1])
            looked[inside] = us[i] * (here[inside] / size[i]).pow(power)
        beyond = here > size[-1]
        looked[beyond] = here[beyond] * (us[-1] / size[-1])
        memory[:, column] = looked
    compute = kernels["flops"] * 1e-6 / peak_tflops
    step = torch.einsum("bk,bk->b", kernels["count"], torch.maximum(memory, compute)) * 1e-6
    f, b = (torch.einsum("bk,bk->b", kernels["count"], kernels[k]) for k in ("flops", "bytes"))
    read = curves["read"]
    floor = torch.stack([f * 1e-12 / peak_tflops, b * (read["seconds"][-1] / read["bytes"][-1])]).amax(0)
    room = limits["kv_bytes"] * (limits["ridge"] - limits["group"]).clamp(min=0)
    user = 1 / step
    return {
        "context_limit": limits["weights"].mul(2) / room, "gap": step / floor, "floor_seconds": floor, "step_seconds": step,
        "tokens_per_second": user * kernels["batch"], "tokens_per_second_per_user": user,
    }  # fmt: skip


def curves_with_two_more_points(kernels, curves, peak_tflops, limits):
    """Right: a point far to the left (the same time) and one far to the right (the same rate), and no case is special."""

    def longer(curve):
        least, most = torch.tensor([1e-3], dtype=torch.float64), torch.tensor([1e24], dtype=torch.float64)
        last_rate = curve["bytes"][-1:] / curve["seconds"][-1:]
        sizes = torch.cat((least, curve["bytes"], most))
        return sizes.log10(), torch.cat((curve["seconds"][:1], curve["seconds"], most / last_rate)).log10()

    at = kernels["bytes"].clamp(min=1e-3).log10()
    seconds = torch.empty_like(at)
    for kind, wanted in (("read", ~kernels["is_product"]), ("product", kernels["is_product"])):
        x, y = longer(curves[kind])
        here = at[:, wanted]
        left = (here[..., None] >= x).sum(-1) - 1  # points at or before it; no search
        part = (here - x[left]) / (x[left + 1] - x[left])
        seconds[:, wanted] = 10 ** torch.lerp(y[left], y[left + 1], part)
    work = kernels["flops"] / (1e12 * peak_tflops)
    step = torch.where(work > seconds, work, seconds).mul(kernels["count"]).sum(dim=1)
    last = {name: float(values[-1]) for name, values in curves["read"].items()}
    totals = {name: (kernels["count"] * kernels[name]).sum(dim=1) for name in ("flops", "bytes")}
    floor = torch.maximum(totals["flops"] / (1e12 * peak_tflops), totals["bytes"] / last["bytes"] * last["seconds"])
    tokens_of_weights = 2 * limits["weights"] / limits["kv_bytes"]
    distance = limits["ridge"] - limits["group"]
    limit = torch.full_like(distance, math.inf)
    limit[distance > 0] = tokens_of_weights[distance > 0] / distance[distance > 0]
    return {
        "step_seconds": step,
        "floor_seconds": floor,
        "gap": step / floor,
        "tokens_per_second": kernels["batch"] / step,
        "tokens_per_second_per_user": torch.ones_like(step) / step,
        "context_limit": limit,
    }


def zeros(kernels, curves, peak_tflops, limits):
    none = torch.zeros(len(kernels["batch"]), dtype=torch.float64)
    out = {name: none.clone() for name in ("step_seconds", "floor_seconds", "gap", "tokens_per_second")}
    return out | {"tokens_per_second_per_user": none.clone(), "context_limit": torch.zeros_like(limits["ridge"])}


def ones(kernels, curves, peak_tflops, limits):
    """A step of one second makes the tokens right and nothing else."""
    one = torch.ones(len(kernels["batch"]), dtype=torch.float64)
    out = {name: one.clone() for name in ("step_seconds", "floor_seconds", "gap", "tokens_per_second_per_user")}
    return out | {"tokens_per_second": kernels["batch"].clone(), "context_limit": torch.ones_like(limits["ridge"])}


def the_input(kernels, curves, peak_tflops, limits):
    return kernels


def only_the_steps(kernels, curves, peak_tflops, limits):
    return kernels["bytes"].sum(1)


def slip(name, *changes):
    return spoiled(by_searching, name, *changes)


MEMORY = "torch.where(moved > sizes[-1], moved * seconds[-1] / sizes[-1], within)"
KIND = 'torch.where(kernels["is_product"], look(curves["product"]), look(curves["read"]))'
EACH = "torch.maximum(memory, kernels[\"flops\"] / peak_tflops / 1e12)"
SUM = "step = (each * kernels[\"count\"]).sum(-1)"
FLOOR_LINE = 'torch.maximum(total["flops"] / (peak_tflops * 1e12), total["bytes"] / rate)'
OTHER_RATE = "(curves['product']['bytes'][-1] / curves['product']['seconds'][-1])"
GPU_RATE, USER_RATE = '"tokens_per_second": kernels["batch"] / step', "step.reciprocal()"
CONTEXT = '2 * limits["weights"] / limits["kv_bytes"] / (limits["ridge"] - limits["group"])'
BELOW = 'limits["ridge"] <= limits["group"]'
INTERPOLATED = "(y[right - 1] + slope * (at - x[right - 1])).exp()"

WRONG = [
    (zeros, ALL),
    (ones, {CURVE, STEP, FLOOR, LIMIT}),
    (the_input, ALL),
    (only_the_steps, ALL),
    # the plain floor given out as a prediction: what the exercise is there to improve on
    (slip("floor_only", ("    below =", "    step = floor\n    below =")), {CURVE, STEP}),
    # the curves
    (slip("reads_for_everything", (KIND, 'look(curves["read"])')), {CURVE, STEP}),
    (slip("curves_swapped", (KIND, KIND.replace("where(", "where(~"))), {CURVE, STEP}),
    (slip("one_bandwidth", (MEMORY, "moved * seconds[-1] / sizes[-1]")), {CURVE, STEP}),
    (slip("line_of_seconds", (INTERPOLATED, (
        "seconds[right - 1] + (seconds[right] - seconds[right - 1]) * "
        "(at.exp() - sizes[right - 1]) / (sizes[right] - sizes[right - 1])"))), {CURVE, STEP}),
    (slip("line_of_bandwidth", (INTERPOLATED, (
        "at.exp() / ((sizes / seconds)[right - 1] + (at.exp() - sizes[right - 1]) * "
        "((sizes / seconds)[right] - (sizes / seconds)[right - 1]) / (sizes[right] - sizes[right - 1]))"))), {CURVE, STEP}),
    (slip("line_of_seconds_over_log", (INTERPOLATED, (
        "seconds[right - 1] + (seconds[right] - seconds[right - 1]) * "
        "(at - x[right - 1]) / (x[right] - x[right - 1])"))), {CURVE, STEP}),
    (slip("line_of_bandwidth_over_log", (INTERPOLATED, (
        "at.exp() / ((x - y).exp()[right - 1] + (at - x[right - 1]) * "
        "((x - y).exp()[right] - (x - y).exp()[right - 1]) / (x[right] - x[right - 1]))"))), {CURVE, STEP}),
    (slip("nothing_below_the_first_point", (MEMORY, f"({MEMORY}).masked_fill(moved < sizes[0], 0.0)")), {CURVE, STEP}),
    (slip("rate_below_the_first_point", (MEMORY, f"({MEMORY}) * (moved / sizes[0]).clamp(max=1)")), {CURVE, STEP}),
    (slip("line_goes_on_below", ("moved.clamp(min=float(sizes[0]))", "moved.clamp(min=1.0)")), {CURVE, STEP}),
    (slip("line_goes_on_beyond", (MEMORY, "within")), {CURVE, STEP}),
    (slip("flat_beyond", (MEMORY, "torch.where(moved > sizes[-1], seconds[-1], within)")), {CURVE, STEP}),
    (slip("one_point_is_an_error", ("len(x) > 1", "True")), {CURVE}),
    # the step
    (slip("max_of_sums", (SUM, (
        "step = torch.maximum((memory * kernels['count']).sum(-1), "
        "(kernels['flops'] * kernels['count']).sum(-1) / peak_tflops / 1e12)"))), {STEP}),
    (slip("sum_of_both", (EACH, "memory + kernels['flops'] / peak_tflops / 1e12")), {CURVE, STEP}),
    (slip("memory_only", (EACH, "memory * 1.0")), {STEP}),
    (slip("count_ignored", (SUM, "step = each.sum(-1)")), {STEP}),
    (slip("calls_as_one_large_kernel", ('    moved = kernels["bytes"]', '    moved = kernels["bytes"] * kernels["count"]'),
          (EACH, "torch.maximum(memory, kernels['flops'] * kernels['count'] / peak_tflops / 1e12)"),
          (SUM, "step = each.sum(-1)")), {STEP}),
    (slip("peak_not_in_flops", ("peak_tflops / 1e12", "peak_tflops")), {CURVE, STEP}),
    (slip("in_single_precision", (SUM, "step = (each * kernels['count']).float().sum(-1).double()")), {CURVE, STEP}),
    # the floor
    (slip("floor_adds", (FLOOR_LINE, "total['flops'] / (peak_tflops * 1e12) + total['bytes'] / rate")), {FLOOR}),
    (slip("floor_kernel_by_kernel", (FLOOR_LINE, (
        "(torch.maximum(kernels['flops'] / (peak_tflops * 1e12), moved / rate) * kernels['count']).sum(-1)"))), {FLOOR}),
    (slip("floor_without_counts", (FLOOR_LINE, (
        "torch.maximum(kernels['flops'].sum(-1) / (peak_tflops * 1e12), moved.sum(-1) / rate)"))), {FLOOR}),
    (slip("floor_of_memory_only", (FLOOR_LINE, "total['bytes'] / rate")), {FLOOR}),
    (slip("floor_at_the_products_rate", (FLOOR_LINE, FLOOR_LINE.replace("rate", OTHER_RATE))), {FLOOR}),
    (slip("floor_at_the_fastest_rate", (FLOOR_LINE, FLOOR_LINE.replace(
        "rate", "(curves['read']['bytes'] / curves['read']['seconds']).max()"))), {FLOOR}),
    (slip("peak_in_gigaflops", (FLOOR_LINE, FLOOR_LINE.replace("1e12", "1e9"))), {FLOOR}),
    (slip("gap_upside_down", ('"gap": step / floor', '"gap": floor / step')), {FLOOR}),
    # tokens
    (slip("users_and_gpu_swapped", (GPU_RATE, '"tokens_per_second": 1 / step'),
          (USER_RATE, 'kernels["batch"] / step')), {TOKENS}),
    (slip("tokens_at_the_floor", (GPU_RATE, GPU_RATE.replace("step", "floor")), (USER_RATE, "floor.reciprocal()")), {TOKENS}),
    # the limit
    (slip("no_group", (CONTEXT, '2 * limits["weights"] / limits["kv_bytes"] / limits["ridge"]')), {LIMIT}),
    (slip("a_two_forgotten", (CONTEXT, CONTEXT.removeprefix("2 * "))), {LIMIT}),
    (slip("limit_upside_down", (CONTEXT, f"1 / ({CONTEXT})")), {LIMIT}),
    (slip("negative_limits", (BELOW, 'limits["ridge"] == limits["group"]')), {LIMIT}),
    (slip("whole_tokens", (CONTEXT, f"({CONTEXT}).floor()")), {LIMIT}),
    (slip("no_limit_is_unknown", ('float("inf")', 'float("nan")')), {LIMIT}),
    (slip("ridge_near_the_group_is_no_limit", (BELOW, 'limits["ridge"] <= limits["group"] + 1')), {LIMIT}),
    (slip("changes_its_input", ('    moved = kernels["bytes"]', '    moved = kernels["bytes"].add_(1.0)')), ALL),
]  # fmt: skip
RIGHT = [by_searching, one_after_another, through_numpy, segment_by_segment, curves_with_two_more_points]
