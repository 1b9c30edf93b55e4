"""Bandwidth against size: how much of the memory's rate a read of a given size reaches, with marks where kernels lie."""

from collections.abc import Mapping, Sequence
from typing import Any

from .style import COLOURS, GREY, axes, show


def curve_points(result: Mapping[str, Any], kind: str = "read") -> list[tuple[float, float]]:
    """(bytes, seconds) of one of the curves in a recorded batch_sweep, "read" or "product", sizes ascending."""
    return sorted((row["bytes"], row["ours"] / 1e6) for row in result["rows"] if row.get("curve") == kind)


def curve_figure(
    curves: Mapping[str, Sequence[tuple[float, float]]],
    title: str,
    marks: Mapping[str, float] | None = None,
    *,
    display: bool = True,
) -> Any:
    """Draw the rate (full lines) and the time (broken lines) of each curve against size, on logarithmic axes.

    curves  label -> [(bytes, seconds), ...], sizes ascending;  marks: label -> bytes, drawn as upright lines
    """
    figure, ax = axes(7.6, 4.6)
    other = ax.twinx()
    other.spines[["top"]].set_visible(False)
    for (label, points), colour in zip(curves.items(), COLOURS, strict=False):
        sizes = [size for size, _ in points]
        rates, micros = [size / seconds / 1e9 for size, seconds in points], [seconds * 1e6 for _, seconds in points]
        ax.plot(sizes, rates, "o-", color=colour, markersize=4, label=f"{label}, GB/s")
        other.plot(sizes, micros, "--", color=colour, linewidth=1.2, label=f"{label}, microseconds")
    ax.set(xscale="log", yscale="log", xlabel="bytes", ylabel="GB/s (full lines)")
    other.set(yscale="log", ylabel="microseconds (broken lines)")
    for label, size in (marks or {}).items():
        ax.axvline(size, color=GREY, linewidth=1, linestyle=(0, (2, 3)), zorder=1)
        ax.annotate(label, (size, 0.02), xycoords=("data", "axes fraction"), xytext=(3, 0), textcoords="offset points",
                    rotation=90, fontsize=9, color=GREY, va="bottom",
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})  # fmt: skip
    ax.legend(*ax.get_legend_handles_labels(), loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
    figure.suptitle(title, fontsize=10, x=0.01, ha="left")
    if display:
        show(figure, f"Time and rate against size. {title}. " + " ".join(_alt(*curve) for curve in curves.items()))
    return figure


def _alt(label: str, points: Sequence[tuple[float, float]]) -> str:
    said = (f"{size:.3g} bytes: {seconds * 1e6:.3g} us, {size / seconds / 1e9:.3g} GB/s" for size, seconds in points)
    return f"{label}: {'; '.join(said)}."
