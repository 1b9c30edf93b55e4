"""How wrong a clock is: its time over the right one, a bar for each, grouped by kernel; and samples in their order."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from .style import COLOURS, GREY, axes, show


def clocks_figure(rows: Sequence[Mapping[str, Any]], title: str, *, display: bool = True) -> Any:
    """rows: {"kernel", "clock", "ours" (microseconds), "peer" (of the right clock), "ratio"}; the right clock has ratio 1."""
    kernels = list(dict.fromkeys(row["kernel"] for row in rows))
    figure, ax = axes(8.6, 0.36 * (len(rows) + len(kernels)) + 0.9)
    y, ticks = 0.0, []
    for kernel in kernels:
        mine = [row for row in rows if row["kernel"] == kernel]
        ax.annotate(f"{kernel}: {_time(mine[0]['peer'])}", (0, y), xycoords=("axes fraction", "data"), xytext=(4, 0),
                    textcoords="offset points", fontsize=9, fontweight="bold", va="center")  # fmt: skip
        y -= 1
        for row in mine:
            if row["ratio"] == 1:
                continue
            low, high = sorted((1.0, row["ratio"]))
            ax.plot([low, high], [y, y], color=COLOURS[1] if row["ratio"] > 1 else COLOURS[0], linewidth=9, solid_capstyle="butt")
            side = 1 if row["ratio"] > 1 else -1
            ax.annotate(f"{_time(row['ours'])}, {_ratio(row['ratio'])}", (row["ratio"], y), xytext=(5 * side, 0),
                        textcoords="offset points", fontsize=9, color=GREY, va="center",
                        ha="left" if side > 0 else "right")  # fmt: skip
            ticks.append((y, row["clock"]))
            y -= 1
    ax.axvline(1, color=GREY, linewidth=1)
    ratios = [row["ratio"] for row in rows]
    ax.set(xscale="log", xlim=(min([*ratios, 0.5]) / 12, max([*ratios, 2]) * 12), ylim=(y + 0.4, 0.6))
    ax.set_yticks([at for at, _ in ticks], [name for _, name in ticks])
    ax.tick_params(axis="y", length=0)
    ax.grid(visible=False, axis="y")
    ax.set_xlabel("what the clock says, over the right time")
    ax.set_title(title, fontsize=10, loc="right")
    if display:
        said = "; ".join(f"{r['kernel']}, {r['clock']}: {_time(r['ours'])}, {_ratio(r['ratio'])}" for r in rows)
        show(figure, f"Wrong clocks. {title}. {said}")
    return figure


def samples_figure(samples_us: Mapping[str, Sequence[float]], title: str, *, display: bool = True) -> Any:
    """Single measurements in the order in which they were made, a colour for each label, a line at its median."""
    figure, ax = axes(7.6, 3.2)
    for (label, values), colour in zip(samples_us.items(), COLOURS, strict=False):
        median = statistics.median(values)
        ax.plot(range(1, len(values) + 1), values, "o", color=colour, markersize=3.5, alpha=0.8,
                label=f"{label}: median {_time(median)}, mean {_time(statistics.fmean(values))}")  # fmt: skip
        ax.axhline(median, color=colour, linewidth=1)
    ax.set(xlabel="measurement", ylabel="microseconds")
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1.06), frameon=False, fontsize=9)
    ax.set_title(title, fontsize=10, loc="right")
    if display:
        said = "; ".join(
            f"{label}: {len(v)} measurements from {_time(min(v))} to {_time(max(v))}, median {_time(statistics.median(v))}"
            for label, v in samples_us.items()
        )
        show(figure, f"Measurements in order. {title}. {said}")
    return figure


def _time(us: float) -> str:
    return f"{us / 1e3:.4g} ms" if us >= 1e3 else f"{us:.3g} µs"


def _ratio(ratio: float) -> str:
    return f"× {ratio:.0f}" if ratio >= 10 else f"× {ratio:.2g}"
