"""The roofline picture: attainable rate against arithmetic intensity, for one or more GPUs."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..hardware import GpuSpec
from .roofline_axes import label_roofline_axes
from .style import COLOURS, GREY, axes, show

LEFT, RIGHT = 0.3, 5000.0  # FLOP per byte


def roofline_figure(
    gpus: Sequence[GpuSpec], points: Mapping[str, float] | None = None, *, ridges: bool = True, display: bool = True
) -> Any:
    """Draw dense bf16 roofs (fp16, and named so, of a GPU without bf16) from the data sheet, a mark at each ridge and a line at
    each intensity in `points`.

    points   label -> FLOP per byte
    ridges   print where the ridges are (without it, a reader can still work them out)
    display  show it in the notebook; either way the figure is returned
    """
    figure, ax = axes()
    bottom = min(LEFT * gpu.hbm_gb_per_s / 1e3 for gpu in gpus)
    for place, (gpu, colour) in enumerate(zip(gpus, COLOURS, strict=False)):
        peak, slope = gpu.half_tflops, gpu.hbm_gb_per_s / 1e3  # TFLOP/s, and TFLOP/s for each FLOP per byte
        ridge = peak / slope
        # roofs of one height lie on each other: the lower line is the wider one
        width = 2 + 2 * sum(later.half_tflops == peak for later in gpus[place + 1 :])
        ax.plot([LEFT, ridge, RIGHT], [LEFT * slope, peak, peak], color=colour, linewidth=width,
                label=f"{_named(gpu)}, ridge at {ridge:.0f}" if ridges else _named(gpu))  # fmt: skip
        ax.plot([ridge], [peak], "o", color=colour, markersize=7, zorder=3)
        ax.plot([ridge, ridge], [bottom, peak], ":", color=colour, linewidth=1)
    for label, intensity in (points or {}).items():
        ax.axvline(intensity, color=GREY, linewidth=1, linestyle=(0, (5, 3)), zorder=1)
        ground = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
        ax.annotate(f"{label}: {intensity:g} FLOP/byte", (intensity, _free_height(gpus, intensity, bottom)),
                    xytext=(4, 0), textcoords="offset points", color=GREY, fontsize=9, rotation=90,
                    va="bottom", ha="left", bbox=ground)  # fmt: skip
    top = 2 * max(gpu.half_tflops for gpu in gpus)
    label_roofline_axes(ax, "attainable bf16 TFLOP/s (dense)")
    ax.set(xlim=(LEFT, RIGHT), ylim=(bottom, top))
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
    if display:
        names = ", ".join(f"{_named(g)}: {g.half_tflops:g} TFLOP/s, {g.hbm_gb_per_s:g} GB/s" for g in gpus)
        show(figure, f"Roofline of {len(gpus)} GPUs. {names}")
    return figure


def _named(gpu: GpuSpec) -> str:
    return gpu.name if gpu.half_precision == "bf16" else f"{gpu.name} ({gpu.half_precision})"


def _free_height(gpus: Sequence[GpuSpec], intensity: float, bottom: float) -> float:
    """Where upright words meet no roof: above the slopes, or, from the first ridge on, at the foot of the picture."""
    rates = [min(gpu.half_tflops, intensity * gpu.hbm_gb_per_s / 1e3) for gpu in gpus]
    on_slopes = all(rate < gpu.half_tflops / 10 for rate, gpu in zip(rates, gpus, strict=True))
    return 2 * max(rates) if on_slopes else 1.3 * bottom
