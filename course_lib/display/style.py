"""One look for every figure of the course."""

from typing import Any

COLOURS = ("#1f6fb2", "#c2571a", "#2e7d32", "#7b3fa0", "#8a6d00")
MORE_COLOURS = (*COLOURS, "#b0306a", "#2a8c8c", "#5b5b5b")  # where five do not go round
GREY = "#6b7280"


def axes(width: float = 7.2, height: float = 4.2) -> tuple[Any, Any]:
    """(figure, axes) in the course's style; the figure is not registered with pyplot, so nothing is shown twice."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=110, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    ax = figure.add_subplot()
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(which="major", color="#e5e7eb", linewidth=0.8)
    ax.set_axisbelow(True)
    return figure, ax


def show(figure: Any, alt: str) -> None:
    """Display a figure as PNG with a text for readers who do not see it."""
    from io import BytesIO

    from IPython.display import Image, display

    buffer = BytesIO()
    figure.savefig(buffer, format="png")
    display(Image(buffer.getvalue(), format="png", alt=alt))
