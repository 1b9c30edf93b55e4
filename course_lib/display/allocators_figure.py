"""Memory of several allocators over time, one below the other on one time axis: what holds tokens, and what the rest is."""

from collections.abc import Sequence
from typing import Any

from .style import COLOURS, show

# part of a row, its colour, what it is called in the legend
PARTS = (
    ("live", COLOURS[0], "holds a token"),
    ("reserved", COLOURS[4], "reserved: for tokens still to come"),
    ("internal", COLOURS[1], "internal: never used"),
    ("external", COLOURS[3], "external: free, in holes too short"),
)


def allocators_figure(runs: Sequence[Any], title: str = "", *, display: bool = True) -> Any:
    """Draw a band for each run: its memory in percent, stacked, from the first step to the end of the longest run.

    runs     each with allocator (its name), rows (of each: step, live, reserved, internal, external, free, in slots), steps,
             loaded (the range of steps under load) and mean_shares(), as course_lib.kvcache.replay gives them
    display  show it in the notebook; either way the figure is returned
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.4, 1.25 * len(runs) + 1.2), dpi=110, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    bands = figure.subplots(len(runs), 1, squeeze=False, sharex=True)[:, 0]
    longest = max(run.steps for run in runs)
    for ax, run in zip(bands, runs, strict=True):
        steps = [row.step for row in run.rows]
        shares = [row.shares() for row in run.rows]
        stacked = [[100 * share[part] for share in shares] for part, _, _ in PARTS]
        colours, names = ([part[place] for part in PARTS] for place in (1, 2))
        ax.stackplot(steps, stacked, colors=colours, labels=names, linewidth=0)
        ax.set(ylim=(0, 100), xlim=(0, longest), yticks=(0, 50, 100), ylabel="memory, %")
        ax.spines[["top", "right"]].set_visible(False)
        ax.axvline(run.loaded.stop, color="black", linewidth=1.3, linestyle=(0, (4, 3)))
        ax.set_title(
            f"{run.allocator}: {100 * run.mean_shares()['live']:.0f}% holds tokens while requests wait",
            loc="left",
            fontsize=10,
            pad=3,
        )
    bands[-1].set_xlabel("step of the server (each one: a token for every request that runs). Broken line: nobody waits any more")
    figure.legend(*bands[0].get_legend_handles_labels(), loc="outside upper left", ncols=2, frameon=False, fontsize=9,
                  title=title, title_fontsize=10, alignment="left")  # fmt: skip
    if display:
        show(figure, f"Memory of {len(runs)} allocators over time. {title} " + " ".join(map(_words, runs)))
    return figure


def _words(run: Any) -> str:
    mean = run.mean_shares()
    parts = ", ".join(f"{100 * mean[part]:.0f}% {part}" for part in ("live", "reserved", "internal", "external", "free"))
    return f"{run.allocator}: under load {parts}; all requests done after {run.steps} steps."
