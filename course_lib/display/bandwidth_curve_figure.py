"""Bandwidth against size: a small transfer pays the latency, a large one the memory's rate, and the plateau lies in between."""

from collections.abc import Mapping, Sequence
from typing import Any

from .style import COLOURS, GREY, axes, show

Points = Sequence[tuple[float, float]]  # (bytes, seconds), sizes ascending


def half_bandwidth_bytes(floor_seconds: float, gb_per_s: float) -> float:
    """The size at which latency and transfer take equally long, floor * W: half of the bandwidth is reached there."""
    return floor_seconds * gb_per_s * 1e9


def bandwidth_curve_figure(
    device: str,
    curves: Mapping[str, Points],
    *,
    spread: Sequence[tuple[float, float]] = (),
    l2_bytes: float | None = None,
    sheet_gb_per_s: float | None = None,
    display: bool = True,
) -> Any:
    """Draw GB/s against size, the first curve with its spread and with t = t0 + bytes / W beside it.

    curves   label -> (bytes, seconds) pairs; t0 is the first curve's shortest time, W the rate at its largest size
    spread   (shortest, longest) seconds of each point of the first curve
    display  show it in the notebook; either way the figure is returned
    """
    first = next(iter(curves.values()))
    floor_seconds, plateau = min(seconds for _, seconds in first), first[-1][0] / first[-1][1] / 1e9
    half = half_bandwidth_bytes(floor_seconds, plateau)
    figure, ax = axes(7.6, 4.4)
    for (label, points), colour in zip(curves.items(), COLOURS, strict=False):
        sizes = [size for size, _ in points]
        ax.plot(sizes, [size / seconds / 1e9 for size, seconds in points], "o-", color=colour, markersize=4, label=label)
        if points is first and spread:
            low = [size / longest / 1e9 for size, (_, longest) in zip(sizes, spread, strict=True)]
            high = [size / shortest / 1e9 for size, (shortest, _) in zip(sizes, spread, strict=True)]
            ax.fill_between(sizes, low, high, color=colour, alpha=0.25, linewidth=0)
    left, right = first[0][0], first[-1][0]
    steps = [left * (right / left) ** (i / 200) for i in range(201)]
    ax.plot(steps, [size / (floor_seconds + size / (plateau * 1e9)) / 1e9 for size in steps], "--", color=GREY, linewidth=1.2,
            label=f"t = {floor_seconds * 1e6:.1f} µs + bytes / ({plateau:,.0f} GB/s)")  # fmt: skip
    top = 1.25 * max([plateau, sheet_gb_per_s or 0, *(s / t / 1e9 for points in curves.values() for s, t in points)])
    if sheet_gb_per_s:
        ax.axhline(sheet_gb_per_s, color=GREY, linewidth=1, linestyle=":")
        ax.annotate(f"data sheet, {sheet_gb_per_s:,.0f} GB/s", (right, sheet_gb_per_s), xytext=(0, 3), textcoords="offset points",
                    ha="right", fontsize=9, color=GREY)  # fmt: skip
    ax.axvspan(left, half, color=COLOURS[1], alpha=0.07, linewidth=0)
    _upright(ax, half, f"dashed line at half: {_size(half)}", 0.45)
    if l2_bytes:
        _upright(ax, l2_bytes, f"L2: {_size(l2_bytes)}", 0.04)
    ax.annotate("launch and latency", ((left * half) ** 0.5, 0.42 * top), ha="center", fontsize=9, color=COLOURS[1])
    ax.annotate("plateau: HBM", (right, plateau), xytext=(0, -32), textcoords="offset points", ha="right", fontsize=9,
                color=COLOURS[0])  # fmt: skip
    ax.set(xscale="log", xlim=(left, right * 1.5), ylim=(0, top), xlabel="bytes moved", ylabel="GB/s (1 GB = 1e9 bytes)")
    ticks = [2**n for n in range(8, 40, 4) if left <= 2**n <= right]
    ax.set_xticks(ticks, [_size(tick) for tick in ticks])
    ax.minorticks_off()
    ax.legend(loc="upper left", frameon=False, fontsize=9, bbox_to_anchor=(0, 0.99))
    ax.set_title(device, fontsize=10, loc="left")
    if display:
        said = "; ".join(f"{_size(size)}: {size / seconds / 1e9:,.0f} GB/s in {seconds * 1e6:.3g} µs" for size, seconds in first)
        show(figure, f"Bandwidth against size, {device}. {said}")
    return figure


def _upright(ax: Any, size: float, words: str, height: float) -> None:
    ax.axvline(size, color=GREY, linewidth=1, linestyle=(0, (5, 3)), zorder=1)
    ax.annotate(words, (size, height), xycoords=("data", "axes fraction"), xytext=(3, 0), textcoords="offset points", rotation=90,
                fontsize=9, color=GREY, va="bottom")  # fmt: skip


def _size(size: float) -> str:
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size:.0f} B"
