"""What batching buys: step time against batch (floor, prediction, measurement), and a user's rate against the GPU's."""

from collections.abc import Mapping, Sequence
from typing import Any

from .style import COLOURS, GREY, show


def sweep_rows(result: Mapping[str, Any], context: int) -> list[dict[str, float]]:
    """Rows of a recorded batch_sweep at one context, by batch: batch, floor_ms, predicted_ms, measured_ms, low_ms, high_ms.

    Raises ValueError, naming the contexts that there are, for one that was not measured.
    """
    steps = [row for row in result["rows"] if "batch" in row]
    rows = [
        {"batch": row["batch"], "floor_ms": row["floor_ms"], "predicted_ms": row["peer"], "measured_ms": row["ours"],
         "low_ms": row["spread"][0], "high_ms": row["spread"][1]}
        for row in steps if row["context"] == context
    ]  # fmt: skip
    if not rows:
        raise ValueError(f"no steps at context {context}; measured were {sorted({row['context'] for row in steps})}")
    return sorted(rows, key=lambda row: row["batch"])


def batch_sweep_figure(rows: Sequence[Mapping[str, float]], title: str, *, display: bool = True) -> Any:
    """Draw a sweep; rows as sweep_rows gives them, measured_ms, low_ms and high_ms only where something was measured.

    title    device, model and context, for the head of the figure
    display  show it in the notebook; either way the figure is returned
    """
    figure, (left, right) = _two_axes()
    batches = [row["batch"] for row in rows]
    measured = [row for row in rows if "measured_ms" in row]
    left.plot(batches, [row["floor_ms"] for row in rows], ":", color=GREY, label="plain floor: all bytes at one bandwidth")
    left.plot(batches, [row["predicted_ms"] for row in rows], "-", color=COLOURS[0], label="predicted, kernel by kernel")
    if measured:
        spread = [
            [row["measured_ms"] - row["low_ms"] for row in measured],
            [row["high_ms"] - row["measured_ms"] for row in measured],
        ]
        left.errorbar([row["batch"] for row in measured], [row["measured_ms"] for row in measured], yerr=spread, fmt="o",
                      color=COLOURS[1], markersize=5, capsize=3, label="measured: median, least and most")  # fmt: skip
    left.set(xscale="log", xlabel="batch", ylabel="milliseconds a step", ylim=(0, None))
    left.set_xticks(batches, [f"{batch:g}" for batch in batches])
    left.minorticks_off()
    left.legend(loc="lower right", frameon=False, fontsize=9)
    kind, chosen = ("measured_ms", measured) if measured else ("predicted_ms", rows)
    users, gpu = [1e3 / row[kind] for row in chosen], [row["batch"] * 1e3 / row[kind] for row in chosen]
    right.plot(users, gpu, "o-", color=COLOURS[1] if measured else COLOURS[0], markersize=5)
    for row, x, y in zip(chosen, users, gpu, strict=True):
        right.annotate(f"{row['batch']:g}", (x, y), xytext=(6, 4), textcoords="offset points", fontsize=9, color=GREY)
    right.set(
        xlabel="tokens a second for each user", ylabel="tokens a second for the GPU", yscale="log", xlim=(0, 1.1 * max(users))
    )
    ticks = [
        step * 10**power for power in range(1, 7) for step in (1, 2, 5) if min(gpu) / 1.5 <= step * 10**power <= 1.5 * max(gpu)
    ]
    right.set_yticks(ticks, [f"{tick:,}" for tick in ticks])
    right.minorticks_off()
    right.set_title(f"a dot for each batch, {'measured' if measured else 'predicted'}", fontsize=9, color=GREY, loc="right")
    figure.suptitle(title, fontsize=11, x=0.01, ha="left")
    if display:
        show(figure, _alt(rows, title))
    return figure


def _two_axes() -> tuple[Any, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.4, 4.2), dpi=110, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    both = figure.subplots(1, 2)
    for ax in both:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(which="major", color="#e5e7eb", linewidth=0.8)
        ax.set_axisbelow(True)
    return figure, both


def _alt(rows: Sequence[Mapping[str, float]], title: str) -> str:
    words = []
    for row in rows:
        word = f"batch {row['batch']:g}: floor {row['floor_ms']:.2f} ms, predicted {row['predicted_ms']:.2f}"
        words.append(word + (f", measured {row['measured_ms']:.2f}" if "measured_ms" in row else ""))
    return f"Step time against batch, {title}. " + "; ".join(words)
