"""Perplexity of a text without an end against the window that is kept, with level lines for what a window is compared with."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

from .style import GREY, MORE_COLOURS, axes, show


def window_figure(curves: Mapping[str, Sequence[tuple[int, float]]], levels: Mapping[str, float], *, display: bool = True) -> Any:
    """Curves: label -> [(window, perplexity), ...], windows ascending; levels: label -> perplexity, drawn across."""
    figure, ax = axes(7.2, 3.8)
    for (label, points), colour in zip(curves.items(), cycle(MORE_COLOURS), strict=False):
        ax.plot(*zip(*points, strict=True), "o-", color=colour, markersize=5, label=label)
    for label, perplexity in levels.items():
        ax.axhline(perplexity, color=GREY, linewidth=1, linestyle=(0, (5, 3)), zorder=1)
        ax.annotate(label, (1, perplexity), xycoords=("axes fraction", "data"), xytext=(-4, -12), textcoords="offset points",
                    ha="right", color=GREY, fontsize=9)  # fmt: skip
    windows = sorted({window for points in curves.values() for window, _ in points})
    ax.set(xscale="log", ylim=(0, None), xlabel="tokens in the window", ylabel="perplexity")
    ax.set_xticks(windows, labels=windows)
    ax.minorticks_off()
    ax.legend(frameon=False)
    if display:
        told = [f"{label}: " + ", ".join(f"{w} tokens {p:.2f}" for w, p in points) for label, points in curves.items()]
        show(figure, "Perplexity against the window. " + "; ".join([*told, *(f"{k} {p:.2f}" for k, p in levels.items())]))
    return figure
