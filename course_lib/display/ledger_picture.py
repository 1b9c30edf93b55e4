"""Which program touches which element: each argument of a launch drawn as a grid of its elements.

One panel says who (colour: program, in the order of the grid), a second how often, where that differs from place to place. Words
stand in the page and not in the figure, whose ground is clear: both follow the reader's theme.
Folding   a long vector is drawn in rows; of more than two dimensions, all but the last are laid below each other; captions say so
Thinning  more elements than pixels: a cell stands for a rectangle of them (its first one's program, its largest count)
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..interpreter.counts.books import LaunchLedger, Touched, program_index
from .ledger_numbers import shape_text

PIXELS = 512  # cells along one side, at most: as many as a figure has pixels there
ROW = 64  # a vector of up to so many elements is one row
LINES = 5000  # pieces of a line between programs; where they lie closer than that, lines would hide them
LABELS = 64  # regions that are small in number are named by their program
SIDE = 2.56  # inches of the longer side of a grid
NOBODY, NOTHING = -1, -2  # cells that no program touched, and places beside the end of a folded vector
_UNTOUCHED, _LINES = "#c9ced6", "#7d8590"  # greys that are seen on white and on black


@dataclass(frozen=True, slots=True)
class Panel:
    """cells: [rows, columns] program or count, else NOBODY or NOTHING; span: elements of a cell (down, across).

    what    "program" or "count"; grid: of the launch
    shaded  every second program is darker, where lines between them would be too many
    alt     the panel for readers who do not see it
    """

    title: str
    caption: str
    cells: np.ndarray
    span: tuple[int, int]
    what: str
    grid: tuple[int, int, int]
    alt: str
    shaded: bool = False


def panels(launch: LaunchLedger) -> list[Panel]:
    """What is to be drawn, argument by argument: loads first, then stores."""
    found = []
    for name, touched in launch.touched.items():
        for verb, who, times in (("loaded", "loader", "loads"), ("stored", "writer", "stores")):
            counts = _grid(touched, times)
            if not (counts > 0).any():
                continue
            found.append(_who(name, touched, verb, _grid(touched, who), counts, launch.grid))
            if np.unique(counts[counts > 0]).size > 1:
                found.append(_how_often(name, touched, verb, counts, launch.grid))
    return found


def _who(name: str, touched: Touched, verb: str, programs: np.ndarray, counts: np.ndarray, grid: tuple[int, int, int]) -> Panel:
    cells, span = _thin(programs, largest=False)
    different = np.unique(counts[counts >= 0])
    most, least = int(different[-1]), int(different[0])
    often = f"each element {_times(most)}" if most == least else f"an element {_times(least)} to {_times(most)}"
    if least == 0:
        often = f"an element {_times(most)}{' at most' if different.size > 2 else ''}, or never (grey)"
    last = "; the colour is that of the last program" if most > 1 else ""
    seen = np.unique(programs[programs >= 0]).size
    shaded = seen > 4 * LABELS and seen == np.unique(cells[cells >= 0]).size  # a thinned picture may leave programs out
    alt = f"{name} is {verb}, {often}; {seen} programs are seen."
    return Panel(
        f"{name}, {verb} by program", _caption(touched, span, f"{often}{last}"), cells, span, "program", grid, alt, shaded
    )


def _how_often(name: str, touched: Touched, verb: str, counts: np.ndarray, grid: tuple[int, int, int]) -> Panel:
    cells, span = _thin(np.where(counts == 0, NOBODY, counts), largest=True)
    note = "the largest count in each cell" if span != (1, 1) else ""
    never = int((counts == 0).sum())
    alt = f"{never:,} of its elements are never {verb}." if never else ""
    return Panel(f"{name}, times {verb}", _caption(touched, span, note), cells, span, "count", grid, alt)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _caption(touched: Touched, span: tuple[int, int], more: str) -> str:
    shape, size = shape_text(touched.shape, touched.dtype), math.prod(touched.shape)
    parts = [shape]
    if len(touched.shape) == 1 and size > ROW:
        parts[0] += f" in rows of {_row(size)}"
    elif len(touched.shape) > 2:
        parts[0] += f" as {size // touched.shape[-1]:,} rows of {touched.shape[-1]}"
    if touched.strides != _packed(touched.shape):
        parts.append(f"strides {', '.join(map(str, touched.strides))}")
    if span != (1, 1):
        parts.append(f"a cell is {span[0]} x {span[1]} elements")
    return "; ".join([*parts, more] if more else parts)


def _packed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _row(size: int) -> int:
    """Length of a folded vector's rows: the power of two that makes the picture about twice as wide as high."""
    return 1 << round(math.log2(math.sqrt(2 * size)))


def _grid(touched: Touched, field: str) -> np.ndarray:
    """One of the four arrays of `touched` in two dimensions; a folded vector's last row is filled up with NOTHING."""
    whole = touched.grid_of(field) if math.prod(touched.shape) else np.empty(touched.shape, np.int32)
    if whole.ndim > 1:
        return whole.reshape(-1, whole.shape[-1]) if whole.size else whole.reshape(0, 1)
    flat = whole.reshape(-1)
    if flat.size <= ROW:
        return flat.reshape(1, -1)
    row = _row(flat.size)
    return np.pad(flat, (0, -flat.size % row), constant_values=NOTHING).reshape(-1, row)


def _thin(cells: np.ndarray, *, largest: bool) -> tuple[np.ndarray, tuple[int, int]]:
    """At most PIXELS cells each way: a rectangle's largest value, or its first that stands for a program."""
    down, across = (max(1, math.ceil(size / PIXELS)) for size in cells.shape)
    if (down, across) == (1, 1):
        return cells, (1, 1)
    missing = [(0, -size % step) for size, step in zip(cells.shape, (down, across), strict=True)]
    padded = np.pad(cells, missing, constant_values=NOTHING)
    height, width = padded.shape[0] // down, padded.shape[1] // across
    blocks = padded.reshape(height, down, width, across).swapaxes(1, 2).reshape(height, width, -1)
    if largest:
        return blocks.max(axis=2), (down, across)
    first = np.take_along_axis(blocks, np.argmax(blocks >= 0, axis=2)[..., None], 2)[..., 0]
    return np.where(first >= 0, first, blocks.max(axis=2)), (down, across)


def panel_figure(panel: Panel) -> Any:
    """The matplotlib figure of one panel: the grid between two rulers, and a colour bar where names do not say it all."""
    from matplotlib import colormaps
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows, columns = panel.cells.shape
    down, across = rows * panel.span[0], columns * panel.span[1]
    wide, high = (SIDE, max(0.3, SIDE * down / across)) if across >= down else (max(0.6, SIDE * across / down), SIDE)
    left, right, top, bottom = 0.5, 0.65, 0.08, 0.25
    figure = Figure(figsize=(left + wide + right, top + high + bottom), dpi=110, facecolor="none")
    FigureCanvasAgg(figure)
    size = figure.get_size_inches()
    ax = figure.add_axes((left / size[0], bottom / size[1], wide / size[0], high / size[1]))
    ax.set_facecolor("none")
    who = panel.what == "program"
    least, most = _range(panel)
    colours = colormaps["viridis" if who else "cividis"].with_extremes(bad=(0, 0, 0, 0), under=_UNTOUCHED)
    shown = np.ma.masked_equal(panel.cells, NOTHING)
    place = {"interpolation": "nearest", "extent": (0, across, down, 0), "aspect": "auto"}
    image = ax.imshow(shown, cmap=colours, vmin=least, vmax=most, **place)
    if who and panel.shaded:
        x, y, z = program_index(panel.cells, panel.grid)
        ax.imshow(np.where((x + y + z) % 2 * (panel.cells >= 0), 0.25, 0.0)[..., None] * (0, 0, 0, 1.0), **place)
    named = who and _name_regions(ax, panel, image, (wide, high))
    _rule(ax.xaxis, across, wide)
    _rule(ax.yaxis, down, high)
    ax.tick_params(labelsize=7, colors=_LINES)
    for spine in ax.spines.values():
        spine.set_color(_LINES)
    if not named and high >= 0.6:
        beside = ((left + wide + 0.1) / size[0], bottom / size[1], 0.1 / size[0], high / size[1])
        bar = figure.colorbar(image, cax=figure.add_axes(beside))
        bar.ax.tick_params(labelsize=7, colors=_LINES)
        bar.outline.set_edgecolor(_LINES)
        _rule(bar.ax.yaxis, most - least + 1, high, first=least)
    return figure


def _range(panel: Panel) -> tuple[int, int]:
    """What the colours run over: all programs of the grid, or those that are seen when they are few neighbours."""
    there = panel.cells[panel.cells >= 0]
    if panel.what == "count":
        return 0, int(there.max())
    last, low, high = math.prod(panel.grid) - 1, int(there.min()), int(there.max())
    return (low, high) if 0 < high - low < last / 4 else (0, max(1, last))


def _rule(axis: Any, size: int, inches: float, first: int = 0) -> None:
    """Marks at whole elements, as many as there is room for; powers of two where they fit, because tiles have those."""
    from matplotlib.ticker import FixedLocator

    step = 1
    while size / step > max(1, inches / 0.4):
        step *= 2
    axis.set_major_locator(FixedLocator(range(first, first + size + 1, step)))


def _name_regions(ax: Any, panel: Panel, image: Any, inches: tuple[float, float]) -> bool:
    """Lines between programs, and each one's index in the grid, where there is room for it in the middle of its elements.

    -> are all of them named?
    """
    from matplotlib.collections import LineCollection

    cells = panel.cells
    there = np.unique(cells[cells >= 0])
    down, across = panel.span
    beside, below = (
        np.argwhere((a != b) & (a >= 0) & (b >= 0)) for a, b in ((cells[:, 1:], cells[:, :-1]), (cells[1:], cells[:-1]))
    )
    if there.size <= 4 * LABELS and len(beside) + len(below) <= LINES:
        lines = [(((x + 1) * across, y * down), ((x + 1) * across, (y + 1) * down)) for y, x in beside]
        lines += [((x * across, (y + 1) * down), ((x + 1) * across, (y + 1) * down)) for y, x in below]
        ax.add_collection(LineCollection(lines, colors="white", linewidths=0.6))
    if there.size > LABELS:
        return False
    rows, columns = cells.shape
    unnamed = 0
    for program in there:
        ys, xs = np.nonzero(cells == program)
        height, width = np.ptp(ys) + 1, np.ptp(xs) + 1
        name = _program(int(program), panel.grid)
        roomy = height / rows * inches[1] > 0.13 and width / columns * inches[0] > 0.05 + 0.07 * len(name)
        if not roomy or cells[ys.min() + height // 2, xs.min() + width // 2] != program:
            unnamed += 1
            continue
        place = ((xs.min() + width / 2) * across, (ys.min() + height / 2) * down)
        ink = "black" if image.norm(program) > 0.6 else "white"
        ax.text(*place, name, ha="center", va="center", fontsize=7, color=ink)
    return not unnamed


def _program(linear: int, grid: tuple[int, int, int]) -> str:
    place = program_index(linear, grid)
    return ",".join(map(str, place if grid[2] > 1 else place[:2] if grid[1] > 1 else place[:1]))
