"""C049: across a roofline stands FLOP per byte, not bytes per second. Every roofline gets its axes from label_roofline_axes."""

import pytest

from course_lib.display.measured_roofline_figure import measured_roofline_figure
from course_lib.display.roofline_axes import check_roofline_axes, label_roofline_axes
from course_lib.display.roofline_figure import roofline_figure
from course_lib.display.style import axes
from course_lib.hardware import spec

H200 = spec("h200-sxm")


def sheet_figure():
    return roofline_figure([H200], display=False)


def own_figure():
    rates = {"memory": (4700.0, H200.hbm_gb_per_s, 4900.0)}, {"bf16": (900.0, H200.bf16_tflops, 1000.0)}
    return measured_roofline_figure("an example, not a measurement", *rates, display=False)


@pytest.mark.parametrize("figure", [sheet_figure, own_figure])
def test_c049_x_is_flop_per_byte_and_y_is_flop_per_second(figure):
    (ax,) = figure().axes
    check_roofline_axes(ax)
    roof = ax.get_lines()[0]
    for intensity, tflops in zip(roof.get_xdata(), roof.get_ydata(), strict=True):
        # FLOP/byte times TB/s is TFLOP/s: with these axes, and no others, the rising line is the memory's bandwidth
        assert tflops == pytest.approx(min(H200.bf16_tflops, intensity * H200.hbm_gb_per_s / 1e3))


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"xlabel": "Bytes/s"}, "x axis of a roofline has the unit FLOP per byte; this one is labelled 'Bytes/s'"),
        ({"xlabel": "bytes per FLOP"}, "x axis"),
        ({"ylabel": "seconds"}, "y axis of a roofline has the unit FLOP/s"),
        ({"ylabel": "FLOP per byte"}, "y axis"),
        ({"xscale": "linear"}, "logarithmic, this one is linear"),
        ({"yscale": "linear"}, "set_yscale"),
    ],
    ids=str,
)
def test_c049_axes_of_any_other_unit_are_refused(change, wrong):
    _, ax = axes()
    label_roofline_axes(ax)
    check_roofline_axes(ax)
    ax.set(**change)
    with pytest.raises(ValueError, match=wrong.replace("(", r"\(")):
        check_roofline_axes(ax)
