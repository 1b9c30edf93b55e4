"""The figures of section 2 draw what they are given."""

from course_lib.display.context_figure import context_figure
from course_lib.display.intensity_figure import intensity_figure
from course_lib.display.tokens_figure import tokens_figure


def drawn(figure):
    return [(list(line.get_xdata()), list(line.get_ydata())) for line in figure.axes[0].lines]


def test_intensity_has_a_curve_for_each_label_and_a_level_line_for_each_ridge():
    curves = {"weights alone": [(1, 1), (512, 512)], "8192 tokens": [(1, 1.2), (512, 17.5)]}
    figure = intensity_figure(curves, {"H100": 295.3, "H200": 206.1}, display=False)
    lines = drawn(figure)
    assert lines[:2] == [([1, 512], [1, 512]), ([1, 512], [1.2, 17.5])]
    assert [ys for _, ys in lines[2:]] == [[295.3, 295.3], [206.1, 206.1]]
    words = [text.get_text() for text in figure.axes[0].texts]
    assert words == ["weights alone", "8192 tokens", "ridge of H100: 295", "ridge of H200: 206"]


def test_tokens_has_the_floor_the_measured_points_and_the_threshold():
    floors, points = [(1, 7.0), (256, 8.7)], [(1, 9.0), (256, 12.0)]
    figure = tokens_figure({"cold": points}, floors, 229, "NVIDIA H200", display=False)
    lines = drawn(figure)
    assert lines[0] == ([1, 256], [7.0, 8.7])
    assert lines[1] == ([1, 256], [9.0, 12.0])
    assert lines[2][0] == [229, 229]
    assert figure.axes[0].get_title() == "NVIDIA H200"


def test_context_has_the_floor_the_measured_points_and_what_is_marked():
    measured, floors = [(512, 1.2), (8192, 2.0)], [(512, 1.0), (8192, 1.7)]
    figure = context_figure(measured, floors, "NVIDIA H200", l2_tokens=1525, claimed=8192, display=False)
    lines = drawn(figure)
    assert lines[0] == ([512, 8192], [1.0, 1.7])
    assert lines[1] == ([512, 8192], [1.2, 2.0])
    assert [xs for xs, _ in lines[2:]] == [[1525, 1525], [8192, 8192]]
    assert [text.get_text() for text in figure.axes[0].texts] == ["L2 would hold: 1 525", "claimed stall: 8 192"]
