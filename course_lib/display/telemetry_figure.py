"""What each counter says of the same loops, side by side: small multiples, one for each counter."""

from collections.abc import Mapping, Sequence
from typing import Any

from .style import COLOURS, GREY, show

PANELS = (  # figure of a recording, title, what it means
    ("busy_time_percent", "utilization.gpu, %", "time in which any kernel ran"),
    ("sm_percent", "SM activity, %", "SMs with a warp on them"),
    ("tensor_percent", "tensor activity, %", "tensor cores at work"),
    ("dram_percent", "DRAM bandwidth, %", "of the peak"),
    ("mean_watts", "power, W", "from the energy counter"),
)


def loops_of(result: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Rows "loop: figure" of a recorded result -> {loop: {figure: value}}, in their order."""
    loops: dict[str, dict[str, float]] = {}
    for row in result["rows"]:
        loop, _, figure = row["case"].partition(": ")
        loops.setdefault(loop, {})[figure] = row["ours"]
    return loops


def telemetry_figure(
    loops: Mapping[str, Mapping[str, float]], device: str, *, only: Sequence[str] = (), display: bool = True
) -> Any:
    """loops: {loop: {figure of telemetry.Summary: value}}; a value that is missing is drawn as "no counter" -> the figure.

    only  the loops to draw, in this order; () for all
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = list(only) or list(loops)
    figure = Figure(figsize=(10.5, 0.9 + 0.42 * len(names)), dpi=110, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    rows = range(len(names))
    for panel, (ax, (key, title, meaning)) in enumerate(zip(figure.subplots(1, len(PANELS), sharey=True), PANELS, strict=True)):
        values = [loops[name].get(key) for name in names]
        top = 100.0 if "%" in title else 1.15 * max([v for v in values if v is not None], default=1.0)
        ax.barh(rows, [v or 0.0 for v in values], color=COLOURS[panel % len(COLOURS)], height=0.62)
        for row, value in zip(rows, values, strict=True):
            inside = (value or 0.0) > 0.7 * top
            ax.text((value or 0.0) + (-0.03 if inside else 0.03) * top, row, _label(value), va="center", fontsize=8,
                    ha="right" if inside else "left", color="white" if inside else "black")  # fmt: skip
        ax.set(xlim=(0, top), yticks=list(rows), yticklabels=names)
        if panel == 0:  # the y axis is shared
            ax.invert_yaxis()
        ax.set_title(title, fontsize=9, loc="left")
        ax.set_xlabel(meaning, fontsize=8, color=GREY)
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=8)
    figure.suptitle(device, fontsize=9, x=0.01, ha="left", color=GREY)
    if display:
        show(figure, f"Counters on {device}. " + "; ".join(_in_words(name, loops[name]) for name in names))
    return figure


def _label(value: float | None) -> str:
    if value is None:
        return "no counter"
    return f"{value:.0f}" if value >= 10 or value == 0 else f"{value:.2g}"


def _in_words(name: str, figures: Mapping[str, float]) -> str:
    return f"{name}: " + ", ".join(f"{title} {_label(figures.get(key))}" for key, title, _ in PANELS)
