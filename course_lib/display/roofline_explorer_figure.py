"""The explorer's picture: a GPU's roof with a step on it, and below, on the same axis, where the step and its parts lie.

One figure is used again and again. Its axes are fixed and drawn once; a change redraws only what moves, since ticks, grid and a
layout take longer than all the rest. What can move has a row or a corner of its own, so that labels do not meet.
"""

from io import BytesIO
from math import atan2, degrees
from typing import Any

from .roofline_axes import label_roofline_axes
from .roofline_explorer_numbers import Numbers
from .style import COLOURS, GREY, axes

LEFT, RIGHT, BOTTOM, TOP = 0.5, 20_000.0, 0.1, 10_000.0  # FLOP per byte; TFLOP/s
WIDTH, HEIGHT = 660, 572  # pixels
X = 0.13  # left edge of the axes, as a share of the width
INK = "#111827"
STEP, PRODUCTS, ATTENTION = COLOURS[0], COLOURS[1], COLOURS[2]
_ROWS = {"products": (2, PRODUCTS), "step": (1, STEP), "attention": (0, ATTENTION)}
_DASHES = (0, (5, 3))


class ExplorerFigure:
    """`png(numbers)` draws them; `figure` stays the same one."""

    def __init__(self) -> None:
        self.figure, self.roof = axes(WIDTH / 110, HEIGHT / 110)
        self.figure.set_layout_engine("none")
        self.roof.set_position((X, 0.40, 0.98 - X, 0.485))
        self.strip = self.figure.add_axes((X, 0.095, 0.98 - X, 0.27))
        self._frame()
        self._moving: list[Any] = []
        canvas = self.figure.canvas
        canvas.draw()
        self._empty = canvas.copy_from_bbox(self.figure.bbox)

    def png(self, numbers: Numbers) -> bytes:
        """The picture of these numbers, WIDTH by HEIGHT pixels."""
        from PIL import Image

        self.draw(numbers)
        canvas = self.figure.canvas
        canvas.restore_region(self._empty)
        for artist in sorted(self._moving, key=lambda one: one.zorder):
            artist.draw(canvas.get_renderer())
        buffer = BytesIO()
        picture = Image.frombuffer("RGBA", (WIDTH, HEIGHT), canvas.buffer_rgba(), "raw", "RGBA", 0, 1)
        picture.convert("RGB").save(buffer, "png", compress_level=2)
        return buffer.getvalue()

    def draw(self, numbers: Numbers) -> None:
        for artist in self._moving:
            artist.remove()
        self._moving = []
        self._draw_title(numbers)
        self._draw_roof(numbers)
        self._draw_step(numbers)
        self._draw_rows(numbers)

    def _frame(self) -> None:
        label_roofline_axes(self.roof)
        label_roofline_axes(self.strip)
        self.strip.set(yscale="linear", ylabel="", ylim=(-0.5, 2.62))
        self.roof.set(ylim=(BOTTOM, TOP), xlabel="")
        ticks, heights = (1, 10, 100, 1000, 10_000), (0.1, 1, 10, 100, 1000, 10_000)
        names = [f"{tick:,}".replace(",", " ") for tick in ticks]
        for ax, shown in ((self.roof, [""] * len(ticks)), (self.strip, names)):
            ax.set_xlim(LEFT, RIGHT)
            ax.set_xticks(ticks, shown)
            ax.minorticks_off()
            ax.tick_params(labelsize=9, length=3)
        self.roof.set_yticks(heights, ["0.1", *(f"{height:,}".replace(",", " ") for height in heights[1:])])
        self.roof.minorticks_off()
        self.strip.set_yticks([row for row, _ in _ROWS.values()], list(_ROWS))
        for label, (_, colour) in zip(self.strip.get_yticklabels(), _ROWS.values(), strict=True):
            label.set_color(colour)
        self.strip.spines[["left", "top", "right"]].set_visible(False)
        self.strip.tick_params(axis="y", length=0)
        self.strip.grid(axis="y", visible=False)

    def _draw_title(self, numbers: Numbers) -> None:
        setting = numbers.setting
        cards = f"{numbers.ranks} × {numbers.gpu.name}, one of them shown" if numbers.ranks > 1 else numbers.gpu.name
        each = f"{kind_of(numbers)}, batch {setting.batch}"
        if setting.context:
            each += f", context {setting.context}"
        self._keep(
            self.figure.text(0.02, 0.955, f"{setting.model} on {cards}", fontsize=11, fontweight="bold", color=INK),
            self.figure.text(0.02, 0.912, f"{each}; weights {setting.weights}, KV {setting.kv}", fontsize=9.5, color="#374151"),
        )

    def _draw_roof(self, numbers: Numbers) -> None:
        slope, peak, ridge = numbers.gpu.hbm_gb_per_s / 1e3, numbers.peak_tflops, numbers.ridge
        ax = self.roof
        self._keep(*ax.plot([LEFT, ridge, RIGHT], [LEFT * slope, peak, peak], color=INK, linewidth=2, zorder=3))
        self._say(ax, f"{digits(peak)} TFLOP/s {numbers.precision}, dense", ridge, peak, (-12, 1), "right", "center", INK)
        other = "fp8" if numbers.precision == numbers.gpu.half_precision else numbers.gpu.half_precision
        if second := numbers.gpu.peak_tflops(other):
            self._keep(*ax.plot([second / slope, RIGHT], [second, second], color=GREY, linewidth=1, linestyle=_DASHES))
            self._say(ax, f"{digits(second)} {other}", second / slope, second, (-12, 1), "right", "center", GREY)
        (x0, y0), (x1, y1) = ax.transData.transform([(1, slope), (10, 10 * slope)])
        angle = degrees(atan2(y1 - y0, x1 - x0))
        words = f"{numbers.gpu.hbm_gb_per_s:,.0f} GB/s".replace(",", " ")
        self._keep(ax.annotate(words, (0.62, 0.62 * slope), xytext=(0, 5), textcoords="offset points", rotation=angle,
                               rotation_mode="anchor", fontsize=9, color=INK, va="bottom"))  # fmt: skip
        for one, top in ((ax, peak), (self.strip, self.strip.get_ylim()[1])):
            self._keep(*one.plot([ridge, ridge], [one.get_ylim()[0], top], color=INK, linewidth=1, linestyle=":", zorder=1))
        self._say(ax, f"ridge: {digits(ridge)} FLOP/byte", ridge, BOTTOM, (5, 18), "left", "bottom", INK)
        self._say(ax, "waits for arithmetic", ridge, BOTTOM, (5, 4), "left", "bottom", GREY)
        self._say(ax, "waits for memory", ridge, BOTTOM, (-5, 4), "right", "bottom", GREY)

    def _draw_step(self, numbers: Numbers) -> None:
        """Markers on the roof: the step's trail from batch 1, then its parts and itself."""
        ax, here = self.roof, numbers.step.flops_per_byte
        bend = [numbers.ridge] if numbers.trail[0][1] < numbers.ridge < here else []
        xs = [numbers.trail[0][1], *bend, here]
        self._keep(*ax.plot(xs, [numbers.tflops_at(x) for x in xs], color=STEP, linewidth=7, alpha=0.35, zorder=2,
                            solid_capstyle="round"))  # fmt: skip
        parts = ((numbers.product_intensity, PRODUCTS, "s"), (numbers.attention_intensity, ATTENTION, "D"), (here, STEP, "o"))
        for intensity, colour, shape in parts:
            self._keep(*ax.plot([min(intensity, RIGHT)], [numbers.tflops_at(intensity)], shape, color=colour, zorder=5,
                                markersize=9 if shape == "o" else 7, markeredgecolor="white", clip_on=False))  # fmt: skip
        words = f"the step: {digits(numbers.tflops_at(here))} TFLOP/s at most, {percent(numbers.peak_share)} of the peak"
        self._say(ax, words, RIGHT, BOTTOM, (-2, 38), "right", "bottom", STEP)

    def _draw_rows(self, numbers: Numbers) -> None:
        """The strip: intensity of each part, where it came from at batch 1, and where the step tends to."""
        here, limit = numbers.step.flops_per_byte, numbers.intensity_limit
        for name, start, end in (
            ("products", numbers.product_start, numbers.product_intensity),
            ("step", numbers.trail[0][1], here),
            ("attention", numbers.attention_intensity, numbers.attention_intensity),
        ):
            row, colour = _ROWS[name]
            stop = min(end, RIGHT)
            self._keep(*self.strip.plot([start, stop], [row, row], color=colour, linewidth=3, alpha=0.45, zorder=2))
            shape = {"products": "s", "step": "o", "attention": "D"}[name] if end < RIGHT else ">"
            self._keep(*self.strip.plot([stop], [row], shape, color=colour, markersize=8, zorder=4, clip_on=False))
            far = stop > RIGHT / 8
            if name == "attention":
                self._say(self.strip, digits(end), stop, row, (-9 if far else 9, 0), "right" if far else "left", "center", colour)
                continue
            self._say(self.strip, digits(end), stop, row, (0, 6), "right" if far else "center", "bottom", colour)
            if stop > 6 * start:
                self._keep(*self.strip.plot([start], [row], "|", color=colour, markersize=9))
                if name == "products":
                    self._say(self.strip, "batch 1", start, row, (0, 6), "center" if start > 1.5 else "left", "bottom", GREY)
        if limit is not None:
            row, colour = _ROWS["step"]
            stop = min(limit, RIGHT)
            self._keep(*self.strip.plot([here, stop], [row, row], color=colour, linewidth=1.2, linestyle=":", zorder=2))
            self._keep(*self.strip.plot([stop], [row], "|" if limit < RIGHT else ">", color=colour, markersize=9, zorder=3))
            across = "right" if stop > RIGHT / 50 else "left"
            self._say(self.strip, f"any batch: below {digits(limit)}", stop, row, (0, -5), across, "top", GREY)
        words = f"M* = {digits(numbers.token_threshold)} tokens"
        self._say(self.strip, words, numbers.ridge, _ROWS["products"][0], (5, -5), "left", "top", GREY)

    def _say(self, ax: Any, words: str, x: float, y: float, offset: tuple, across: str, along: str, colour: str) -> None:
        ground = {"facecolor": "white", "edgecolor": "none", "pad": 0.4, "alpha": 0.85}
        self._keep(ax.annotate(words, (x, y), xytext=offset, textcoords="offset points", ha=across, va=along, fontsize=9,
                               color=colour, bbox=ground, zorder=4, annotation_clip=False))  # fmt: skip

    def _keep(self, *artists: Any) -> None:
        self._moving += artists


def alt_text(numbers: Numbers) -> str:
    """The picture in words."""
    return (
        f"Roofline of the {numbers.gpu.name}: {digits(numbers.peak_tflops)} TFLOP/s {numbers.precision}, "
        f"{numbers.gpu.hbm_gb_per_s:g} GB/s, ridge at {digits(numbers.ridge)} FLOP per byte. On it lie the products at "
        f"{digits(numbers.product_intensity)}, the whole step at {digits(numbers.step.flops_per_byte)} and attention at "
        f"{digits(numbers.attention_intensity)} FLOP per byte."
    )


def digits(value: float) -> str:
    """Three digits or more, no exponent: 0.52, 3.88, 21.8, 295, 1 979."""
    if value >= 99.95:
        return f"{value:,.0f}".replace(",", "\u202f")
    return f"{value:.3g}"


def percent(share: float) -> str:
    return f"{100 * share:.2g}%" if share < 0.995 else "100%"


def kind_of(numbers: Numbers) -> str:
    """The kind of step, in words."""
    new, context = numbers.setting.new_tokens, numbers.setting.context
    if numbers.decodes:
        return "decode"
    return f"{new} new tokens each" if context else f"prefill of {new} token{'s' if new > 1 else ''}"
