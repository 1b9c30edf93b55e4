"""Bandwidth against size: how much of the memory's rate a read of a given size reaches, with marks where kernels lie."""

from collections.abc import Mapping, Sequence
from typing import Any

from .style import COLOURS, GREY, axes, show


def curve_points(result: Mapping[str, Any]) -> list[tuple[float, float]]:
    """(bytes, seconds) of the reads in a recorded batch_sweep, sizes ascending."""
    return sorted((row["bytes"], row["ours"] / 1e6) for row in result["rows"] if "gb_per_s" in row)


def curve_figure(
    points: Sequence[tuple[float, float]], title: str, marks: Mapping[str, float] | None = None, *, display: bool = True
) -> Any:
    """Draw GB/s and microseconds against size, on logarithmic axes.

    points  (bytes, seconds), sizes ascending;  marks: label -> bytes, drawn as upright lines
    """
    figure, ax = axes(7.6, 4.4)
    sizes = [size for size, _ in points]
    ax.plot(sizes, [size / seconds / 1e9 for size, seconds in points], "o-", color=COLOURS[0], markersize=4, label="GB/s")
    other = ax.twinx()
    other.spines[["top"]].set_visible(False)
    other.plot(sizes, [seconds * 1e6 for _, seconds in points], "s--", color=COLOURS[1], markersize=3, label="microseconds")
    ax.set(xscale="log", yscale="log", xlabel="bytes read", ylabel="GB/s")
    other.set(yscale="log", ylabel="microseconds")
    for label, size in (marks or {}).items():
        ax.axvline(size, color=GREY, linewidth=1, linestyle=(0, (5, 3)), zorder=1)
        ax.annotate(label, (size, 0.02), xycoords=("data", "axes fraction"), xytext=(3, 0), textcoords="offset points",
                    rotation=90, fontsize=9, color=GREY, va="bottom")  # fmt: skip
    lines = [line for one in (ax, other) for line in one.get_lines() if not line.get_label().startswith("_")]
    ax.legend(lines, [line.get_label() for line in lines], loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
    ax.set_title(title, fontsize=10, loc="right")
    if display:
        said = "; ".join(f"{size:.3g} bytes: {seconds * 1e6:.3g} us, {size / seconds / 1e9:.3g} GB/s" for size, seconds in points)
        show(figure, f"Time and rate of a read against its size. {title}. {said}")
    return figure
