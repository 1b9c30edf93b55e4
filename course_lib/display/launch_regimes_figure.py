"""Step time a kernel against device time a kernel: left of the bend the launches decide, right of it the kernels do."""

from collections.abc import Mapping, Sequence
from typing import Any

from .style import COLOURS, GREY, axes, show


def launch_regimes_figure(
    points: Mapping[str, Sequence[tuple[str, float, float, bool]]],
    launch_us: tuple[float, float],
    title: str,
    *,
    display: bool = True,
) -> Any:
    """Two limits, as in a roofline, and steps that were measured or worked out.

    points     model -> (what, microseconds of device time a kernel, microseconds of the step a kernel, replayed from a graph)
    launch_us  host time of a launch, from the cheapest to the dearest
    """
    from matplotlib.lines import Line2D
    from matplotlib.ticker import LogLocator, NullLocator

    figure, ax = axes(7.6, 4.6)
    xs = [x for rows in points.values() for _, x, _, _ in rows] + list(launch_us)
    low, high = min(xs) / 3, max(xs) * 4
    cheap, dear = launch_us
    ax.plot([low, cheap, high], [cheap, cheap, high], color=GREY, linewidth=2, zorder=1)
    if dear > cheap:
        ax.fill_between([low, cheap, dear], [cheap, cheap, dear], [dear, dear, dear], color="#e5e7eb", zorder=0)
    host = f"host: {cheap:.2g} to {dear:.2g} µs a launch" if dear > cheap else f"host: {cheap:.2g} µs a launch"
    ax.annotate(host, (low, cheap), xytext=(4, -13), textcoords="offset points", color=GREY, fontsize=9)
    ax.annotate("device: the kernels themselves", (high, high), xytext=(-6, -44), textcoords="offset points", color=GREY,
                fontsize=9, ha="right")  # fmt: skip
    for place, rows in enumerate(points.values()):
        colour = COLOURS[place % len(COLOURS)]
        ax.scatter([x for _, x, _, _ in rows], [y for _, _, y, _ in rows], s=38, zorder=3, edgecolor=colour,
                   color=["white" if graphed else colour for *_, graphed in rows])  # fmt: skip
        taken: list[tuple[str, float, float]] = []
        for what, x, y, _ in sorted(rows, key=lambda row: row[2]):
            beside = [word for word, x2, y2 in taken if abs(y / y2 - 1) < 0.25 and 0.5 < x / x2 < 2]
            if what in beside:
                continue  # launched and replayed at one place: one word for both
            taken.append((what, x, y))
            near = len(beside) % 2
            ax.annotate(what, (x, y), xytext=(-7 if near else 7, 4 if near else -4), textcoords="offset points", fontsize=8.5,
                        color=colour, ha="right" if near else "left")  # fmt: skip
    ys = [y for rows in points.values() for _, _, y, _ in rows]
    ax.set(xscale="log", yscale="log", xlim=(low, high), ylim=(min([*ys, cheap]) / 2, max([*ys, dear]) * 2.5), title=title,
           xlabel="device time of a kernel, mean, µs", ylabel="time of the step per kernel, µs")  # fmt: skip
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_locator(NullLocator())
    handles = [Line2D([], [], marker="o", linestyle="", color=COLOURS[place % len(COLOURS)], label=model)
               for place, model in enumerate(points)]  # fmt: skip
    if any(graphed for rows in points.values() for *_, graphed in rows):
        handles.append(Line2D([], [], marker="o", linestyle="", color=GREY, markerfacecolor="white", label="from a CUDA graph"))
    ax.legend(handles=handles, loc="upper left", frameon=False)
    if display:
        said = "; ".join(f"{model}, {what}: {x:.3g} us on the device, {y:.3g} us of the step"
                         for model, rows in points.items() for what, x, y, _ in rows)  # fmt: skip
        show(figure, f"Step time a kernel against device time a kernel, {title}. Launches {cheap:.3g} to {dear:.3g} us. {said}")
    return figure
