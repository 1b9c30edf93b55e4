"""Cases of exercise 1.7: recordings of a device that idles, works and idles again, and what goes wrong with such recordings."""

from collections.abc import Sequence
from typing import Any

from ...grading.criteria import Case

# one stretch of a recording: (seconds, watts, busy %, tensor %, DRAM %, reasons, SM MHz)
IDLE = (1.0, 90.0, 0, 0.0, 0.0, 0x1, 345)
PEAKS = {"hbm_gb_per_s": 4800.0, "hbm_gb": 141.0}


class _Draw:
    """Random numbers from one generator."""

    def __init__(self, seed: int) -> None:
        import torch

        self._torch, self._draw = torch, torch.Generator().manual_seed(seed)

    def between(self, low: float, high: float) -> float:
        return low + (high - low) * float(self._torch.rand((), generator=self._draw, dtype=self._torch.float64))

    def whole(self, low: int, high: int) -> int:
        return int(self._torch.randint(low, high, (), generator=self._draw))


def _decode(draw: _Draw, seconds: float = 2.0, reasons: int = 0) -> tuple:
    return (seconds, draw.between(300, 500), 100, draw.between(0.2, 4), draw.between(40, 90), reasons, draw.whole(1500, 1980))


def _prefill(draw: _Draw, seconds: float = 1.0, reasons: int = 0x4) -> tuple:
    return (seconds, draw.between(600, 700), 100, draw.between(50, 90), draw.between(20, 40), reasons, draw.whole(1200, 1500))


def _mean(stretches: Sequence[tuple], column: int, start: float, end: float) -> float:
    """Mean of a column over the time from start to end; the last stretch goes on for ever."""
    total, begin = 0.0, 0.0
    for place, stretch in enumerate(stretches):
        finish = begin + stretch[0] if place + 1 < len(stretches) else max(end, begin)
        total += stretch[column] * max(0.0, min(end, finish) - max(start, begin))
        begin = finish
    return total / (end - start)


def _at(stretches: Sequence[tuple], moment: float) -> tuple:
    for stretch in stretches:
        if moment < stretch[0]:
            return stretch
        moment -= stretch[0]
    return stretches[-1]


def _samples(stretches: Sequence[tuple], times: Sequence[float], draw: _Draw, renewed: float = 0.0) -> list[dict[str, Any]]:
    """Samples at these times. renewed: seconds between two renewals of the energy counter, 0 when it is always fresh."""
    zero, begun = draw.between(1e3, 1e5), draw.whole(10**6, 10**9)
    samples = []
    for place, moment in enumerate(times):
        seen = moment if not renewed else renewed * int(moment / renewed)
        energy = begun + round(1e3 * seen * _mean(stretches, 1, 0.0, seen)) if seen else begun
        before = times[place - 1] if place else None
        gpm, busy = None, _at(stretches, moment)[2]
        if before is not None and moment > before:
            gpm = {"tensor_percent": _mean(stretches, 3, before, moment), "dram_percent": _mean(stretches, 4, before, moment)}
            busy = round(_mean(stretches, 2, before, moment))
        _, watts, _, _, dram, reasons, mhz = _at(stretches, moment)
        samples.append({
            "seconds": zero + moment, "energy_mj": energy, "power_mw": round(1e3 * watts * draw.between(0.8, 1.2)),
            "busy_percent": busy, "memory_busy_percent": min(100, round(dram / 2 + draw.between(0, 30))),
            "sm_mhz": mhz, "reasons": reasons, "gpm": gpm,
        })  # fmt: skip
    return samples


def _times(draw: _Draw, length: float, low: float, high: float) -> list[float]:
    """From 0 to beyond `length`, in irregular steps."""
    times = [0.0]
    while times[-1] < length:
        times.append(times[-1] + draw.between(low, high))
    return times


def _case(name: str, samples: list, window: tuple[float, float], tokens: int, **more: Any) -> Case:
    """window: seconds after the first sample."""
    zero = samples[0]["seconds"]
    marks = [zero + window[0], zero + window[1]]
    return {"name": name, "samples": samples, "window": marks, "tokens": tokens, "peaks": dict(PEAKS), **more}


def energy_cases(seed: int) -> list[Case]:
    """The counter is fresh in every sample."""
    draw = _Draw(seed)
    idle_ends = [IDLE, _decode(draw), IDLE]
    regular = [0.25 * step for step in range(17)]
    marked = _samples(idle_ends, regular, draw)
    cases = [_case("marks on samples, idle before and after", marked, (1.0, 3.0), draw.whole(50, 900))]
    marks = cases[0]["window"]
    marks[0], marks[1] = marked[4]["seconds"], marked[12]["seconds"]  # the very numbers of two samples
    between = _samples([IDLE, _decode(draw, 2.5), IDLE], _times(draw, 4.4, 0.05, 0.6), draw)
    cases.append(_case("marks between irregular samples", between, (1.13, 3.31), draw.whole(50, 900)))
    prefill = _samples([IDLE, _prefill(draw), _decode(draw), IDLE], _times(draw, 4.9, 0.1, 0.3), draw)
    cases.append(_case("a prefill before the window", prefill, (2.05, 3.95), draw.whole(50, 900)))
    two = _samples([_decode(draw, 9.0)], [0.0, draw.between(2.5, 4.0)], draw)
    cases.append(_case("two samples, the second exactly at the end", two, (0.7, 2.1), draw.whole(50, 900)))
    two[1]["seconds"] = cases[-1]["window"][1]
    return cases


def counter_cases(seed: int) -> list[Case]:
    """The counter repeats itself, starts anew, or does not reach far enough; and no token was made."""
    draw = _Draw(seed)

    def decode(renewed: float = 0.0, length: float = 4.9) -> list[dict[str, Any]]:
        return _samples([IDLE, _decode(draw, 2.4), IDLE], _times(draw, length, 0.03, 0.12), draw, renewed)

    stale = _case("a counter that is renewed every 0.3 s", decode(0.3), (1.2, 3.25), draw.whole(50, 900))
    inside = _restarted(decode(), 2.0)
    twice = [sample for sample in decode() for _ in range(draw.whole(1, 4))]
    short = decode(1.0)
    end = short[-1]["seconds"] - short[0]["seconds"] - 1e-3  # covered by samples, but not by fresh ones
    return [
        stale,
        _case("the driver is loaded anew in the window", inside, (1.2, 3.2), draw.whole(50, 900)),
        _case("the driver is loaded anew before the window", _restarted(decode(), 0.6), (1.2, 3.2), draw.whole(50, 900)),
        _case("samples that stand there twice", twice, (1.21, 3.17), draw.whole(50, 900)),
        _case("no fresh reading behind the window", short, (1.2, end), draw.whole(50, 900)),
        _case("the recording begins inside the window", decode(), (-0.5, 2.0), draw.whole(50, 900)),
        _case("no token was made", decode(), (1.2, 3.2), 0),
    ]


def _restarted(samples: list[dict[str, Any]], moment: float) -> list[dict[str, Any]]:
    """The counter begins at 0 after `moment` seconds."""
    zero, last = samples[0]["seconds"], 0
    for sample in samples:
        if sample["seconds"] - zero < moment:
            last = sample["energy_mj"]
        else:
            sample["energy_mj"] -= last
    return samples


def activity_cases(seed: int) -> list[Case]:
    """What GPM saw, weighted with time: a kernel that only spins, a decode loop, GPM that is missing everywhere or in a part."""
    draw = _Draw(seed)

    def decode(*parts: tuple) -> list[dict[str, Any]]:
        return _samples([IDLE, *(parts or (_decode(draw, 1.3), _prefill(draw, 1.3))), IDLE], _times(draw, 4.9, 0.05, 0.5), draw)

    spin = decode((2.6, draw.between(110, 140), 100, 0.0, 0.0, 0, 1980))
    nowhere, partly, outside = decode(), decode(), decode()
    for sample in nowhere:
        sample["gpm"] = None
    zero = partly[0]["seconds"]
    partly[next(i for i, s in enumerate(partly) if s["seconds"] - zero > 2.0)]["gpm"] = None
    for sample in outside:
        if not 0.9 < sample["seconds"] - outside[0]["seconds"] < 4.2:
            sample["gpm"] = None
    doubled = [row for sample in decode() for row in [sample] + [sample | {"gpm": None}] * draw.whole(0, 3)]
    tokens = draw.whole(50, 900)
    return [
        _case("a kernel that only spins", spin, (1.6, 3.05), 0),
        _case("two kinds of work, irregular samples", decode(), (1.07, 3.55), tokens),
        _case("idle ends inside the window", decode(), (0.41, 4.44), tokens),
        _case("no GPM", nowhere, (1.1, 3.5), tokens),
        _case("GPM is missing for a part of the window", partly, (1.1, 3.5), tokens),
        _case("GPM is missing outside the window only", outside, (1.6, 3.4), tokens),
        _case("samples that stand there twice", doubled, (1.1, 3.5), tokens),
    ]


def clock_cases(seed: int) -> list[Case]:
    """Reasons in the window count, those before and after do not; some bits are no throttling."""
    draw = _Draw(seed)

    def recording(*masks: int, before: int = 0x4) -> list[dict[str, Any]]:
        works = [_decode(draw, 2.0 / len(masks), mask) for mask in masks]
        return _samples([IDLE, _prefill(draw, 1.0, before), *works, IDLE], [0.1 * step for step in range(51)], draw)

    tokens, window = draw.whole(50, 900), (2.06, 3.94)
    every = [0x4, 0x8, 0x20, 0x40, 0x80]
    one = every[draw.whole(0, 5)]
    return [
        _case("a power cap before the window, none in it", recording(0, 0), window, tokens),
        _case("a power cap in the window", recording(0, 0x4, 0, before=0), window, tokens),
        _case("clocks that somebody has set", recording(0x2, 0x10, 0x100), window, tokens),
        _case("heat and a brake, together and one after another", recording(0x48, 0x80 | 0x2, 0), window, tokens),
        _case("one of the five", recording(0, one, one), window, tokens),
        _case("all of them, and a bit that nobody knows", recording(sum(every) | 0x400, 0x1), window, tokens),
    ]


def device_cases(seed: int) -> list[Case]:
    """One recording, and the data sheet for the device in use."""
    from ...hardware import all_specs

    case = activity_cases(seed)[1] | {"name": "this device"}
    sheet = [
        {"names": list(g.names), "hbm_gb_per_s": float(g.hbm_gb_per_s), "hbm_gb": float(g.hbm_gb)} for g in all_specs().values()
    ]
    return [case | {"sheet": sheet}]
