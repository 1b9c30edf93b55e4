"""The roofline picture: attainable rate against arithmetic intensity, for one or more GPUs."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..hardware import GpuSpec
from .style import COLOURS, GREY, axes, show

LEFT, RIGHT = 0.3, 5000.0  # FLOP per byte


def roofline_figure(gpus: Sequence[GpuSpec], points: Mapping[str, float] | None = None, display: bool = True) -> Any:
    """Draw dense bf16 roofs from the data sheet, with a mark at each ridge and a line at each intensity in `points`.

    points  label -> FLOP per byte.  display: show it in the notebook; either way the figure is returned
    """
    figure, ax = axes()
    for gpu, colour in zip(gpus, COLOURS, strict=False):
        peak, slope = gpu.bf16_tflops, gpu.hbm_gb_per_s / 1e3  # TFLOP/s, and TFLOP/s for each FLOP per byte
        ridge = peak / slope
        ax.plot([LEFT, ridge, RIGHT], [LEFT * slope, peak, peak], color=colour, linewidth=2, label=gpu.name)
        ax.plot([ridge], [peak], "o", color=colour, markersize=6)
        ax.plot([ridge, ridge], [LEFT * slope, peak], ":", color=colour, linewidth=1)
        ax.annotate(f"{ridge:.0f}", (ridge, peak), xytext=(0, 6), textcoords="offset points", ha="center", color=colour)
    bottom = min(LEFT * gpu.hbm_gb_per_s / 1e3 for gpu in gpus)
    for label, intensity in (points or {}).items():
        ax.axvline(intensity, color=GREY, linewidth=1, linestyle=(0, (5, 3)))
        ax.annotate(f"{label}, {intensity:g} FLOP/byte", (intensity, bottom), xytext=(-11, 6), color=GREY, fontsize=8,
                    textcoords="offset points", rotation=90, va="bottom", ha="left")  # fmt: skip
    top = 2 * max(gpu.bf16_tflops for gpu in gpus)
    ax.set(xscale="log", yscale="log", xlim=(LEFT, RIGHT), ylim=(bottom, top))
    ax.set(xlabel="arithmetic intensity, FLOP per byte", ylabel="attainable bf16 TFLOP/s (dense)")
    ax.legend(loc="lower right", frameon=False)
    if display:
        ridges = ", ".join(f"{g.name} at {g.bf16_tflops * 1e3 / g.hbm_gb_per_s:.0f}" for g in gpus)
        show(figure, f"Roofline of {len(gpus)} GPUs; ridge points in FLOP per byte: {ridges}")
    return figure
