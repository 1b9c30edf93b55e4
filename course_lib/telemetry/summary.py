"""What a recording comes to: energy by two ways, clocks, reasons, and how busy which part was."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from .gpm import GpmMetrics
from .reading import Reading
from .reasons import reason_names, throttle_names

MIB, MB = 2**20, 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """From the first reading to the last. A field is None where nothing gives it; `why_not` and `gpm_why_not` say why.

    joules             difference of the driver's energy counter, the better of the two
    integrated_joules  the power readings added up (trapezoid rule)
    mean_watts         joules / seconds, or from integrated_joules where there is no counter
    *_percent          means over time; busy_time_percent is the time in which any kernel ran, tensor and dram come from GPM
    """

    why_not: str = ""
    gpm_why_not: str = ""
    count: int = 0
    seconds: float | None = None
    joules: float | None = None
    integrated_joules: float | None = None
    mean_watts: float | None = None
    max_watts: float | None = None
    sm_mhz_min: int | None = None
    sm_mhz_median: float | None = None
    memory_mhz_median: float | None = None
    max_temperature_c: int | None = None
    max_memory_used_bytes: int | None = None
    reasons: tuple[str, ...] | None = None
    throttled_by: tuple[str, ...] | None = None
    busy_time_percent: float | None = None
    memory_busy_time_percent: float | None = None
    sm_percent: float | None = None
    occupancy_percent: float | None = None
    tensor_percent: float | None = None
    hmma_percent: float | None = None
    dram_percent: float | None = None
    fp32_percent: float | None = None
    pcie_tx_mb_per_s: float | None = None  # MB = 1e6 bytes
    pcie_rx_mb_per_s: float | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def summarise(readings: Sequence[Reading], gpm: Sequence[GpmMetrics | None], why_not: str = "", gpm_why_not: str = "") -> Summary:
    """gpm[i]: means between readings i-1 and i, or None. Fewer than two readings give a summary without values."""
    if len(readings) < 2:
        missing = why_not or f"{len(readings)} readings span no time; record for longer"
        return Summary(why_not=missing, gpm_why_not=gpm_why_not or missing, count=len(readings))
    seconds = readings[-1].host_seconds - readings[0].host_seconds
    joules, lost = _counted_joules(readings)
    integrated = _integral(readings, lambda r: r.watts)
    best = joules if joules is not None else integrated
    masks = [r.reasons_mask for r in readings if r.reasons_mask is not None]
    seen = 0
    for mask in masks:
        seen |= mask
    return Summary(
        why_not=why_not or lost,
        gpm_why_not=gpm_why_not,
        count=len(readings),
        seconds=seconds,
        joules=joules,
        integrated_joules=integrated,
        mean_watts=None if best is None or not seconds else best / seconds,
        max_watts=_of(max, readings, "watts"),
        sm_mhz_min=_of(min, readings, "sm_mhz"),
        sm_mhz_median=_of(statistics.median, readings, "sm_mhz"),
        memory_mhz_median=_of(statistics.median, readings, "memory_mhz"),
        max_temperature_c=_of(max, readings, "temperature_c"),
        max_memory_used_bytes=_of(max, readings, "memory_used_bytes"),
        reasons=reason_names(seen) if masks else None,
        throttled_by=throttle_names(seen) if masks else None,
        busy_time_percent=_over_time(readings, readings, "busy_time_percent"),
        memory_busy_time_percent=_over_time(readings, readings, "memory_busy_time_percent"),
        **{name: _over_time(readings, gpm, name) for name in _GPM_PERCENTS},
        pcie_tx_mb_per_s=_pcie(readings, gpm, "tx"),
        pcie_rx_mb_per_s=_pcie(readings, gpm, "rx"),
    )


_GPM_PERCENTS = ("sm_percent", "occupancy_percent", "tensor_percent", "hmma_percent", "dram_percent", "fp32_percent")


def _counted_joules(readings: Sequence[Reading]) -> tuple[float | None, str]:
    """(energy between first and last reading, why there is none)."""
    counter = [r.joules_since_driver_load for r in readings]
    if any(value is None for value in counter):
        said = next((r.missing["joules_since_driver_load"] for r in readings if "joules_since_driver_load" in r.missing), "")
        return None, f"no energy counter ({said}); mean_watts comes from the power readings" if said else "no energy counter"
    if any(later < earlier for earlier, later in pairwise(counter)):
        return None, "the energy counter went backwards: the driver was loaded anew; record again"
    return counter[-1] - counter[0], ""


def _integral(readings: Sequence[Reading], value: Callable[[Reading], float | None]) -> float | None:
    values = [value(r) for r in readings]
    if any(v is None for v in values):
        return None
    times = [r.host_seconds for r in readings]
    return sum((b - a) * (v + w) / 2 for a, b, v, w in zip(times, times[1:], values, values[1:], strict=False))


def _of(fold: Callable[[list], Any], readings: Sequence[Reading], name: str) -> Any:
    values = [getattr(r, name) for r in readings if getattr(r, name) is not None]
    return fold(values) if values else None


def _over_time(readings: Sequence[Reading], values: Sequence[Any], name: str) -> float | None:
    """Mean weighted with time: value i stands for the interval from reading i-1 to i. Intervals without a value do not count."""
    total = weight = 0.0
    for before, now, holder in zip(readings, readings[1:], values[1:], strict=False):
        value = getattr(holder, name, None)
        if value is not None:
            length = now.host_seconds - before.host_seconds
            total, weight = total + length * value, weight + length
    return total / weight if weight else None


def _pcie(readings: Sequence[Reading], gpm: Sequence[GpmMetrics | None], way: str) -> float | None:
    """From GPM in MiB/s, or from NVML's counter in KB/s (1e3 bytes here)."""
    from_gpm = _over_time(readings, gpm, f"pcie_{way}_mib_per_s")
    if from_gpm is not None:
        return from_gpm * MIB / MB
    from_nvml = _over_time(readings, readings, f"pcie_{way}_kb_per_s")
    return None if from_nvml is None else from_nvml * 1e3 / MB
