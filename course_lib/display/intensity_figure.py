"""Arithmetic intensity against batch: curves that bend where keys and values outgrow the weights, and the ridges above them."""

from collections.abc import Mapping, Sequence
from typing import Any

from .style import COLOURS, GREY, axes, show


def intensity_figure(
    curves: Mapping[str, Sequence[tuple[float, float]]], ridges: Mapping[str, float], *, display: bool = True
) -> Any:
    """Draw intensity against batch, both logarithmic, and a level line at each ridge.

    curves   label -> [(batch, FLOP per byte), ...]; ridges: label -> FLOP per byte
    display  show it in the notebook; either way the figure is returned
    """
    figure, ax = axes(7.6, 4.6)
    batches = [batch for points in curves.values() for batch, _ in points]
    left, right = min(batches), max(batches)
    for (label, points), colour in zip(curves.items(), COLOURS, strict=False):
        xs, ys = zip(*points, strict=True)
        ax.plot(xs, ys, color=colour, linewidth=2)
        ax.annotate(label, (xs[-1], ys[-1]), xytext=(5, 0), textcoords="offset points", color=colour, fontsize=9, va="center")
    for label, ridge in ridges.items():
        ax.axhline(ridge, color=GREY, linewidth=1, linestyle=(0, (5, 3)), zorder=1)
        ax.annotate(f"ridge of {label}: {ridge:.0f}", (left, ridge), xytext=(2, 3), textcoords="offset points",
                    color=GREY, fontsize=9)  # fmt: skip
    ax.set(xscale="log", yscale="log", xlim=(left, right))
    ticks = [2**n for n in range(0, 24, 2) if left <= 2**n <= right]
    ax.set_xticks(ticks, [f"{tick:,}".replace(",", " ") for tick in ticks])
    ax.minorticks_off()
    ax.set(xlabel="batch: sequences in a decode step", ylabel="arithmetic intensity, FLOP per byte")
    if display:
        ends = ", ".join(f"{label}: {points[-1][1]:.3g}" for label, points in curves.items())
        lines = ", ".join(f"{label} {ridge:.0f}" for label, ridge in ridges.items())
        show(figure, f"Intensity against batch up to {right:g}. FLOP per byte there: {ends}. Ridges: {lines}")
    return figure
