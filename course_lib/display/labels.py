"""Labels beside points that cover neither each other nor another point."""

from collections.abc import Sequence
from typing import Any

# (points to the right, points up, horizontal and vertical alignment), the preferred place first
_PLACES = (
    (7, -1, "left", "top"), (0, -9, "center", "top"), (0, -24, "center", "top"), (-7, -1, "right", "top"),
    (7, 1, "left", "bottom"),
    (-7, 1, "right", "bottom"), (0, 9, "center", "bottom"), (7, -16, "left", "top"), (7, 16, "left", "bottom"),
    (-7, 16, "right", "bottom"), (-7, -16, "right", "top"), (7, -30, "left", "top"), (-7, -30, "right", "top"),
)  # fmt: skip
_ROOM = 5  # pixels kept free around a point


def label_points(ax: Any, points: Sequence[tuple[str, float, float, str]], fontsize: int = 9) -> list[Any]:
    """Write (label, x, y, colour) beside each point, where it covers nothing that is there; the limits of `ax` must be set.

    A point for which every place is taken gets the first one. Returns the annotations.
    """
    from matplotlib.transforms import Bbox

    ax.figure.canvas.draw()  # sizes are known after the layout
    renderer, frame = ax.figure.canvas.get_renderer(), ax.get_window_extent()
    centres = ax.transData.transform([(x, y) for _, x, y, _ in points]) if points else []
    taken = [Bbox([centre - _ROOM, centre + _ROOM]) for centre in centres]
    made = []
    for number, (label, x, y, colour) in enumerate(points):
        best = None
        for right, up, across, along in _PLACES:
            text = ax.annotate(label, (x, y), xytext=(right, up), textcoords="offset points", fontsize=fontsize, color=colour,
                               ha=across, va=along, zorder=5)  # fmt: skip
            box = text.get_window_extent(renderer)
            others = [other for place, other in enumerate(taken) if place != number]
            inside = all(map(frame.containsx, box.intervalx)) and all(map(frame.containsy, box.intervaly))
            if inside and not box.count_overlaps(others):
                best = text
                break
            text.remove()
        if best is None:
            right, up, across, along = _PLACES[0]
            best = ax.annotate(label, (x, y), xytext=(right, up), textcoords="offset points", fontsize=fontsize, color=colour,
                               ha=across, va=along, zorder=5)  # fmt: skip
        taken.append(best.get_window_extent(renderer))
        made.append(best)
    return made
