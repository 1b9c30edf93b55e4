"""Joules per token and watts against the batch: power hardly moves, and a token becomes cheaper."""

from collections.abc import Sequence
from typing import Any

from .style import COLOURS, axes, show


def energy_figure(
    batches: Sequence[int], joules_per_token: Sequence[float], watts: Sequence[float], device: str, *, display: bool = True
) -> Any:
    """One point for each batch -> the figure. Left axis: joules per token, logarithmic; right axis: mean watts from 0."""
    figure, left = axes()
    right = left.twinx()
    left.plot(batches, joules_per_token, "o-", color=COLOURS[0], linewidth=2)
    right.plot(batches, watts, "s--", color=COLOURS[1], linewidth=1.5)
    for batch, joules in zip(batches, joules_per_token, strict=True):
        left.annotate(f"{joules:.3g} J", (batch, joules), xytext=(6, 6), textcoords="offset points", color=COLOURS[0], fontsize=9)
    left.set(xscale="log", yscale="log", xlabel="batch, sequences", xticks=list(batches), xticklabels=[str(b) for b in batches])
    left.set(xlim=(batches[0] / 1.3, batches[-1] * 2), ylim=(min(joules_per_token) / 1.6, max(joules_per_token) * 1.8))
    left.minorticks_off()
    left.set_ylabel("joules per token", color=COLOURS[0])
    right.set_ylabel("mean watts of the board", color=COLOURS[1])
    right.set_ylim(0, 1.25 * max(watts))
    right.spines["top"].set_visible(False)
    left.set_title(device, fontsize=9, loc="left")
    if display:
        points = zip(batches, joules_per_token, watts, strict=True)
        show(figure, f"Energy on {device}. " + ", ".join(f"batch {b}: {j:.3g} J per token at {w:.0f} W" for b, j, w in points))
    return figure
