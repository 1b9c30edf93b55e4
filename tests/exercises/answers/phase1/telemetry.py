"""Answers to exercise 1.7. Each function stands alone: its source is also judged in a process of its own."""

from ..spoiling import spoiled

ENERGY, COUNTER, ACTIVITY, CLOCKS = "energy", "counter", "activity", "clocks"
ALL = {ENERGY, COUNTER, ACTIVITY, CLOCKS}


def step_by_step(samples, window, tokens, peaks):
    """Right: plain loops, everything by hand."""
    start, end = window
    fresh = [samples[0]]
    for sample in samples[1:]:
        if sample["energy_mj"] != fresh[-1]["energy_mj"]:
            fresh.append(sample)

    def counter_at(moment):
        for right, left in zip(fresh[1:], fresh, strict=False):
            if left["seconds"] <= moment <= right["seconds"]:
                if right["energy_mj"] < left["energy_mj"]:
                    return None
                part = (moment - left["seconds"]) / (right["seconds"] - left["seconds"])
                return left["energy_mj"] + part * (right["energy_mj"] - left["energy_mj"])
        return None

    first, last = counter_at(start), counter_at(end)
    joules = None
    if first is not None and last is not None:
        between = [s["energy_mj"] for s in fresh if start < s["seconds"] < end]
        course = [first, *between, last]
        if all(a <= b for b, a in zip(course[1:], course, strict=False)):
            joules = (last - first) / 1000

    parts = []
    for right, left in zip(samples[1:], samples, strict=False):
        seconds = min(right["seconds"], end) - max(left["seconds"], start)
        if seconds > 0:
            parts.append((seconds, right))
    covered = sum(seconds for seconds, _ in parts)
    tensor = dram = None
    if all(s["gpm"] is not None for _, s in parts):
        tensor = sum(seconds * s["gpm"]["tensor_percent"] for seconds, s in parts) / covered / 100
        dram = sum(seconds * s["gpm"]["dram_percent"] for seconds, s in parts) / covered / 100 * peaks["hbm_gb_per_s"]

    names = {0x04: "sw_power_cap", 0x08: "hw_slowdown", 0x20: "sw_thermal_slowdown",
             0x40: "hw_thermal_slowdown", 0x80: "hw_power_brake"}  # fmt: skip
    moments = [s for s in samples if start <= s["seconds"] <= end]
    throttled = [name for bit, name in names.items() if any(s["reasons"] & bit for s in moments)]
    return {
        "joules": joules,
        "mean_watts": None if joules is None else joules / (end - start),
        "joules_per_token": None if joules is None or tokens == 0 else joules / tokens,
        "tokens_per_joule": None if joules is None else tokens / joules,
        "tensor_share": tensor,
        "dram_gb_per_s": dram,
        "busy_time_share": sum(seconds * s["busy_percent"] for seconds, s in parts) / covered / 100,
        "throttled_by": throttled,
        "lowest_sm_mhz": min(s["sm_mhz"] for s in moments),
    }


def with_tensors(samples, window, tokens, peaks):
    """Right: searchsorted and clamped edges, names from the bits in another order."""
    import torch

    def column(name):
        return torch.tensor([sample[name] for sample in samples], dtype=torch.float64)

    start, end = window
    seconds, energy = column("seconds"), column("energy_mj")
    new = torch.ones(len(samples), dtype=torch.bool)
    new[1:] = energy.diff() != 0
    when, counter = seconds[new], energy[new]
    joules = None
    if len(when) > 1 and when[0] <= start and when[-1] >= end:
        i = int((when <= start).nonzero()[-1])
        j = int((when >= end).nonzero()[0])
        if bool((counter[i : j + 1].diff() >= 0).all()):

            def at(moment):
                k = int(torch.searchsorted(when, torch.tensor(moment, dtype=torch.float64)).clamp(1, len(when) - 1))
                slope = (counter[k] - counter[k - 1]) / (when[k] - when[k - 1])
                return counter[k - 1] + slope * (moment - when[k - 1])

            joules = float(at(end) - at(start)) / 1e3
    edges = seconds.clamp(start, end)
    weight = edges.diff()
    share = weight / weight.sum()
    used = [s["gpm"] for s, w in zip(samples[1:], weight.tolist(), strict=True) if w > 0]
    part = share[weight > 0]
    tensor = dram = None
    if None not in used:
        tensor = float((part * torch.tensor([g["tensor_percent"] for g in used], dtype=torch.float64)).sum()) / 100
        dram = float((part * torch.tensor([g["dram_percent"] for g in used], dtype=torch.float64)).sum())
        dram = dram * peaks["hbm_gb_per_s"] / 100
    inside = ((seconds >= start) & (seconds <= end)).nonzero().flatten().tolist()
    mask = 0
    for place in inside:
        mask |= samples[place]["reasons"]
    bits = [("hw_power_brake", 7), ("hw_thermal_slowdown", 6), ("sw_thermal_slowdown", 5), ("hw_slowdown", 3)]
    bits.append(("sw_power_cap", 2))
    result = dict.fromkeys(("joules", "mean_watts", "joules_per_token", "tokens_per_joule"))
    if joules is not None:
        result |= {"joules": joules, "mean_watts": joules / (end - start), "tokens_per_joule": tokens / joules}
        result["joules_per_token"] = joules / tokens if tokens else None
    result |= {"tensor_share": tensor, "dram_gb_per_s": dram}
    result["busy_time_share"] = float((share * column("busy_percent")[1:]).sum()) / 100
    result["throttled_by"] = tuple(name for name, place in bits if mask >> place & 1)
    result["lowest_sm_mhz"] = float(column("sm_mhz")[inside].min())
    return result


def everything_is_a_counter(samples, window, tokens, peaks):
    """Right: shares are added up to counters as well, and one function reads every counter at both ends of the window."""
    from itertools import pairwise

    start, end = window
    length = end - start

    def rise(times, values, moments=(start, end)):
        """How much a counter rises between two moments; on straight lines, and None where it does not reach."""
        ends = []
        for moment in moments:
            left = [i for i, t in enumerate(times) if t <= moment]
            right = [i for i, t in enumerate(times) if t >= moment]
            if not left or not right:
                return None
            i, j = left[-1], right[0]
            part = 0.0 if times[i] == times[j] else (moment - times[i]) / (times[j] - times[i])
            ends.append(values[i] * (1 - part) + values[j] * part)
        return ends[1] - ends[0]

    first_moment, last_moment = samples[0]["seconds"], samples[-1]["seconds"]
    seen = max(start, first_moment), min(end, last_moment)

    def mean(share_of):
        """Of share_of, over the part of the window that was recorded."""
        total = [0.0]
        for before, now in pairwise(samples):
            total.append(total[-1] + share_of(now) * (now["seconds"] - before["seconds"]))
        return rise(times, total, seen) / (seen[1] - seen[0])

    times = [sample["seconds"] for sample in samples]
    fresh = [samples[0]] + [now for before, now in pairwise(samples) if now["energy_mj"] != before["energy_mj"]]
    fresh_times, readings = [s["seconds"] for s in fresh], [s["energy_mj"] for s in fresh]
    first = max((i for i, t in enumerate(fresh_times) if t <= start), default=None)
    last = min((i for i, t in enumerate(fresh_times) if t >= end), default=None)
    known = first is not None and last is not None and readings[first : last + 1] == sorted(readings[first : last + 1])
    joules = rise(fresh_times, readings) / 1000 if known else None

    hidden = mean(lambda sample: 1.0 if sample["gpm"] is None else 0.0)
    tensor = dram = None
    if hidden < 1e-9 and seen == (start, end):
        tensor = mean(lambda sample: (sample["gpm"] or {"tensor_percent": 0})["tensor_percent"] / 100)
        dram = mean(lambda sample: (sample["gpm"] or {"dram_percent": 0})["dram_percent"] / 100)

    mine = [s for s in samples if not (s["seconds"] < start or s["seconds"] > end)]
    names = (("sw_power_cap", 4), ("hw_slowdown", 8), ("sw_thermal_slowdown", 32),
             ("hw_thermal_slowdown", 64), ("hw_power_brake", 128))  # fmt: skip
    return {
        "joules": joules,
        "mean_watts": joules / length if known else None,
        "joules_per_token": joules / tokens if known and tokens > 0 else None,
        "tokens_per_joule": tokens / joules if known else None,
        "tensor_share": tensor,
        "dram_gb_per_s": dram if dram is None else dram * peaks["hbm_gb_per_s"],
        "busy_time_share": mean(lambda sample: sample["busy_percent"] / 100),
        "throttled_by": [name for name, bit in names if any(s["reasons"] & bit for s in mine)],
        "lowest_sm_mhz": sorted(s["sm_mhz"] for s in mine)[0],
    }


def nothing(samples, window, tokens, peaks):
    return {}


def zeros(samples, window, tokens, peaks):
    names = ("joules", "mean_watts", "joules_per_token", "tokens_per_joule", "tensor_share", "dram_gb_per_s", "busy_time_share")
    return dict.fromkeys(names, 0.0) | {"throttled_by": [], "lowest_sm_mhz": 0}


def none_of_it(samples, window, tokens, peaks):
    names = ("joules", "mean_watts", "joules_per_token", "tokens_per_joule", "tensor_share", "dram_gb_per_s", "busy_time_share")
    return dict.fromkeys(names) | {"throttled_by": [], "lowest_sm_mhz": None}


def the_roadmaps_way(samples, window, tokens, peaks):
    """Utilisation for the tensor cores, utilisation times capacity for the bandwidth, mean power times wall time."""
    watts = sum(s["power_mw"] for s in samples) / len(samples) / 1e3
    joules = watts * (samples[-1]["seconds"] - samples[0]["seconds"])
    busy = sum(s["busy_percent"] for s in samples) / len(samples) / 100
    memory = sum(s["memory_busy_percent"] for s in samples) / len(samples) / 100
    return {
        "joules": joules, "mean_watts": watts, "joules_per_token": joules / max(tokens, 1), "tokens_per_joule": tokens / joules,
        "tensor_share": busy, "dram_gb_per_s": memory * peaks["hbm_gb"], "busy_time_share": busy,
        "throttled_by": ["sw_power_cap"] if any(s["reasons"] for s in samples) else [],
        "lowest_sm_mhz": min(s["sm_mhz"] for s in samples),
    }  # fmt: skip


def changed(name, *changes):
    return spoiled(step_by_step, name, *changes)


WRONG = [
    (nothing, ALL),
    (zeros, ALL),
    (none_of_it, ALL),
    (the_roadmaps_way, ALL),
    (changed("millijoules", ("(last - first) / 1000", "last - first")), {ENERGY, COUNTER}),
    (
        changed(
            "whole_recording",
            ("joules = (last - first) / 1000", "joules = (samples[-1]['energy_mj'] - samples[0]['energy_mj']) / 1000"),
        ),
        {ENERGY, COUNTER},
    ),
    (
        changed(
            "power_times_time",
            (
                "joules = (last - first) / 1000",
                "p = [s['power_mw'] / 1e3 for s in samples if start <= s['seconds'] <= end]\n"
                "            joules = sum(p) / len(p) * (end - start)",
            ),
        ),
        {ENERGY, COUNTER},
    ),
    (
        changed(
            "samples_in_the_window",
            (
                "joules = (last - first) / 1000",
                "m = [s['energy_mj'] for s in samples if start <= s['seconds'] <= end]; joules = (m[-1] - m[0]) / 1000",
            ),
        ),
        {ENERGY, COUNTER},
    ),
    (
        changed("other_time", ("joules / (end - start)", "joules / (samples[-1]['seconds'] - samples[0]['seconds'])")),
        {ENERGY, COUNTER},
    ),
    (changed("upside_down", ("joules / tokens", "tokens / joules")), {ENERGY, COUNTER}),
    (
        changed(
            "stale_readings_kept",
            ('if sample["energy_mj"] != fresh[-1]["energy_mj"]:', 'if sample["seconds"] != fresh[-1]["seconds"]:'),
        ),
        {COUNTER},
    ),
    (
        changed(
            "the_last_of_each_run",
            (
                "            fresh.append(sample)",
                "            fresh.append(sample)\n        elif len(fresh) > 1:\n            fresh[-1] = sample",
            ),
        ),
        {COUNTER},
    ),
    (
        changed(
            "a_restart_goes_unnoticed",
            ('if right["energy_mj"] < left["energy_mj"]:', "if False:"),
            ("if all(a <= b for b, a in zip(course[1:], course, strict=False)):", "if True:"),
        ),
        {COUNTER},
    ),
    (
        changed(
            "a_restart_anywhere",
            (
                "    first, last = counter_at(start), counter_at(end)",
                "    first, last = counter_at(start), counter_at(end)\n"
                "    if any(b['energy_mj'] < a['energy_mj'] for a, b in zip(samples[:-1], samples[1:], strict=True)):\n"
                "        first = None",
            ),
        ),
        {COUNTER},
    ),
    (changed("divides_by_no_token", ("joules is None or tokens == 0", "joules is None")), {COUNTER, ACTIVITY}),
    (
        changed(
            "no_token_costs_all",
            ("None if joules is None or tokens == 0 else joules / tokens", "joules and joules / max(tokens, 1)"),
        ),
        {COUNTER},
    ),
    (
        changed("busy_for_tensor_cores", ('"tensor_share": tensor,', '"tensor_share": samples[-1]["busy_percent"] / 100,')),
        {ACTIVITY},
    ),
    (changed("capacity_for_bandwidth", ('peaks["hbm_gb_per_s"]', 'peaks["hbm_gb"]')), {ACTIVITY}),
    (changed("percent_for_shares", ('"tensor_share": tensor,', '"tensor_share": tensor and 100 * tensor,')), {ACTIVITY}),
    (changed("nothing_is_none", ('"tensor_share": tensor,', '"tensor_share": tensor or None,')), {ACTIVITY}),
    (changed("none_is_nothing", ('"tensor_share": tensor,', '"tensor_share": tensor or 0.0,')), {ACTIVITY}),
    (changed("each_sample_counts_alike", ("parts.append((seconds, right))", "parts.append((1.0, right))")), {ACTIVITY}),
    (
        changed("whole_intervals", ("parts.append((seconds,", 'parts.append((right["seconds"] - left["seconds"],')),
        {ACTIVITY},
    ),
    (changed("the_sample_before", ("parts.append((seconds, right))", "parts.append((seconds, left))")), {ACTIVITY}),
    (
        changed(
            "gpm_anywhere_missing",
            ('if all(s["gpm"] is not None for _, s in parts):', 'if all(s["gpm"] is not None for s in samples[1:]):'),
        ),
        {ACTIVITY},
    ),
    (
        changed("every_bit_throttles", ("names = {0x04", 'names = {0x01: "gpu_idle", 0x02: "applications_clocks", 0x04')),
        {CLOCKS},
    ),
    (changed("throttled_at_any_time", ("for s in moments)]", "for s in samples)]")), {CLOCKS}),
    (changed("one_bit_a_mask", ('s["reasons"] & bit for', 's["reasons"] == bit for')), {CLOCKS}),
    (changed("the_last_mask_only", ("for s in moments)]", "for s in moments[-1:])]")), {CLOCKS}),
    (changed("lowest_of_the_recording", ('s["sm_mhz"] for s in moments', 's["sm_mhz"] for s in samples')), {CLOCKS}),
    (changed("a_word_for_a_list", ('"throttled_by": throttled,', '"throttled_by": " ".join(throttled),')), {CLOCKS}),
]
RIGHT = [step_by_step, with_tensors, everything_is_a_counter]
