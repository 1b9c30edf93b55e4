"""Launches on a GPU's roofline: a mark for what they request and one for what is distinct, with a line between.

Requested  FLOP per requested byte: where a machine without caches would stand
Distinct   FLOP per distinct byte: where a machine whose caches hold everything would; a real one is between the two
The roof is the data sheet's dense tensor-core rate for the launch's products (fp8 where all of them are fp8, else bf16).
"""

from collections.abc import Sequence
from typing import Any

from ..hardware import GpuSpec
from ..interpreter.counts.books import LaunchLedger
from ..interpreter.counts.roofline_point import ROOFED, peak_of
from .ledger_numbers import intensity_text, seconds_text
from .roofline_axes import label_roofline_axes
from .style import COLOURS, GREY, axes

GPU = "H100 SXM"


def floors(launch: LaunchLedger, gpu: GpuSpec) -> str:
    """Time that no run on this GPU can beat, in one sentence, and what the roof leaves out."""
    speed = gpu.hbm_gb_per_s * 1e9
    least, most = launch.total.distinct_bytes / speed, launch.total.bytes / speed
    peak, precision = peak_of(launch, gpu)
    memory = f"{seconds_text(least)} for the distinct bytes"
    if most != least:
        memory += f" and {seconds_text(most)} for the requested ones"
    said = f"On {gpu.name}, at the data sheet's {gpu.hbm_gb_per_s:,.0f} GB/s: {memory}"
    dots = sum(launch.dot_flops.values())
    others = [kind for kind in launch.dot_flops if kind not in ROOFED]
    if dots:
        said += f"; at {peak:,.0f} TFLOP/s ({precision}, dense): {seconds_text(dots / (peak * 1e12))} for the products"
    said += "."
    if others:
        said += f" Products of {', '.join(others)} have another roof than {precision}'s, which is the one drawn."
    elif not dots and launch.elementwise_flops:
        said += " Elementwise work runs beside the tensor cores, at a lower rate than the roof that is drawn."
    return said


def ledger_roofline(launches: Sequence[LaunchLedger], gpu: GpuSpec) -> Any:
    """The figure, or None when no launch has FLOPs and bytes (a copy has no place on a roofline, only a time floor)."""
    drawn = [(number, one) for number, one in enumerate(launches, 1) if one.flops and one.total.bytes]
    if not drawn:
        return None
    peaks = sorted({peak_of(one, gpu) for _, one in drawn})
    slope = gpu.hbm_gb_per_s / 1e3  # TFLOP/s for each FLOP per byte
    every = [x for _, one in drawn for x in (one.requested_intensity, one.intensity)]
    left, right = min(0.3, *every) / 6, max(5000.0, 3 * max(every))
    figure, ax = axes(4.3, 3.2)
    for (peak, precision), style in zip(peaks, ("-", "--"), strict=False):
        ridge = peak / slope
        label = f"{gpu.name}, {precision} dense, ridge at {ridge:.0f}"
        ax.plot([left, ridge, right], [left * slope, peak, peak], style, color=GREY, linewidth=2, label=label)
        ax.plot([ridge], [peak], "o", color=GREY, markersize=5)
    for place, (numbers, one) in enumerate(_together(drawn, gpu)):
        _mark(ax, one, peak_of(one, gpu)[0], slope, COLOURS[place % len(COLOURS)], numbers if len(launches) > 1 else "")
    label_roofline_axes(ax, "attainable TFLOP/s")
    ax.set(xlim=(left, right), ylim=(left * slope, 2.5 * peaks[-1][0]))
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=1, frameon=False, fontsize=9)
    return figure


def _together(drawn: Sequence[tuple[int, LaunchLedger]], gpu: GpuSpec) -> list[tuple[str, LaunchLedger]]:
    """Launches at one point are drawn once, under all their numbers: ("1, 3", the first of them)."""
    points: dict[tuple, list[tuple[int, LaunchLedger]]] = {}
    for number, one in drawn:
        point = (peak_of(one, gpu), intensity_text(one.requested_intensity), intensity_text(one.intensity))
        points.setdefault(point, []).append((number, one))
    names = [[str(number) for number, _ in same] for same in points.values()]
    short = [", ".join(some) if len(some) <= 3 else f"{some[0]} and {len(some) - 1} more" for some in names]
    return [(name, same[0][1]) for name, same in zip(short, points.values(), strict=True)]


def roofline_words(launches: Sequence[LaunchLedger], gpu: GpuSpec) -> str:
    """The figure for readers who do not see it."""
    said = [
        f"{one.kernel}: {intensity_text(one.requested_intensity)} FLOP per requested byte, "
        f"{intensity_text(one.intensity)} per distinct byte"
        for one in launches
    ]
    ridge = gpu.half_tflops / gpu.hbm_gb_per_s * 1e3
    return f"Roofline of {gpu.name}, ridge at {ridge:.0f} FLOP per byte ({gpu.half_precision}, dense). {'; '.join(said)}."


def _mark(ax: Any, launch: LaunchLedger, peak: float, slope: float, colour: str, numbers: str) -> None:
    """An open circle for requested, a full one for distinct, both on the roof, and a line from one to the other."""
    xs = (launch.requested_intensity, launch.intensity)
    ys = [min(peak, x * slope) for x in xs]
    corner = peak / slope
    path = [xs[0], *([corner] if xs[0] < corner < xs[1] else []), xs[1]]
    ax.plot(path, [min(peak, x * slope) for x in path], color=colour, linewidth=4, alpha=0.35, solid_capstyle="round")
    ax.plot(xs[0], ys[0], "o", color=colour, markersize=8, markerfacecolor="white", markeredgewidth=1.8, zorder=4)
    ax.plot(xs[1], ys[1], "o", color=colour, markersize=8, zorder=5)
    lead = f"{numbers}: " if numbers else ""
    words = ("requested ", "distinct ") if xs[0] != xs[1] else ("", "")
    for x, y, word in list(zip(xs, ys, words, strict=True))[xs[0] == xs[1] :]:
        # to the right and below there is room under a roof
        label = f"{lead}{word}{intensity_text(x)}"
        ax.annotate(label, (x, y), (9, -14), textcoords="offset points", color=colour, fontsize=9)
