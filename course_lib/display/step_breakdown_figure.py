"""Where the time of a step goes: a bar for each way to run it, a piece for each kind of kernel, and the time without any."""

from collections.abc import Mapping
from typing import Any

from .style import COLOURS, axes, show

IDLE = "nothing runs"
_SHADES = (*COLOURS, "#5aa0d6", "#e08e5b", "#7fb685", "#b48ac9", "#c9b458")


def step_breakdown_figure(bars: Mapping[str, Mapping[str, float]], title: str, *, display: bool = True) -> Any:
    """bars: way to run the step -> {kind of kernel: microseconds}; the key IDLE is drawn last and hatched."""
    kinds = sorted({kind for pieces in bars.values() for kind in pieces if kind != IDLE},
                   key=lambda kind: -max(pieces.get(kind, 0.0) for pieces in bars.values()))  # fmt: skip
    longest = max(sum(pieces.values()) for pieces in bars.values())
    unit, scale = ("ms", 1e3) if longest >= 1000 else ("µs", 1.0)
    figure, ax = axes(8.6, 1.7 + 0.62 * len(bars))
    names = list(bars)
    for place, kind in enumerate([*kinds, IDLE]):
        left = [sum(bars[name].get(other, 0.0) for other in kinds[:place]) / scale for name in names]
        widths = [bars[name].get(kind, 0.0) / scale for name in names]
        if not any(widths):
            continue
        look = {"color": "white", "hatch": "////", "edgecolor": "#9ca3af"} if kind == IDLE else {
            "color": _SHADES[place % len(_SHADES)], "edgecolor": "white"}  # fmt: skip
        ax.barh(names, widths, left=left, height=0.6, linewidth=0.6, label=kind, **look)
        for row, (start, width) in enumerate(zip(left, widths, strict=True)):
            words = f"{width:.2f}" if unit == "ms" else f"{width:.0f}"
            if width * scale > longest * 0.016 * (len(words) + 0.5):
                ax.annotate(words, (start + width / 2, row), ha="center", va="center", fontsize=8,
                            color="#374151" if kind == IDLE else "white")  # fmt: skip
    ax.invert_yaxis()
    ax.grid(axis="y", visible=False)
    ax.tick_params(axis="y", length=0)
    ax.set(xlabel=f"{unit} of one step", title=title)
    figure.legend(loc="outside lower center", ncols=5, frameon=False, fontsize=8.5)
    if display:
        said = "; ".join(
            f"{name}: " + ", ".join(f"{kind} {us:.0f} us" for kind, us in pieces.items()) for name, pieces in bars.items()
        )
        show(figure, f"Where the time of a step goes, {title}. {said}")
    return figure
