"""Time of a decode step against its context, on straight axes: a stall would be a step, and the same for each token is a line."""

from collections.abc import Sequence
from typing import Any

from .style import COLOURS, GREY, axes, show


def context_figure(
    measured: Sequence[tuple[float, float]],
    floors: Sequence[tuple[float, float]],
    device: str,
    *,
    l2_tokens: float | None = None,
    claimed: float | None = None,
    display: bool = True,
) -> Any:
    """Draw measured and least milliseconds against tokens of context.

    l2_tokens, claimed   contexts to mark: what an L2 would hold, and where somebody says that decoding stalls
    display              show it in the notebook; either way the figure is returned
    """
    figure, ax = axes(7.6, 4.2)
    ax.plot(*zip(*floors, strict=True), color=GREY, linewidth=2, label="floor, from the data sheet")
    ax.plot(*zip(*measured, strict=True), "o-", color=COLOURS[0], markersize=5, linewidth=1, label="measured")
    marks = {"L2 would hold": l2_tokens, "claimed stall": claimed}
    for words, tokens in marks.items():
        if tokens is not None:
            ax.axvline(tokens, color=COLOURS[1], linewidth=1, linestyle=(0, (5, 3)), zorder=1)
            label = f"{words}: {tokens:,.0f}".replace(",", " ")
            ax.annotate(label, (tokens, 0), xycoords=("data", "axes fraction"), xytext=(4, 6), textcoords="offset points",
                        color=COLOURS[1], fontsize=9)  # fmt: skip
    ax.set(xlim=(0, None), ylim=(0, None), xlabel="tokens of context of each sequence", ylabel="milliseconds", title=device)
    ax.legend(loc="lower right", bbox_to_anchor=(1, 0.08), frameon=False)
    if display:
        values = ", ".join(f"{tokens:g} tokens {time:.3g} ms" for tokens, time in measured)
        show(figure, f"Time of a decode step against its context on {device}: {values}")
    return figure
