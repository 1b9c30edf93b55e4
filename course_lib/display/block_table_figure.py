"""Block tables and the memory that they point into: a colour for each sequence, hatched where several of them share a block."""

from collections.abc import Mapping, Sequence
from typing import Any

from .style import GREY, MORE_COLOURS, show

EMPTY = "#f3f4f6"


def block_table_figure(
    tables: Mapping[str, Sequence[int]],
    tokens: Mapping[str, int],
    num_blocks: int,
    block_size: int,
    title: str = "",
    *,
    columns: int = 8,
    display: bool = True,
) -> Any:
    """Draw the table of each sequence, and below it the blocks of the memory with a cell for each slot.

    tables   name -> its blocks in order;  tokens: name -> how many it has. Token t lies in block t // block_size of the table
    A slot that holds a token has the colour of its sequence; of a block that several hold, that of the first in `tables`.
    display  show it in the notebook; either way the figure is returned
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    holders = {block: [name for name in tables if block in tables[name]] for block in range(num_blocks)}
    colours = dict(zip(tables, MORE_COLOURS, strict=False))
    rows = -(-num_blocks // columns)
    figure = Figure(figsize=(8.4, 0.42 * len(tables) + 0.55 * rows + 1.5), dpi=110, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    upper, lower = figure.subplots(2, 1, height_ratios=(max(len(tables), 1) * 0.42, rows * 0.55))
    widest = max(columns, *map(len, tables.values()), 1)
    for row, (name, table) in enumerate(tables.items()):
        for place, block in enumerate(table):
            _box(upper, place, row, 0.9, 0.8, colours[name])
            if len(holders[block]) > 1:
                _hatch(upper, place, row, 0.9, 0.8)
            upper.annotate(str(block), (place + 0.45, row + 0.4), ha="center", va="center", fontsize=9, color="white",
                           weight="bold", bbox={"facecolor": colours[name], "edgecolor": "none", "pad": 1})  # fmt: skip
    upper.set(xlim=(0, widest), ylim=(len(tables), -0.1), xticks=[place + 0.45 for place in range(widest)])
    upper.set_xticklabels([f"{place}" for place in range(widest)], fontsize=8, color=GREY)
    upper.xaxis.tick_top()
    labels = [f"{name}: {tokens[name]} token{'s' * (tokens[name] != 1)}" for name in tables]
    upper.set_yticks([row + 0.4 for row in range(len(tables))], labels, fontsize=9)
    upper.set_title("block tables: the number in place i says where tokens "
                    f"{block_size}i to {block_size}i + {block_size - 1} lie", loc="left", fontsize=9)  # fmt: skip
    for block in range(num_blocks):
        x, y = block % columns, block // columns
        names, filled = holders[block], 0
        if names:
            filled = max(min(tokens[name] - block_size * list(tables[name]).index(block), block_size) for name in names)
        for slot in range(block_size):
            colour = colours[names[0]] if slot < filled else EMPTY
            _box(lower, x + 0.9 * slot / block_size, y, 0.9 / block_size, 0.62, colour)
        if len(names) > 1:
            _hatch(lower, x, y, 0.9 * filled / block_size, 0.62)
        _frame(lower, x, y, 0.9, 0.62, colours[names[0]] if names else "#c8ccd2")
        lower.annotate(str(block), (x, y - 0.03), fontsize=7.5, color=GREY, va="bottom")
        whose = names[0] if len(names) == 1 else f"{len(names)} hold it" if names else "free"
        lower.annotate(whose, (x + 0.9, y - 0.03), fontsize=7.5, color=GREY, va="bottom", ha="right")
    lower.set(xlim=(0, columns), ylim=(rows - 0.1, -0.3))
    free = sum(not names for names in holders.values())
    lower.set_title(f"memory: {num_blocks} blocks of {block_size} slots, {free} free; hatched: held by several sequences",
                    loc="left", fontsize=9)  # fmt: skip
    for ax in (upper, lower):
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
    lower.set(xticks=[], yticks=[])
    if title:
        figure.suptitle(title, fontsize=10, x=0.01, ha="left")
    if display:
        show(figure, _words(tables, tokens, holders, title))
    return figure


def _box(ax: Any, x: float, y: float, width: float, height: float, colour: str) -> None:
    from matplotlib.patches import Rectangle

    ax.add_patch(Rectangle((x, y), width, height, facecolor=colour, edgecolor="white", linewidth=0.6))


def _hatch(ax: Any, x: float, y: float, width: float, height: float) -> None:
    from matplotlib.patches import Rectangle

    ax.add_patch(Rectangle((x, y), width, height, fill=False, edgecolor="white", hatch="////", linewidth=0))


def _frame(ax: Any, x: float, y: float, width: float, height: float, colour: str) -> None:
    from matplotlib.patches import Rectangle

    ax.add_patch(Rectangle((x, y), width, height, fill=False, edgecolor=colour, linewidth=1.2))


def _words(tables: Mapping[str, Sequence[int]], tokens: Mapping[str, int], holders: Mapping[int, list[str]], title: str) -> str:
    said = "; ".join(f"{name} has {tokens[name]} tokens in blocks {list(table)}" for name, table in tables.items())
    shared = [f"{block} ({', '.join(names)})" for block, names in holders.items() if len(names) > 1]
    free = sum(not names for names in holders.values())
    return f"Block tables. {title} {said}. Shared blocks: {', '.join(shared) or 'none'}. {free} of {len(holders)} blocks free."
