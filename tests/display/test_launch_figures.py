"""The figures of section 9 draw what they are given."""

import pytest

from course_lib.display.launch_regimes_figure import launch_regimes_figure
from course_lib.display.step_breakdown_figure import IDLE, step_breakdown_figure


def test_regimes_have_a_bend_at_the_cheapest_launch_and_every_point_with_its_words():
    points = {"small": [("one by one", 2.0, 6.0, False), ("graph", 2.0, 2.2, True)], "large": [("one by one", 15.0, 15.5, False)]}
    figure = launch_regimes_figure(points, (4.0, 6.0), "NVIDIA H200", display=False)
    (bend,) = figure.axes[0].lines
    assert list(bend.get_xdata())[1] == list(bend.get_ydata())[:2][0] == 4.0
    assert list(bend.get_ydata())[:2] == [4.0, 4.0]
    assert bend.get_xdata()[-1] == bend.get_ydata()[-1]
    drawn = [tuple(map(float, offset)) for group in figure.axes[0].collections[-2:] for offset in group.get_offsets()]
    assert drawn == [(2.0, 6.0), (2.0, 2.2), (15.0, 15.5)]
    words = [text.get_text() for text in figure.axes[0].texts]
    assert {"one by one", "graph"} < set(words)
    assert "host: 4 to 6 µs a launch" in words


def test_a_breakdown_adds_up_to_each_step():
    bars = {"one by one": {"down": 300.0, "attention": 500.0, IDLE: 1200.0}, "graph": {"down": 310.0, "attention": 490.0}}
    figure = step_breakdown_figure(bars, "Qwen3-0.6B", display=False)
    ends = {}
    for bar in figure.axes[0].patches:
        row = round(bar.get_y() + bar.get_height() / 2)
        ends[row] = max(ends.get(row, 0.0), bar.get_x() + bar.get_width())
    assert ends == {0: pytest.approx(2.0), 1: pytest.approx(0.8)}  # milliseconds, since a step takes more than one
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["attention", "down", IDLE]
    assert figure.axes[0].get_xlabel() == "ms of one step"
