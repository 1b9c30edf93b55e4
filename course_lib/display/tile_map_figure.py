"""Which tiles a GPU takes: a square for each size of tile, coloured by what limits it."""

from collections.abc import Mapping, Sequence
from typing import Any

from .style import COLOURS, axes, show

WORDS = {"shared memory": "refused: shared memory", "registers": "must spill", "": "nothing forbids it"}
_FACES = {"shared memory": COLOURS[1], "registers": COLOURS[4], "": COLOURS[2]}


def tile_map_figure(panels: Mapping[str, Sequence[Mapping[str, Any]]], *, display: bool = True) -> Any:
    """A panel for each title. Tiles: {"block_q", "block_k", "limit": one of WORDS, "text": what stands in the square}."""
    from matplotlib.patches import Patch

    unknown = {tile["limit"] for tiles in panels.values() for tile in tiles} - WORDS.keys()
    if unknown:
        raise ValueError(f"limit {sorted(unknown)[0]!r} has no colour; there are {', '.join(map(repr, WORDS))}")
    figure, first = axes(4.6 * len(panels), 4.4)
    grid = figure.add_gridspec(1, len(panels))
    first.set_subplotspec(grid[0, 0])
    for place, (title, tiles) in enumerate(panels.items()):
        _draw(first if place == 0 else figure.add_subplot(grid[0, place]), title, tiles)
    handles = [Patch(facecolor=_FACES[limit], alpha=0.45, label=words) for limit, words in WORDS.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    if display:
        show(figure, ". ".join(f"{title}: {_told(tiles)}" for title, tiles in panels.items()))
    return figure


def _draw(ax: Any, title: str, tiles: Sequence[Mapping[str, Any]]) -> None:
    from matplotlib.patches import Rectangle

    rows, columns = (sorted({tile[name] for tile in tiles}) for name in ("block_q", "block_k"))
    for tile in tiles:
        y, x = rows.index(tile["block_q"]), columns.index(tile["block_k"])
        ax.add_patch(Rectangle((x, y), 1, 1, facecolor=_FACES[tile["limit"]], alpha=0.45, edgecolor="white", linewidth=2))
        ax.text(x + 0.5, y + 0.5, tile["text"], ha="center", va="center", fontsize=9)
    ax.set(xlim=(0, len(columns)), ylim=(0, len(rows)), xlabel="block_k", ylabel="block_q")
    ax.set_title(title, fontsize=10)
    ax.set_xticks([x + 0.5 for x in range(len(columns))], labels=columns)
    ax.set_yticks([y + 0.5 for y in range(len(rows))], labels=rows)
    ax.grid(visible=False)
    ax.tick_params(length=0)
    ax.spines[["top", "right", "left", "bottom"]].set_visible(False)


def _told(tiles: Sequence[Mapping[str, Any]]) -> str:
    parts = []
    for limit, words in WORDS.items():
        sizes = [f"{tile['block_q']} x {tile['block_k']}" for tile in tiles if tile["limit"] == limit]
        parts.append(f"{words}: {', '.join(sizes) or 'none'}")
    return "; ".join(parts)
