"""Figures of measured roofs: medians solid, spreads as bands, the sheet dashed; labels cover nothing. All numbers are made up."""

from itertools import combinations

import pytest

from course_lib.display.bandwidth_curve_figure import bandwidth_curve_figure, half_bandwidth_bytes
from course_lib.display.measured_roofline_figure import measured_roofline_figure

EXAMPLE = "an example, not a measurement"
MEMORY, COMPUTE = {"copy": (90.0, 100.0, 110.0)}, {"bf16": (180.0, 200.0, 210.0), "fp8": (350.0, 400.0, 410.0)}
POINTS = {"copy": (0.1, 0.009), "add": (0.11, 0.0088), "one": (1.0, 0.09), "product": (4000.0, 195.0), "other": (4200.0, 190.0)}


def own(**more):
    return measured_roofline_figure(EXAMPLE, MEMORY, COMPUTE, points=POINTS, display=False, **more)


def test_roofs_are_drawn_at_their_medians_and_the_sheet_dashed():
    (ax,) = own(sheet_gb_per_s=120.0, sheet_tflops={"bf16": 250.0, "fp8": 500.0}).axes
    solid = {line.get_label(): line for line in ax.get_lines() if line.get_linestyle() == "-"}
    dashed = [line for line in ax.get_lines() if line.get_linestyle() == "--"]
    assert set(solid) >= {"copy: 100 GB/s", "bf16: 200 TFLOP/s", "fp8: 400 TFLOP/s"}
    slope, flat = solid["copy: 100 GB/s"], solid["bf16: 200 TFLOP/s"]
    assert slope.get_ydata()[-1] / slope.get_xdata()[-1] == pytest.approx(0.1)  # TB/s
    assert flat.get_xdata()[0] == pytest.approx(2000)  # the measured ridge: 200 TFLOP/s over 0.1 TB/s
    assert [line.get_ydata()[-1] for line in dashed] == [500.0, 250.0, 500.0]
    assert len(ax.collections) == 3  # a band for each measured roof


def test_labels_stay_inside_and_cover_neither_each_other_nor_a_point():
    figure = own()
    (ax,) = figure.axes
    renderer, frame = figure.canvas.get_renderer(), ax.get_window_extent()
    boxes = [text.get_window_extent(renderer) for text in ax.texts]
    assert sorted(text.get_text() for text in ax.texts) == sorted(POINTS)
    assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))
    marks = ax.transData.transform(list(POINTS.values()))
    assert not any(box.contains(*mark) for box in boxes for mark in marks)
    assert all(frame.contains(*corner) for box in boxes for corner in box.corners())


def test_a_figure_without_a_roof_is_refused():
    with pytest.raises(ValueError, match="a slope and a flat roof; got 0 of the one and 2"):
        measured_roofline_figure(EXAMPLE, {}, COMPUTE, display=False)


def test_the_bandwidth_curve_is_bytes_over_seconds_and_names_its_regions():
    sizes = [2**power for power in range(12, 31, 2)]
    points = [(size, 2e-6 + size / 4e12) for size in sizes]
    spread = [(0.9 * seconds, 1.1 * seconds) for _, seconds in points]
    marks = {"l2_bytes": 50 * 2**20, "sheet_gb_per_s": 4800}
    figure = bandwidth_curve_figure(EXAMPLE, {"read": points}, spread=spread, **marks, display=False)
    (ax,) = figure.axes
    assert ax.get_xscale() == "log"
    assert list(ax.get_lines()[0].get_ydata()) == pytest.approx([size / seconds / 1e9 for size, seconds in points])
    said = {text.get_text() for text in ax.texts}
    assert {"L2: 50 MiB", "launch and latency", "plateau: HBM", "data sheet, 4,800 GB/s"} <= said
    assert ax.get_xlabel() == "bytes moved"


def test_half_of_the_bandwidth_is_reached_where_latency_and_transfer_take_equally_long():
    half = half_bandwidth_bytes(2.4e-6, 4400)
    assert half == pytest.approx(10.56e6)
    assert half / (2.4e-6 + half / 4400e9) == pytest.approx(2200e9)
