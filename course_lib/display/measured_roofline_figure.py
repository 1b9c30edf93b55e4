"""A device's own roofline: what the data sheet promises dashed, what was measured solid with its spread, and measured kernels."""

from collections.abc import Mapping
from typing import Any

from .labels import label_points
from .roofline_axes import check_roofline_axes, label_roofline_axes
from .style import COLOURS, GREY, axes, show

LEFT, RIGHT = 0.1, 10000.0  # FLOP per byte
Spread = tuple[float, float, float]  # lowest, median, highest


def measured_roofline_figure(
    device: str,
    memory: Mapping[str, Spread],
    compute: Mapping[str, Spread],
    *,
    sheet_gb_per_s: float | None = None,
    sheet_tflops: Mapping[str, float] | None = None,
    points: Mapping[str, tuple[float, float]] | None = None,
    display: bool = True,
) -> Any:
    """Draw measured roofs as (lowest, median, highest), the sheet's beside them, and kernels that were measured.

    device        whose roofs these are, and whether they were recorded or measured now: the title
    memory        label -> GB/s; the slopes. compute: label ("bf16") -> TFLOP/s; the flat roofs
    sheet_tflops  the sheet's dense peaks under the same labels
    points        label -> (FLOP per byte, TFLOP/s)
    display       show it in the notebook; either way the figure is returned
    """
    if not memory or not compute:
        raise ValueError(f"a roofline has a slope and a flat roof; got {len(memory)} of the one and {len(compute)} of the other")
    figure, ax = axes(7.6, 4.8)
    peaks, sheet_tflops = {label: spread[1] for label, spread in compute.items()}, sheet_tflops or {}
    steepest, highest = max(spread[1] for spread in memory.values()) / 1e3, max(peaks.values())
    colours = dict(zip([*memory, *compute], COLOURS * 2, strict=False))
    for label, spread in memory.items():
        end = highest / (spread[1] / 1e3)
        _band(ax, [LEFT, end], [[x * rate / 1e3 for x in (LEFT, end)] for rate in spread], colours[label],
              f"{label}: {spread[1]:,.0f} GB/s")  # fmt: skip
    for label, spread in compute.items():
        _band(ax, [spread[1] / steepest, RIGHT], [[rate, rate] for rate in spread], colours[label],
              f"{label}: {spread[1]:,.0f} TFLOP/s")  # fmt: skip
    if sheet_gb_per_s:
        top = max([*sheet_tflops.values(), highest])
        end = top / (sheet_gb_per_s / 1e3)
        ax.plot([LEFT, end], [LEFT * sheet_gb_per_s / 1e3, top], "--", color=GREY, linewidth=1.2, label="data sheet")
        for label, peak in sheet_tflops.items():
            ax.plot([peak * 1e3 / sheet_gb_per_s, RIGHT], [peak, peak], "--", color=colours.get(label, GREY), linewidth=1.2)
    lowest = min([LEFT * steepest, *(rate for _, rate in (points or {}).values())])
    ax.set(xlim=(LEFT, RIGHT), ylim=(lowest / 2, 2.5 * max([highest, *sheet_tflops.values()])))
    label_roofline_axes(ax, "attainable and measured TFLOP/s (dense)")
    for intensity, rate in (points or {}).values():
        ax.plot([intensity], [rate], "o", color="#111827", markersize=6, zorder=4)
    ax.legend(loc="lower right", frameon=False, fontsize=9)
    ax.set_title(device, fontsize=10, loc="left")
    label_points(ax, [(label, x, y, "#111827") for label, (x, y) in (points or {}).items()])
    check_roofline_axes(ax)
    if display:
        show(figure, _alt(device, memory, compute, points or {}))
    return figure


def _band(ax: Any, xs: list[float], rates: list[list[float]], colour: str, label: str) -> None:
    low, middle, high = rates
    ax.fill_between(xs, low, high, color=colour, alpha=0.25, linewidth=0)
    ax.plot(xs, middle, color=colour, linewidth=2, label=label)


def _alt(device: str, memory: Mapping[str, Spread], compute: Mapping[str, Spread], points: Mapping[str, tuple]) -> str:
    said = [f"{label} {low:,.0f} to {high:,.0f} GB/s, median {mid:,.0f}" for label, (low, mid, high) in memory.items()]
    said += [f"{label} {low:,.0f} to {high:,.0f} TFLOP/s, median {mid:,.0f}" for label, (low, mid, high) in compute.items()]
    said += [f"{label} at {x:.3g} FLOP per byte and {y:.3g} TFLOP/s" for label, (x, y) in points.items()]
    return f"Measured roofline of {device}: {'; '.join(said)}"
