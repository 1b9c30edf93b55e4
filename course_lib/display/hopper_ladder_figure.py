"""The steps of the Hopper kernel: the rate that was measured with each, beside what a model of an SM predicts."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

from .style import COLOURS, MORE_COLOURS, axes, show


def hopper_ladder_figure(
    panels: Mapping[str, Sequence[Mapping[str, Any]]],
    model: Mapping[str, tuple[float, float]],
    device: str,
    *,
    peers: Mapping[str, Mapping[str, float]] | None = None,
    display: bool = True,
) -> Any:
    """A panel for each shape: a bar for each step, with its slowest and fastest round, and the model's range as a band.

    panels  shape in words -> [{"step", "share", "low", "high"}]: shares of the rate of a large matrix product
    model   step -> (lowest, highest) share of the tensor cores' time that the model gives it; a step may be left out
    peers   name of another kernel -> shape in words -> its share: a line
    """
    rows = max(len(steps) for steps in panels.values())
    figure, first = axes(4.3 * len(panels) + 0.6, 0.42 * rows + 1.1)
    first.remove()
    parts = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for ax, (title, steps) in zip(parts, panels.items(), strict=True):
        for y, step in enumerate(steps):
            middle, name = step["share"], step["step"]
            error = [[max(middle - step["low"], 0)], [max(step["high"] - middle, 0)]]
            ax.barh(y, middle, height=0.62, color=COLOURS[0], label="measured", xerr=error,
                    error_kw={"ecolor": "#111827", "capsize": 2, "linewidth": 1})  # fmt: skip
            if name in model:
                low, high = model[name]
                ax.barh(y, max(high - low, 0.006), left=low, height=0.86, color=COLOURS[1], alpha=0.45, zorder=3,
                        label="model")  # fmt: skip
            ax.annotate(f"{100 * middle:.0f}%", (0.02, y), va="center", fontsize=8, color="white")
        for colour, (name, shares) in zip(cycle(MORE_COLOURS[2:]), (peers or {}).items(), strict=False):
            if title in shares:
                ax.axvline(shares[title], color=colour, linewidth=1.2, linestyle="--", zorder=4, label=name)
        ax.set_title(title, fontsize=10)
        ax.set(xlim=(0, 1.06), xlabel="share of a large product's rate")
        ax.set_yticks(range(len(steps)), [step["step"] for step in steps])
        ax.spines[["top", "right"]].set_visible(False)
    parts[0].invert_yaxis()
    named = {label: handle for ax in parts for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=5, frameon=False, fontsize=9, title=device)
    if display:
        words = ". ".join(_words(*panel, model, peers or {}) for panel in panels.items())
        show(figure, f"Steps of the Hopper kernel on {device}. {words}")
    return figure


def _words(
    title: str,
    steps: Sequence[Mapping[str, Any]],
    model: Mapping[str, tuple[float, float]],
    peers: Mapping[str, Mapping[str, float]],
) -> str:
    each = []
    for step in steps:
        low, high = model.get(step["step"], (0, 0))
        between = f"{100 * low:.0f}%" if high - low < 0.005 else f"{100 * low:.0f} to {100 * high:.0f}%"
        each.append(f"{step['step']} {100 * step['share']:.0f}%" + (f", model {between}" if step["step"] in model else ""))
    each += [f"beside it {name} {100 * shares[title]:.0f}%" for name, shares in peers.items() if title in shares]
    return f"{title}: {'; '.join(each)}"
