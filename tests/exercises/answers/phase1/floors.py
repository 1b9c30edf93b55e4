"""Answers to exercise 1.6. Each function stands alone: its source is also judged in a process of its own."""

import math

import torch

from ..spoiling import spoiled

ONE, RANKS, TARGET, MEMORY = "one GPU", "several ranks", "target", "memory"
ALL = {ONE, RANKS, TARGET, MEMORY}


def in_seconds(model, gpu, ranks, itl_target_ms):
    """Right: everything in seconds and bytes, milliseconds at the very end."""
    floors = {}
    for name, step in (("ttft_ms", model["prefill"]), ("tpot_ms", model["decode"])):
        compute = step["flops"] / ranks / (gpu["peak_tflops"] * 1e12)
        memory = step["bytes"] / ranks / (gpu["hbm_gb_per_s"] * 1e9)
        roof = torch.maximum(compute, memory)
        message = step["allreduce_bytes"] * 1.0
        wire = 2 * (ranks - 1) / ranks * message / (gpu["link_gb_per_s"] * 1e9)
        start = gpu["alpha_us"] * 1e-6
        waiting = 2 * model["layers"] * (start + wire) * (ranks > 1)
        floors[name] = (roof + waiting) * 1e3
    each = model["resident_bytes"] / ranks
    fits = each <= gpu["hbm_gb"] * 1e9
    fast = floors["tpot_ms"] <= itl_target_ms
    return floors | {"meets_itl": fast & fits}


def row_by_row(model, gpu, ranks, itl_target_ms):
    """Right: plain floats in a loop, the way one does it on paper."""
    count = len(ranks)
    ttft_ms, tpot_ms = torch.empty(count, dtype=torch.float64), torch.empty(count, dtype=torch.float64)
    meets_itl = torch.zeros(count, dtype=torch.bool)
    for i in range(count):
        n = int(ranks[i])
        peak, bandwidth, link = (float(gpu[k][i]) for k in ("peak_tflops", "hbm_gb_per_s", "link_gb_per_s"))
        for out, step in ((ttft_ms, model["prefill"]), (tpot_ms, model["decode"])):
            if math.isnan(peak):
                out[i] = math.nan
                continue
            out[i] = max(float(step["flops"][i]) / (n * peak * 1e9), float(step["bytes"][i]) / (n * bandwidth * 1e6))
            if n > 1:
                sent_bytes = 2 * (n - 1) * float(step["allreduce_bytes"][i]) / n
                each_us = float(gpu["alpha_us"][i]) + sent_bytes / (link * 1e3)
                out[i] += 2 * int(model["layers"][i]) * each_us / 1e3
        small = float(model["resident_bytes"][i]) / 1e9 <= n * float(gpu["hbm_gb"][i])
        meets_itl[i] = small and bool(tpot_ms[i] <= itl_target_ms)
    return {"ttft_ms": ttft_ms, "tpot_ms": tpot_ms, "meets_itl": meets_itl}


def in_milliseconds_with_where(model, gpu, ranks, itl_target_ms):
    """Right: a helper for one step, milliseconds throughout, the decision in two refusals."""

    def step_ms(step):
        together = torch.stack([step["flops"] / gpu["peak_tflops"] / 1e9, step["bytes"] / gpu["hbm_gb_per_s"] / 1e6])
        share = 1 - 1 / ranks
        exchange = gpu["alpha_us"] / 1e3 + 2 * share * step["allreduce_bytes"] / gpu["link_gb_per_s"] / 1e6
        exchange = torch.where(ranks == 1, 0.0, 2 * model["layers"] * exchange)
        return together.amax(dim=0) / ranks + exchange

    tpot_ms = step_ms(model["decode"])
    meets = torch.ones(len(ranks), dtype=torch.bool)
    meets[tpot_ms.isnan() | (tpot_ms > itl_target_ms)] = False
    meets[model["resident_bytes"] > ranks * gpu["hbm_gb"] * 1e9] = False
    return {"meets_itl": meets, "tpot_ms": tpot_ms, "ttft_ms": step_ms(model["prefill"])}


def both_steps_at_once(model, gpu, ranks, itl_target_ms):
    """Right: prefill and decode as two rows of one table, whole-machine rates, the target in seconds."""
    prefill, decode = model["prefill"], model["decode"]
    flops, moved, message = (torch.stack([prefill[k], decode[k]]) for k in ("flops", "bytes", "allreduce_bytes"))
    machine_flops, machine_bytes = ranks * gpu["peak_tflops"] * 1e12, ranks * gpu["hbm_gb_per_s"] * 1e9
    seconds = torch.maximum(flops / machine_flops, moved / machine_bytes)
    exchange = gpu["alpha_us"] / 1e6 + message * (2 - 2 / ranks) / (gpu["link_gb_per_s"] * 1e9)
    seconds = torch.where(ranks > 1, seconds + 2 * model["layers"] * exchange, seconds)
    meets = (seconds[1] <= itl_target_ms / 1e3).logical_and(model["resident_bytes"] <= ranks * gpu["hbm_gb"] * 1e9)
    return {"ttft_ms": seconds[0] * 1e3, "tpot_ms": seconds[1] * 1e3, "meets_itl": meets}


def by_reciprocals(model, gpu, ranks, itl_target_ms):
    """Right: multiplies by what one would divide by; seconds until the end, and every product rounds elsewhere."""
    share = 1 / ranks
    floors = {}
    for name, step in (("ttft_ms", model["prefill"]), ("tpot_ms", model["decode"])):
        compute = step["flops"] * share * (1e-12 / gpu["peak_tflops"])
        memory = step["bytes"] * share * (1e-9 / gpu["hbm_gb_per_s"])
        wire = 2 * (1 - share) * step["allreduce_bytes"] * (1e-9 / gpu["link_gb_per_s"])
        waiting = torch.where(ranks > 1, 2 * model["layers"] * (gpu["alpha_us"] * 1e-6 + wire), 0)
        floors[name] = (torch.maximum(compute, memory) + waiting) * 1e3
    fits = model["resident_bytes"] * share * 1e-9 <= gpu["hbm_gb"]
    return {**floors, "meets_itl": torch.logical_and(floors["tpot_ms"] <= itl_target_ms, fits)}


def masked_in_milliseconds(model, gpu, ranks, itl_target_ms):
    """Right: what one GPU does not do is multiplied by 0; all in milliseconds."""

    def floor(s):
        comp = s["flops"] / ranks / gpu["peak_tflops"] / 1e9
        mem = s["bytes"] / ranks / gpu["hbm_gb_per_s"] / 1e6
        wire = 2 * (ranks - 1) / ranks * s["allreduce_bytes"] / gpu["link_gb_per_s"] / 1e6
        ar = 2 * model["layers"] * (gpu["alpha_us"] / 1e3 + wire)
        return torch.maximum(comp, mem) + ar * (ranks > 1)

    ttft, tpot = floor(model["prefill"]), floor(model["decode"])
    ok = (tpot <= itl_target_ms) & (model["resident_bytes"] / ranks <= gpu["hbm_gb"] * 1e9)
    return {"ttft_ms": ttft, "tpot_ms": tpot, "meets_itl": ok}


def items_in_lists(model, gpu, ranks, itl_target_ms):
    """Right: a loop over .item(), lists, Python's max, and a missing number told by P == P."""
    ttft, tpot, meets = [], [], []
    for i in range(ranks.shape[0]):
        n = ranks[i].item()
        P, B, L = gpu["peak_tflops"][i].item(), gpu["hbm_gb_per_s"][i].item(), gpu["link_gb_per_s"][i].item()
        times = []
        for s in (model["prefill"], model["decode"]):
            t = float("nan")
            if P == P:
                t = max(s["flops"][i].item() / n / (P * 1e12), s["bytes"][i].item() / n / (B * 1e9))
                if n > 1:
                    wire = 2 * (n - 1) / n * s["allreduce_bytes"][i].item() / (L * 1e9)
                    t += 2 * model["layers"][i].item() * (gpu["alpha_us"][i].item() * 1e-6 + wire)
            times.append(t * 1000)
        ttft.append(times[0])
        tpot.append(times[1])
        meets.append(times[1] <= itl_target_ms and model["resident_bytes"][i].item() / n <= gpu["hbm_gb"][i].item() * 1e9)
    out = {"ttft_ms": torch.tensor(ttft, dtype=torch.float64), "tpot_ms": torch.tensor(tpot, dtype=torch.float64)}
    return out | {"meets_itl": torch.tensor(meets)}


def by_intensity(model, gpu, ranks, itl_target_ms):
    """Right: intensity against the ridge says which roof counts, and only that time is worked out; NaN is put in by hand."""
    peak, bandwidth = gpu["peak_tflops"] * 1e12, gpu["hbm_gb_per_s"] * 1e9
    ridge = peak / bandwidth
    alone, unknown = ranks == 1, peak.isnan()

    def milliseconds(step):
        limited_by_arithmetic = step["flops"] > ridge * step["bytes"]
        seconds = torch.empty_like(ranks)
        seconds[limited_by_arithmetic] = (step["flops"] / peak)[limited_by_arithmetic]
        seconds[~limited_by_arithmetic] = (step["bytes"] / bandwidth)[~limited_by_arithmetic]
        exchange = gpu["alpha_us"] / 1e6 + (2 - 2 / ranks) * step["allreduce_bytes"] / (gpu["link_gb_per_s"] * 1e9)
        exchange[alone] = 0
        total = 1000 * (seconds / ranks + 2 * model["layers"] * exchange)
        total[unknown] = float("nan")
        return total

    ttft, tpot = milliseconds(model["prefill"]), milliseconds(model["decode"])
    too_slow, too_large = tpot > itl_target_ms, model["resident_bytes"] > ranks * gpu["hbm_gb"] * 1e9
    return {"ttft_ms": ttft, "tpot_ms": tpot, "meets_itl": ~(unknown | too_slow | too_large)}


def zeros(model, gpu, ranks, itl_target_ms):
    none = torch.zeros(len(ranks), dtype=torch.float64)
    return {"ttft_ms": none, "tpot_ms": none.clone(), "meets_itl": none > 1}


def the_input(model, gpu, ranks, itl_target_ms):
    return model


def everything_meets(model, gpu, ranks, itl_target_ms):
    none = torch.zeros(len(ranks), dtype=torch.float64)
    return {"ttft_ms": none, "tpot_ms": none.clone(), "meets_itl": none == 0}


def a_tuple(model, gpu, ranks, itl_target_ms):
    none = torch.zeros(len(ranks), dtype=torch.float64)
    return none, none.clone(), none > 1


def slip(name, *changes):
    return spoiled(in_seconds, name, *changes)


ROOF, WAITING = "torch.maximum(compute, memory)", "(start + wire) * (ranks > 1)"
FAST, FITS = 'floors["tpot_ms"] <= itl_target_ms', 'each <= gpu["hbm_gb"] * 1e9'
COMPUTE, MEMORY_TIME = 'step["flops"] / ranks', 'step["bytes"] / ranks'

WRONG = [
    (zeros, ALL),
    (the_input, ALL),
    (everything_meets, ALL),
    (a_tuple, ALL),
    (slip("changes_its_input", (COMPUTE, 'step["flops"].div_(ranks)')), {RANKS, TARGET, MEMORY}),
    # units
    (slip("seconds_for_milliseconds", ("(roof + waiting) * 1e3", "roof + waiting")), {ONE, RANKS, TARGET}),
    (slip("microseconds_as_milliseconds", ('gpu["alpha_us"] * 1e-6', 'gpu["alpha_us"] * 1e-3')), {RANKS, TARGET, MEMORY}),
    (slip("binary_giga", ('gpu["hbm_gb_per_s"] * 1e9', 'gpu["hbm_gb_per_s"] * 2**30')), {ONE, RANKS, TARGET}),
    (slip("binary_capacity", ('gpu["hbm_gb"] * 1e9', 'gpu["hbm_gb"] * 2**30')), {MEMORY}),
    (slip("rounded_to_milliseconds", ("(roof + waiting) * 1e3", "((roof + waiting) * 1e3).round()")), {ONE, RANKS, TARGET}),
    (slip("in_single_precision", ("* 1.0", "* 1.0\n        roof = roof.float()")), {ONE, RANKS}),
    # the roofline
    (slip("sum_of_both_times", (ROOF, "compute + memory")), {ONE, RANKS, TARGET}),
    (slip("memory_only", (ROOF, "memory")), {ONE, RANKS, TARGET}),
    (slip("compute_only", (ROOF, "compute")), {ONE, RANKS, TARGET}),
    (slip("the_shorter_time", (ROOF, "torch.minimum(compute, memory)")), {ONE, RANKS, TARGET}),
    (slip("sparse_peak", ('gpu["peak_tflops"] * 1e12', 'gpu["peak_tflops"] * 2e12')), {ONE, RANKS, TARGET}),
    (slip("steps_swapped", ('"ttft_ms", model["prefill"]', '"ttft_ms", model["decode"]'),
          ('"tpot_ms", model["decode"]', '"tpot_ms", model["prefill"]')), ALL),
    (slip("missing_peak_is_skipped", (ROOF, "torch.fmax(compute, memory)")), {ONE, RANKS, TARGET}),
    (slip("missing_peak_is_no_limit", (ROOF, "torch.maximum(compute.nan_to_num(), memory)")), {ONE, RANKS, TARGET}),
    (slip("missing_peak_is_skipped_on_several_ranks",
          (ROOF, "torch.where(ranks > 1, torch.fmax(compute, memory), torch.maximum(compute, memory))")), {RANKS}),
    # ranks
    (slip("work_of_all_on_each", (COMPUTE, 'step["flops"]'), (MEMORY_TIME, 'step["bytes"]')), {RANKS, TARGET, MEMORY}),
    (slip("bytes_not_divided", (MEMORY_TIME, 'step["bytes"]')), {RANKS, TARGET, MEMORY}),
    (slip("flops_not_divided", (COMPUTE, 'step["flops"]')), {RANKS}),
    (slip("no_allreduce", (WAITING, "0.0")), {RANKS, TARGET}),
    (slip("one_gpu_waits_as_well", (WAITING, "(start + wire)")), {ONE, RANKS, TARGET}),
    (slip("one_allreduce_a_layer", ('2 * model["layers"]', 'model["layers"]')), {RANKS}),
    (slip("one_allreduce_a_step", ('2 * model["layers"]', "2")), {RANKS, TARGET}),
    (slip("alpha_divided_by_ranks", ('gpu["alpha_us"] * 1e-6', 'gpu["alpha_us"] * 1e-6 / ranks')), {RANKS, TARGET}),
    (slip("message_divided_by_ranks", ("* 1.0", "/ ranks")), {RANKS}),
    (slip("half_of_one_direction", ('gpu["link_gb_per_s"] * 1e9', 'gpu["link_gb_per_s"] * 0.5e9')), {RANKS}),
    (slip("alpha_without_the_wire", ("start + wire", "start")), {RANKS}),
    (slip("wire_without_alpha", ("start + wire", "wire")), {RANKS, TARGET}),
    (slip("sent_once", ("2 * (ranks - 1)", "(ranks - 1)")), {RANKS}),
    (slip("sent_n_minus_1_times", ("2 * (ranks - 1) / ranks", "(ranks - 1)")), {RANKS}),
    (slip("both_directions_of_the_link", ('gpu["link_gb_per_s"] * 1e9', 'gpu["link_gb_per_s"] * 2e9')), {RANKS}),
    (slip("allreduce_hidden_behind_the_roof", ("roof + waiting", "torch.maximum(roof, waiting)")), {RANKS, TARGET}),
    # the decision
    (slip("strictly_faster", (FAST, 'floors["tpot_ms"] < itl_target_ms')), {TARGET}),
    (slip("not_slower", (FAST, '~(floors["tpot_ms"] > itl_target_ms)')), {TARGET}),
    (slip("first_token_in_time", (FAST, 'floors["ttft_ms"] <= itl_target_ms')), {TARGET, MEMORY}),
    (slip("target_in_seconds", (FAST, 'floors["tpot_ms"] <= itl_target_ms / 1e3')), {TARGET, MEMORY}),
    (slip("always_40_ms", (FAST, 'floors["tpot_ms"] <= 40')), {TARGET}),
    (slip("fits_always", (FITS, "each < float('inf')")), {MEMORY}),
    (slip("fits_strictly", (FITS, 'each < gpu["hbm_gb"] * 1e9')), {MEMORY}),
    (slip("whole_model_on_each", ('"resident_bytes"] / ranks', '"resident_bytes"]')), {TARGET, MEMORY}),
    (slip("what_does_not_fit_has_no_time",
          ("    fast =", '    floors["tpot_ms"] = floors["tpot_ms"].where(fits, torch.inf)\n    fast =')), {ONE, RANKS}),
    (slip("both_or_neither", ("fast & fits", "fast == fits")), {MEMORY}),
    (slip("both_or_neither_spelled_out", ("fast & fits", "(fast & fits) | (~fits & ~fast)")), {MEMORY}),
    (slip("unknown_and_too_large_meets", ("fast & fits", '(fast & fits) | (~fits & floors["tpot_ms"].isnan())')), {MEMORY}),
    (slip("decision_as_numbers", ("fast & fits", "(fast & fits).long()")), {TARGET, MEMORY}),
]  # fmt: skip
RIGHT = [
    by_intensity,
    in_seconds, row_by_row, in_milliseconds_with_where, both_steps_at_once,
    by_reciprocals, masked_in_milliseconds, items_in_lists,
]  # fmt: skip
