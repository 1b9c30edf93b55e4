"""Launches in time: what the host does, what the device does meanwhile, and what lies between the two marks of a clock."""

from collections.abc import Mapping, Sequence
from typing import Any

from .style import COLOURS, GREY, axes, show

_COLOUR = {"launch": COLOURS[0], "kernel": COLOURS[1], "flush": "#9ca3af", "synchronize": "#d1d5db", "other work": "#d8c3a5",
           "record": COLOURS[2], "event": COLOURS[2]}  # fmt: skip
_WORD = {"synchronize": "waits", "record": "", "event": ""}
_LEVEL = {"host": 1.0, "device": 0.0}
Span = tuple[str, float, float]


def launch_timeline_figure(
    panels: Mapping[str, tuple[Sequence[Mapping[str, Any]], Sequence[Span]]], *, display: bool = True
) -> Any:
    """One panel under another, on one scale.

    panels   title -> (rows, spans); rows: {"row": "host" or "device", "what", "start_us", "end_us"}; spans: (label, start, end)
             in microseconds, what a clock sees
    """
    deepest = max(len(spans) for _, spans in panels.values())
    figure, first = axes(8.6, (1.35 + 0.42 * deepest) * len(panels) + 0.4)
    first.remove()
    parts = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    last = max(row["end_us"] for rows, _ in panels.values() for row in rows)
    for ax, (title, (rows, spans)) in zip(parts, panels.items(), strict=True):
        _bars(ax, rows, last)
        for place, (label, start, end) in enumerate(spans):
            y = -0.75 - 0.62 * place
            ax.annotate("", (start, y), (end, y), arrowprops={"arrowstyle": "|-|,widthA=0.25,widthB=0.25", "color": COLOURS[3],
                                                              "shrinkA": 0, "shrinkB": 0})  # fmt: skip
            ax.plot([start, start], [y, 1.3], ":", color=COLOURS[3], linewidth=0.8, zorder=0)
            ax.plot([end, end], [y, 1.3], ":", color=COLOURS[3], linewidth=0.8, zorder=0)
            ax.annotate(label, (max(end, start), y), xytext=(5, 0), textcoords="offset points", fontsize=9, color=COLOURS[3],
                        va="center")  # fmt: skip
        ax.set(ylim=(-0.75 - 0.62 * max(len(spans), 0.4) + 0.2, 1.5), xlim=(-0.01 * last, 1.3 * last))
        ax.set_yticks([1.0, 0.0], ["host", "device"])
        ax.tick_params(axis="y", length=0)
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.set_title(title, fontsize=10, loc="left")
    parts[-1].set_xlabel("microseconds")
    if display:
        show(figure, ". ".join(f"{title}: {_words(rows, spans)}" for title, (rows, spans) in panels.items()))
    return figure


def _bars(ax: Any, rows: Sequence[Mapping[str, Any]], last: float) -> None:
    for row in rows:
        width = max(row["end_us"] - row["start_us"], 0.0015 * last)
        ax.barh(_LEVEL[row["row"]], width, left=row["start_us"], height=0.56, color=_COLOUR.get(row["what"], GREY),
                edgecolor="white", linewidth=0.8)  # fmt: skip
        word = _WORD.get(row["what"], row["what"])
        if width > 0.013 * last * len(word):
            dark = row["what"] in ("synchronize", "other work")
            ax.annotate(word, (row["start_us"] + width / 2, _LEVEL[row["row"]]), ha="center", va="center", fontsize=8,
                        color="#374151" if dark else "white")  # fmt: skip


def _words(rows: Sequence[Mapping[str, Any]], spans: Sequence[Span]) -> str:
    done = "; ".join(f"{r['row']} {r['what']} {r['start_us']:.0f} to {r['end_us']:.0f} us" for r in rows)
    return f"{done}; seen: " + "; ".join(f"{label} from {start:.0f} to {end:.0f} us" for label, start, end in spans)
