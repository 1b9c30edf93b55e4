"""A walk of one tile of queries over K and V: which tiles are read, and the running maximum and sum of one of its queries."""

from collections.abc import Sequence
from typing import Any

from .style import COLOURS, GREY, axes, show


def tile_walk_figure(
    q_len: int,
    kv_len: int,
    tile_q: int,
    tile_k: int,
    read: Sequence[tuple[int, int, int, int]],
    scores: Sequence[float],
    states: Sequence[tuple[float, float]],
    query: int,
    *,
    display: bool = True,
) -> Any:
    """Left the plane of scores with its tiles, right what the query's state is after each tile.

    read    (first query, end, first key, end) of each tile whose keys were loaded, in order
    scores  of `query` with each key, -inf where it may not look
    states  (m, l) of `query` after each tile of its own walk
    """
    figure, plane = axes(9.4, 4.2)
    grid = figure.add_gridspec(2, 2, width_ratios=(1.15, 1))
    plane.set_subplotspec(grid[:, 0])
    largest, total = figure.add_subplot(grid[0, 1]), figure.add_subplot(grid[1, 1])
    walk = [(start, stop) for first, end, start, stop in read if first <= query < end]
    _draw_plane(plane, (q_len, kv_len, tile_q, tile_k), read, query)
    _draw_maximum(largest, walk, scores, states)
    _draw_sum(total, walk, states)
    if display:
        steps = "; ".join(f"keys {a} to {b - 1}: m {m:.2f}, l {l:.2f}" for (a, b), (m, l) in zip(walk, states, strict=True))
        tiles = -(-q_len // tile_q) * -(-kv_len // tile_k)
        show(figure, f"{len(read)} of {tiles} tiles are read. Query {query}: {steps}")
    return figure


def _draw_plane(ax: Any, sizes: tuple[int, int, int, int], read: Sequence[tuple[int, int, int, int]], query: int) -> None:
    from matplotlib.patches import Rectangle

    q_len, kv_len, tile_q, tile_k = sizes
    loaded, step = {(first, start) for first, _, start, _ in read}, 0
    for first in range(0, q_len, tile_q):
        for start in range(0, kv_len, tile_k):
            height, width = min(tile_q, q_len - first), min(tile_k, kv_len - start)
            mine = first <= query < first + height
            here = (first, start) in loaded
            face = (COLOURS[1] if mine else COLOURS[0]) if here else "white"
            ax.add_patch(Rectangle((start, first), width, height, facecolor=face, alpha=0.35 if here else 1, edgecolor=GREY,
                                   hatch=None if here else "///", linewidth=0.8))  # fmt: skip
            if mine and here:
                step += 1
                ax.text(start + width / 2, first + height / 2, str(step), ha="center", va="center", fontsize=11)
    offset = kv_len - q_len
    ax.plot([offset, kv_len], [0, q_len], color="black", linewidth=1)
    ax.set(xlim=(0, kv_len), ylim=(q_len, 0), xlabel="keys", ylabel="queries", aspect="equal")
    ax.set_title("hatched: never read; the line: what a query sees", fontsize=9)
    ax.grid(visible=False)


def _draw_maximum(
    ax: Any, walk: Sequence[tuple[int, int]], scores: Sequence[float], states: Sequence[tuple[float, float]]
) -> None:
    seen = [(key, score) for key, score in enumerate(scores) if score > float("-inf")]
    ax.plot(*zip(*seen, strict=True), "o", color=GREY, markersize=3, label="scores")
    for place, ((start, stop), (m, _)) in enumerate(zip(walk, states, strict=True)):
        ax.plot([start, stop], [m, m], color=COLOURS[1], linewidth=2, label="" if place else "m after each tile")
        ax.axvline(stop, color="#e5e7eb", linewidth=0.8, zorder=0)
    ax.set(xlim=(0, walk[-1][1]), ylabel="score")
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False, fontsize=9)
    ax.spines[["top", "right"]].set_visible(False)


def _draw_sum(ax: Any, walk: Sequence[tuple[int, int]], states: Sequence[tuple[float, float]]) -> None:
    from math import exp

    before = (float("-inf"), 0.0)
    for place, ((start, stop), (m, l)) in enumerate(zip(walk, states, strict=True)):
        kept = exp(before[0] - m) * before[1] if before[1] else 0.0
        options = {"width": (stop - start) * 0.8, "edgecolor": "white"}
        ax.bar((start + stop) / 2, kept, color=GREY, label="" if place else "what is left of l", **options)
        ax.bar((start + stop) / 2, l - kept, bottom=kept, color=COLOURS[2], label="" if place else "this tile adds", **options)
        before = (m, l)
    ax.set(xlim=(0, walk[-1][1]), xlabel="keys", ylabel="l")
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False, fontsize=9)
    ax.spines[["top", "right"]].set_visible(False)
