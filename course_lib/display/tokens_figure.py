"""Time of one product against its tokens: level while the weights take longer, rising once arithmetic does."""

from collections.abc import Mapping, Sequence
from typing import Any

from .style import COLOURS, GREY, axes, show


def tokens_figure(
    measured: Mapping[str, Sequence[tuple[float, float]]],
    floors: Sequence[tuple[float, float]],
    threshold: float,
    device: str,
    *,
    display: bool = True,
) -> Any:
    """Draw measured times, the floor, and the number of tokens at which the floor bends.

    measured   label -> [(tokens, microseconds), ...]; floors: [(tokens, microseconds), ...]
    display    show it in the notebook; either way the figure is returned
    """
    figure, ax = axes(7.6, 4.2)
    ax.plot(*zip(*floors, strict=True), color=GREY, linewidth=2, label="floor, from the data sheet")
    for (label, points), colour in zip(measured.items(), COLOURS, strict=False):
        ax.plot(*zip(*points, strict=True), "o", color=colour, markersize=5, label=f"{label}, measured")
    ax.axvline(threshold, color=GREY, linewidth=1, linestyle=(0, (5, 3)), zorder=1)
    ax.annotate(f"{threshold:.0f} tokens", (threshold, 1), xycoords=("data", "axes fraction"), xytext=(-4, -12),
                textcoords="offset points", color=GREY, fontsize=9, ha="right")  # fmt: skip
    tokens = [count for count, _ in floors]
    ax.set(xscale="log", yscale="log", xlim=(min(tokens), max(tokens)))
    ticks = [2**n for n in range(0, 24, 2) if min(tokens) <= 2**n <= max(tokens)]
    ax.set_xticks(ticks, [f"{tick:,}".replace(",", " ") for tick in ticks])
    lowest = min(time for points in (*measured.values(), floors) for _, time in points)
    highest = max(time for points in (*measured.values(), floors) for _, time in points)
    marks = [m for m in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if lowest / 2 <= m <= 2 * highest]
    ax.set_yticks(marks, [str(mark) for mark in marks])
    ax.minorticks_off()
    ax.set(xlabel="tokens", ylabel="microseconds", title=device)
    ax.legend(loc="upper left", frameon=False)
    if display:
        texts = (f"{label}: " + ", ".join(f"{count:g} tokens {time:.3g} us" for count, time in points[::4])
                 for label, points in measured.items())  # fmt: skip
        bend = f"The floor bends at {threshold:.0f} tokens"
        show(figure, f"Time of a product against tokens on {device}. {'; '.join(texts)}. {bend}")
    return figure
