"""What the units of one SM do over time: a row for each unit, a colour for each group of warps, a number for each tile."""

from collections.abc import Mapping, Sequence
from typing import Any

from .style import COLOURS, GREY, axes, show

ROWS = {"load": "copy engine", "qk": "tensor cores", "pv": "tensor cores", "softmax": "exponentials"}
UNITS = ("copy engine", "tensor cores", "exponentials")
Timeline = tuple[Sequence[Sequence[Any]], Mapping[str, float]]


def sm_timeline_figure(panels: Mapping[str, Timeline], *, until: float | None = None, display: bool = True) -> Any:
    """One panel under another, on one scale of cycles.

    panels  title -> (jobs, cycles): jobs as (job, group, tile, start), job one of load, qk, softmax, pv; cycles: of each job
    until   where the axis ends (default: with the longest timeline)
    """
    figure, first = axes(9.0, 1.55 * len(panels) + 0.7)
    first.remove()
    parts = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    last = until or max(_length(jobs, cycles) for jobs, cycles in panels.values())
    for ax, (title, (jobs, cycles)) in zip(parts, panels.items(), strict=True):
        for job, group, tile, start in jobs:
            if start >= last:
                continue
            y, width = UNITS[::-1].index(ROWS[job]), cycles[job]
            colour = GREY if job == "load" else COLOURS[group % len(COLOURS)]
            ax.barh(y, width, left=start, height=0.72, color=colour, alpha=0.6 if job == "pv" else 1.0,
                    edgecolor="white", linewidth=0.8)  # fmt: skip
            words = str(tile)
            if start + width <= last and width > 0.0085 * last * len(words):
                ax.annotate(words, (start + width / 2, y), ha="center", va="center", fontsize=7.5, color="white")
        ax.set(xlim=(0, last), ylim=(-0.5, len(UNITS) - 0.5))
        ax.set_yticks(range(len(UNITS)), UNITS[::-1], fontsize=8)
        ax.tick_params(axis="y", length=0)
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.set_title(title, fontsize=10, loc="left")
    parts[-1].set_xlabel("cycles (numbers: tiles of keys)")
    groups = sorted({group for jobs, _ in panels.values() for job, group, _, _ in jobs if job != "load"})
    figure.legend(handles=_legend(groups), loc="outside lower center", ncols=1 + 2 * len(groups), frameon=False, fontsize=8)
    if display:
        show(figure, ". ".join(f"{title}: {_words(jobs, cycles)}" for title, (jobs, cycles) in panels.items()))
    return figure


def _legend(groups: Sequence[int]) -> list[Any]:
    from matplotlib.patches import Patch

    handles = [Patch(color=GREY, label="load")]
    for group in groups:
        colour = COLOURS[group % len(COLOURS)]
        handles += [Patch(color=colour, label=f"group {group}: qk, softmax"), Patch(color=colour, alpha=0.6, label="pv")]
    return handles


def _length(jobs: Sequence[Sequence[Any]], cycles: Mapping[str, float]) -> float:
    return max((start + cycles[job] for job, _, _, start in jobs), default=1)


def _words(jobs: Sequence[Sequence[Any]], cycles: Mapping[str, float]) -> str:
    length = _length(jobs, cycles)
    busy = {unit: sum(cycles[job] for job, *_ in jobs if ROWS[job] == unit) / length for unit in UNITS}
    order = sorted((job for job in jobs if job[0] in ("qk", "pv")), key=lambda job: job[3])[:8]
    begins = ", ".join(f"{job} of tile {tile} for group {group} at {start:g}" for job, group, tile, start in order)
    shares = ", ".join(f"{unit} busy for {100 * share:.0f}%" for unit, share in busy.items())
    return f"{length:g} cycles; {shares}; the tensor cores begin with {begins}"
