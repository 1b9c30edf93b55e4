"""Honest figures from raw samples of a device: what the tokens of one window cost, and which parts of the chip worked for them.

A sample is a dict, the samples are in the order in which they were taken:
  seconds       host time                          energy_mj     energy since the driver was loaded, millijoules
  power_mw      a power reading                    busy_percent  NVML's utilization.gpu
  memory_busy_percent  NVML's utilization.memory   sm_mhz        clock of the SMs
  reasons       clocks_event_reasons, a bit mask   gpm           None, or {"tensor_percent", "dram_percent"}
busy_percent and gpm stand for the interval since the sample before; sm_mhz and reasons for the moment.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from .reasons import throttle_names

Sample = Mapping[str, Any]


def honest_figures(samples: Sequence[Sample], window: Sequence[float], tokens: int, peaks: Mapping[str, float]) -> dict[str, Any]:
    """window: (start, end) in host seconds; tokens made in it; peaks["hbm_gb_per_s"] -> the figures of the window."""
    start, end = window
    joules = joules_between(samples, start, end)
    tensor, dram = (mean_of_gpm(samples, start, end, name) for name in ("tensor_percent", "dram_percent"))
    moments = [sample for sample in samples if start <= sample["seconds"] <= end]
    mask = 0
    for sample in moments:
        mask |= sample["reasons"]
    known = joules is not None
    return {
        "joules": joules,
        "mean_watts": joules / (end - start) if known else None,
        "joules_per_token": joules / tokens if known and tokens else None,
        "tokens_per_joule": tokens / joules if known else None,
        "tensor_share": None if tensor is None else tensor / 100,
        "dram_gb_per_s": None if dram is None else dram / 100 * peaks["hbm_gb_per_s"],
        "busy_time_share": _weighted(_parts(samples, start, end, lambda sample: sample["busy_percent"])) / 100,
        "throttled_by": list(throttle_names(mask)),
        "lowest_sm_mhz": min(sample["sm_mhz"] for sample in moments),
    }


def joules_between(samples: Sequence[Sample], start: float, end: float) -> float | None:
    """The counter at `end` less the counter at `start`, each on the straight line between two fresh readings.

    A reading that repeats the one before is stale: the driver renews the counter only now and then. None when the fresh readings
    do not reach from `start` to `end`, or when the counter fell between those used: then the driver was loaded anew.
    """
    fresh: list[tuple[float, int]] = []
    for sample in samples:
        if not fresh or sample["energy_mj"] != fresh[-1][1]:
            fresh.append((sample["seconds"], sample["energy_mj"]))
    before = [place for place, (seconds, _) in enumerate(fresh) if seconds <= start]
    after = [place for place, (seconds, _) in enumerate(fresh) if seconds >= end]
    if not before or not after:
        return None
    used = fresh[before[-1] : after[0] + 1]
    if any(later[1] < earlier[1] for earlier, later in pairwise(used)):
        return None
    return (_counter_at(used, end) - _counter_at(used, start)) / 1e3


def mean_of_gpm(samples: Sequence[Sample], start: float, end: float, name: str) -> float | None:
    """Mean over the window, weighted with time; None when any part of the window has no GPM, or no samples."""
    parts = list(_parts(samples, start, end, lambda sample: sample["gpm"] and sample["gpm"][name]))
    covered = samples[0]["seconds"] <= start and end <= samples[-1]["seconds"]
    return _weighted(parts) if covered and all(value is not None for _, value in parts) else None


def _counter_at(used: Sequence[tuple[float, int]], moment: float) -> float:
    for (t0, e0), (t1, e1) in pairwise(used):
        if t0 <= moment <= t1:
            return e0 + (e1 - e0) * (moment - t0) / (t1 - t0)
    return float(used[0][1])  # one reading exactly on start and end


def _parts(samples: Sequence[Sample], start: float, end: float, value: Any) -> Iterator[tuple[float, Any]]:
    """(seconds inside the window, value) of each interval between two samples that lies in it, at least in part."""
    for before, sample in pairwise(samples):
        inside = min(sample["seconds"], end) - max(before["seconds"], start)
        if inside > 0:
            yield inside, value(sample)


def _weighted(parts: Any) -> float:
    parts = list(parts)
    return sum(seconds * value for seconds, value in parts) / sum(seconds for seconds, _ in parts)
