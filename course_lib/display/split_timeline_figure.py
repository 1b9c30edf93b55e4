"""Who works on what, and until when: items of decode work on the programs of a GPU, in a model that counts blocks as time."""

from collections.abc import Mapping, Sequence
from typing import Any

from .style import GREY, MORE_COLOURS, show

LIGHTER = 0.55  # of every other item, so that neighbours are told apart


def split_timeline_figure(
    plans: Mapping[str, Sequence[tuple[int, int, int, int]]], programs: int, *, display: bool = True
) -> Any:
    """A panel for each plan: title -> (program, start, end, sequence) of each item.

    The dashed line is where all programs would end, were the work spread evenly.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import to_rgba
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.4 * len(plans) + 0.4, 3.7), dpi=110, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    words = []
    for ax, (title, items) in zip(figure.subplots(1, len(plans), squeeze=False)[0], plans.items(), strict=True):
        boxes = [[(start, p), (end, p), (end, p + 1), (start, p + 1)] for p, start, end, _ in items]
        colours = [
            to_rgba(MORE_COLOURS[sequence % len(MORE_COLOURS)], (1, LIGHTER)[place % 2])
            for place, (*_, sequence) in enumerate(items)
        ]
        ax.add_collection(PolyCollection(boxes, facecolors=colours, linewidths=0))
        last = max((end for _, _, end, _ in items), default=0)
        even = sum(end - start for _, start, end, _ in items) / programs
        ax.axvline(even, color=GREY, linestyle="--", linewidth=1)
        ax.set(xlim=(0, 1.05 * max(1, last, even)), ylim=(programs, 0), xlabel="time, in blocks of one program")
        told = f"{len(items)} items, done after {last:,}, {even / max(last, 1):.0%} busy"
        ax.set_title(f"{title}\n{told}", loc="left", fontsize=9)
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=8)
        words.append(f"{title}: {told}, evenly spread {even:,.0f}")
    figure.axes[0].set_ylabel("program")
    if display:
        show(figure, f"Timelines of {programs} programs, a colour for each sequence. {'; '.join(words)}.")
    return figure
