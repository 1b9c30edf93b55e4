"""What schedulers made of one trace, side by side: time of each step, its tokens, and the KV pool."""

from collections.abc import Mapping
from typing import Any

from .style import COLOURS, show


def schedule_figure(runs: Mapping[str, Any], *, until_ms: float | None = None, display: bool = True) -> Any:
    """Draw a column for each run, on one time axis: step times against the target, tokens of a step, blocks in use.

    runs      label -> {"records": a simulated engine's, "itl_target_ms": float, "total_blocks": int}
              (of a record: start_ms, step_ms, decode, prefill_tokens, used_blocks)
    until_ms  where the time axis ends (default: with the first run)
    display   show it in the notebook; either way the figure is returned
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.2 * len(runs) + 1.6, 5.6), dpi=110, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    grid = figure.subplots(3, len(runs), squeeze=False, sharex=True, sharey="row")
    end_ms = until_ms or _end_ms(next(iter(runs.values())))
    for column, (label, run) in enumerate(runs.items()):
        steps, tokens, pool = grid[:, column]
        records = [record for record in run["records"] if record["start_ms"] < end_ms]
        steps.set_title(label, fontsize=10)
        _stairs(steps, records, [r["step_ms"] for r in records], COLOURS[0], "time of a step")
        steps.axhline(run["itl_target_ms"], color=COLOURS[1], linewidth=1.2, linestyle=(0, (5, 3)), label="target")
        decode, prefill = [r["decode"] for r in records], [r["prefill_tokens"] for r in records]
        _stairs(tokens, records, decode, COLOURS[2], "decodes")
        _stairs(tokens, records, [d + p for d, p in zip(decode, prefill, strict=True)], COLOURS[4], "prompt tokens", decode)
        _stairs(pool, records, [100 * r["used_blocks"] / run["total_blocks"] for r in records], COLOURS[3], "blocks in use")
        pool.set(xlabel="ms", xlim=(0, end_ms))
        steps.set_yscale("log")
        tokens.set_yscale("symlog", linthresh=1)
        for ax in (steps, tokens, pool):
            ax.spines[["top", "right"]].set_visible(False)
            ax.grid(which="major", color="#e5e7eb", linewidth=0.8)
            ax.set_axisbelow(True)
    for ax, words in zip(grid[:, 0], ("step, ms", "tokens of a step", "KV blocks, %"), strict=True):
        ax.set_ylabel(words)
    for ax in grid[1:, 0]:  # the columns share it, so only now is the highest known
        ax.set_ylim(bottom=0)
    for ax in grid[:, -1]:
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8, frameon=False)
    if display:
        show(figure, ". ".join(_words(label, run) for label, run in runs.items()))
    return figure


def _end_ms(run: Mapping[str, Any]) -> float:
    last = run["records"][-1]
    return last["start_ms"] + last["step_ms"]


def _stairs(ax: Any, records: list, heights: list, colour: str, label: str, floor: list | float = 0) -> None:
    """A filled staircase: `heights` of the steps over their times."""
    edges = [*(r["start_ms"] for r in records), records[-1]["start_ms"] + records[-1]["step_ms"]]
    ax.stairs(heights, edges, baseline=floor, fill=True, color=colour, alpha=0.85, label=label)


def _words(label: str, run: Mapping[str, Any]) -> str:
    records = run["records"]
    over = sum(r["step_ms"] > run["itl_target_ms"] * 1.000001 for r in records)
    return (f"{label}: {len(records)} steps, {over} of them above the target of {run['itl_target_ms']:g} ms, the longest "
            f"{max(r['step_ms'] for r in records):.0f} ms, at most {max(r['decode'] for r in records)} decodes")  # fmt: skip
