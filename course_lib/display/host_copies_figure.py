"""Rates of copies between host and device against their size."""

from collections.abc import Mapping, Sequence
from typing import Any

from .style import COLOURS, axes, show


def host_copies_figure(rows: Sequence[Mapping[str, Any]], title: str, *, display: bool = True) -> Any:
    """rows: {"direction", "bytes", "ours" (pinned, GB/s), "peer" (pageable, GB/s)}."""
    figure, ax = axes(7.6, 3.8)
    said = []
    for direction, marker in (("to the device", "o"), ("to the host", "s")):
        mine = sorted((row for row in rows if row["direction"] == direction), key=lambda row: row["bytes"])
        for memory, key, colour in (("pinned", "ours", COLOURS[0]), ("pageable", "peer", COLOURS[1])):
            rates = [row[key] for row in mine]
            style = "-" if marker == "o" else "--"
            ax.plot([row["bytes"] for row in mine], rates, style, marker=marker, color=colour, markersize=4,
                    label=f"{memory}, {direction}")  # fmt: skip
            said.append(f"{memory}, {direction}: up to {max(rates):.3g} GB/s")
    ax.set(xscale="log", yscale="log", xlabel="bytes of one copy", ylabel="GB/s")
    ax.legend(loc="lower right", fontsize=9, frameon=False)
    ax.set_title(title, fontsize=10, loc="right")
    if display:
        show(figure, f"Rates of copies between host and device. {title}. {'; '.join(said)}")
    return figure
