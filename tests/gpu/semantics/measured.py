"""How far the device is from exact arithmetic: what the bounds in the probes are set by, and which model of a 16-bit sum fits."""

from collections.abc import Callable, Mapping

import numpy as np

from .bits import Bits
from .probe import Probe, Within, ulps


def report(probes: Mapping[str, Probe], outputs: Mapping[str, list[Bits]]) -> list[str]:
    """One line for each probe with a known truth, then one for each 16-bit sum."""
    lines = []
    for name, out in outputs.items():
        probe = probes[name]
        if probe.truth is None:
            continue
        try:
            lines.append(_line(probe, out[0]))
        except Exception as error:  # a report must not cost the record
            lines.append(f"{name}: not measured, {type(error).__name__}: {error}")
    return sorted(lines)


def _line(probe: Probe, out: Bits) -> str:
    inputs = probe.inputs()
    truth = np.asarray(probe.truth(inputs), np.float64).ravel()
    got = Bits(out.dtype, out.data.ravel())
    values = got.values().astype(np.float64)
    odd = int((np.isfinite(values) != np.isfinite(truth)).sum())
    both = np.isfinite(values) & np.isfinite(truth)
    nearest = rounded(truth, out.dtype)
    worst = int(ulps(nearest, got)[both].max(initial=0)) if nearest is not None else 0
    tail = (
        f"{probe.name}: at most {worst} ulp from the rounded truth, equal in {float((ulps(nearest, got)[both] == 0).mean()):.3f}"
        if nearest is not None
        else probe.name
    )
    if isinstance(probe.rule, Within):
        scale = np.asarray(probe.rule.scale(inputs)).ravel()
        share = np.abs(values - truth)[both] / np.where(scale == 0, 1, scale)[both]
        worst = np.log2(max(share.max(initial=0), 2.0**-60))
        tail += f"; error / magnitudes at most 2^{worst:.1f}, two ways may differ by 2^{np.log2(probe.rule.eps):.0f}"
    if odd:
        tail += f"; {odd} finite where the truth is not, or the other way round"
    if "whole numbers" in probe.name and " sum " in probe.name and out.dtype in ("fp16", "bf16"):
        tail += "; rows equal to a model: " + _models(inputs[0], got)
    return tail


def rounded(values: np.ndarray, dtype: str) -> Bits | None:
    """float64 -> the nearest value of the type (to even). bf16 by hand: float32 first would round twice, so from the float64."""
    with np.errstate(over="ignore", invalid="ignore"):
        if dtype == "fp32":
            return Bits(dtype, values.astype(np.float32).view(np.uint32))
        if dtype == "fp16":
            return Bits(dtype, values.astype(np.float16).view(np.uint16))
        if dtype == "bf16":
            mantissa, exponent = np.frexp(values)
            short = np.ldexp(np.rint(mantissa * 256) / 256, exponent).astype(np.float32)
            return Bits(dtype, (short.view(np.uint32) >> 16).astype(np.uint16))
    return None


def _models(x: Bits, got: Bits) -> str:
    """In how many rows four ways to add give the device's sum."""
    rows, dtype = x.values(), x.dtype

    def step(values: np.ndarray) -> np.ndarray:
        bits = rounded(values, dtype)
        assert bits is not None
        return bits.values()

    def folded(pair: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        left = rows
        while left.shape[1] > 1:
            a, b = pair(left)
            left = step(a + b)
        return left[:, 0]

    one_by_one = np.zeros(len(rows))
    for column in rows.T:
        one_by_one = step(one_by_one + column)
    models = {
        "float32, rounded once": step(rows.sum(1)),
        "halves": folded(lambda v: (v[:, : v.shape[1] // 2], v[:, v.shape[1] // 2 :])),
        "neighbours": folded(lambda v: (v[:, ::2], v[:, 1::2])),
        "one by one": one_by_one,
    }
    return ", ".join(f"{name} {int((got.values() == model).sum())}/{len(rows)}" for name, model in models.items())
