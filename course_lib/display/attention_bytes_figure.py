"""Bytes that attention moves against the length of the sequence, on logarithmic axes: naive, in tiles, and the least."""

from collections.abc import Mapping, Sequence
from typing import Any

from .style import COLOURS, GREY, axes, show


def attention_bytes_figure(
    curves: Mapping[str, Sequence[tuple[float, float]]], least: Sequence[tuple[float, float]], title: str, *, display: bool = True
) -> Any:
    """Draw each curve and, in grey, what cannot be done without.

    curves  label -> [(tokens, bytes), ...], tokens ascending;  least: [(tokens, bytes), ...]
    """
    figure, ax = axes(7.6, 4.4)
    for (label, points), colour in zip(curves.items(), COLOURS, strict=False):
        ax.plot(*zip(*points, strict=True), color=colour, linewidth=2)
        ax.annotate(label, points[-1], xytext=(6, 0), textcoords="offset points", color=colour, fontsize=9, va="center")
    ax.plot(*zip(*least, strict=True), color=GREY, linewidth=2, linestyle=(0, (5, 3)))
    ax.annotate("each byte once", least[-1], xytext=(6, 0), textcoords="offset points", color=GREY, fontsize=9, va="center")
    first, last = least[0][0], least[-1][0]
    ax.set(xscale="log", yscale="log", xlabel="tokens of the prompt", ylabel="bytes", title=title, xlim=(first, last * 8))
    ticks = [tokens for tokens, _ in least]
    ax.set_xticks(ticks, [f"{tokens // 1024}k" if tokens >= 1024 else f"{tokens}" for tokens in ticks])
    ax.minorticks_off()
    if display:
        ends = [f"{label}: {points[0][1]:.3g} at {points[0][0]:g} tokens, {points[-1][1]:.3g} at {points[-1][0]:g}"
                for label, points in [*curves.items(), ("each byte once", least)]]  # fmt: skip
        show(figure, f"Bytes against tokens. {title}. " + "; ".join(ends))
    return figure
