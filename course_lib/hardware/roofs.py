"""Roofs of the device in use: what it reaches, measured on it, where gpus.toml says what its maker printed.

A copy and a read of 1 GiB, products in bf16, fp16 and fp8, and how long a cold read of 4 KiB to 1 GiB takes inside a CUDA graph.
Measured once (under a minute on an H200) and kept with the device, driver, torch and Triton that they belong to. The same data
measured on an H200 comes with the course: `roofs_from_recorded(recorded("roofs"))`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

PRODUCTS = ("bf16", "fp16", "fp8")
_UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


@dataclass(frozen=True, slots=True)
class Roof:
    """A rate: the median of some repeats, their lowest and highest, and which way of doing the work reached it."""

    median: float
    low: float
    high: float
    how: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofs:
    """Rates in GB/s (1e9 bytes; of a copy, bytes read and written) and TFLOP/s. None: the device has no such arithmetic."""

    device: str
    driver: str | None
    torch: str
    triton: str | None
    date: str
    clocks: Any  # dict of sm_mhz, memory_mhz under load and sm_max_mhz, memory_max_mhz; None where NVML does not say
    copy_gb_per_s: Roof | None
    read_gb_per_s: Roof | None
    bf16_tflops: Roof | None
    fp16_tflops: Roof | None
    fp8_tflops: Roof | None
    read_curve: tuple[tuple[int, float], ...]  # (bytes, seconds), sizes ascending
    read_spread: tuple[tuple[float, float], ...] = ()  # (shortest, longest) seconds of each point
    notes: tuple[str, ...] = ()  # what could not be measured, and why

    def ridge_flops_per_byte(self, precision: str = "bf16") -> float | None:
        """The ridge of measured roofs: product over read bandwidth; None where one was not measured."""
        if precision not in PRODUCTS:
            raise ValueError(f"no roof for precision {precision!r}; use one of {', '.join(PRODUCTS)}")
        peak = getattr(self, f"{precision}_tflops")
        return None if peak is None or self.read_gb_per_s is None else peak.median * 1e3 / self.read_gb_per_s.median


def measured_roofs(
    refresh: bool = False, *, folder: Path | None = None, tell: Callable[[str], None] | None = print
) -> Roofs | None:
    """Roofs of the current CUDA device, kept from an earlier call or measured now; None without a CUDA device.

    refresh  measure again
    folder   where they are kept; by default .course/roofs of $COURSE_HOME, or the user's cache folder
    tell     gets a line of progress at a time
    """
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    from . import roofs_cache
    from .roofs_measure import measure_roofs, setting

    here = setting()
    kept = None if refresh else roofs_cache.load(here, folder)
    if kept is not None:
        return kept
    roofs = measure_roofs(tell)
    roofs_cache.save(roofs, folder)
    return roofs


def roofs_as_data(roofs: Roofs) -> dict[str, Any]:
    """Plain data for JSON; roofs_from_data makes the roofs of it again."""
    return asdict(roofs)


def roofs_from_data(data: Mapping[str, Any]) -> Roofs:
    """Raises KeyError, TypeError or ValueError for data that are no roofs."""
    known = {field.name for field in fields(Roofs)}
    if data.keys() != known:
        raise ValueError(f"these are no roofs: {sorted(data.keys() ^ known)} too many or missing")
    rates = {name: None if data[name] is None else Roof(**data[name]) for name in known if name.endswith(("_per_s", "_tflops"))}
    curve = tuple((int(size), float(seconds)) for size, seconds in data["read_curve"])
    spread = tuple((float(low), float(high)) for low, high in data["read_spread"])
    return Roofs(**{**data, **rates, "read_curve": curve, "read_spread": spread, "notes": tuple(data["notes"])})


def roofs_from_recorded(result: Mapping[str, Any]) -> Roofs:
    """The roofs in a result file of benchmarks/roofs.py: `roofs_from_recorded(recorded("roofs"))`."""
    rates, curve = {}, []
    for row in result["rows"]:
        if row["unit"] == "us":
            low, high = row["spread"]
            curve.append((size_from_words(row["case"]), row["ours"] / 1e6, (low / 1e6, high / 1e6)))
        else:
            rates[row["case"]] = Roof(row["ours"], *row["spread"])
    curve.sort()
    return Roofs(
        **{name: result[name] for name in ("device", "driver", "torch", "triton", "date", "clocks")},
        copy_gb_per_s=rates.get("copy"),
        read_gb_per_s=rates.get("read"),
        **{f"{kind}_tflops": rates.get(f"{kind} product") for kind in PRODUCTS},
        read_curve=tuple((size, seconds) for size, seconds, _ in curve),
        read_spread=tuple(spread for *_, spread in curve),
    )


def size_words(size_bytes: int) -> str:
    """ "4 KiB", "1280 KiB", "64 MiB", "1 GiB": the largest unit in which it is whole. Sizes are multiples of 1 KiB."""
    if size_bytes <= 0 or size_bytes % 1024:
        raise ValueError(f"a size of the read curve is a multiple of 1024 bytes, got {size_bytes}")
    unit, factor = next((u, f) for u, f in reversed(_UNITS.items()) if size_bytes % f == 0)
    return f"{size_bytes // factor} {unit}"


def size_from_words(words: str) -> int:
    """Bytes of "read 1280 KiB"."""
    found = re.fullmatch(r"(?:read )?(\d+) (KiB|MiB|GiB)", words)
    if not found:
        raise ValueError(f"{words!r} names no size such as 'read 64 MiB'")
    return int(found[1]) * _UNITS[found[2]]
