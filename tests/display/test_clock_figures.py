"""Figures of launches, wrong clocks and copies: every bar and label is there, and what is seen is said in words."""

import pytest

from course_lib.display.clocks_figure import clocks_figure, samples_figure
from course_lib.display.host_copies_figure import host_copies_figure
from course_lib.display.launch_timeline_figure import launch_timeline_figure
from course_lib.workloads.simulated_gpu import simulated_gpu


@pytest.fixture
def shown(monkeypatch):
    """Texts that go with the figures that were shown."""
    texts = []
    for name in ("clocks_figure", "host_copies_figure", "launch_timeline_figure"):
        monkeypatch.setattr(f"course_lib.display.{name}.show", lambda figure, alt: texts.append(alt))
    return texts


def words(figure):
    return [text.get_text() for ax in figure.axes for text in ax.texts]


def test_a_timeline_has_a_bar_for_each_row_and_a_span_for_each_clock(shown):
    gpu, launch, machine = simulated_gpu({"kernel_us": 50.0})
    launch()
    launch()
    gpu.synchronize()
    figure = launch_timeline_figure({"two": (machine.rows, [("all", 0.0, 100.0)]), "again": (machine.rows, [])})
    assert [len([p for p in ax.patches if hasattr(p, "get_width")]) for ax in figure.axes] == [5, 5]
    assert "all" in words(figure)
    assert words(figure).count("kernel") == 4
    assert "device kernel 5 to 55 us" in shown[0]


def test_wrong_clocks_have_a_bar_each_and_the_right_one_is_the_line(shown):
    rows = [
        {"kernel": "copy", "clock": "right", "ours": 10.0, "peer": 10.0, "ratio": 1.0},
        {"kernel": "copy", "clock": "warm", "ours": 5.0, "peer": 10.0, "ratio": 0.5},
        {"kernel": "copy", "clock": "late", "ours": 5000.0, "peer": 10.0, "ratio": 500.0},
    ]
    figure = clocks_figure(rows, "here")
    assert words(figure) == ["copy: 10 µs", "5 µs, × 0.5", "5 ms, × 500"]
    assert [tick.get_text() for tick in figure.axes[0].get_yticklabels()] == ["warm", "late"]
    assert "copy, late: 5 ms" in shown[0]


def test_samples_say_median_and_mean(shown):
    figure = samples_figure({"a": [1.0, 2.0, 6.0]}, "here")
    (label,) = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert label == "a: median 2 µs, mean 3 µs"
    assert "from 1 µs to 6 µs" in shown[0]


def test_copies_have_four_lines(shown):
    ways = ("to the device", "to the host")
    rows = [{"direction": way, "bytes": n, "ours": n / 1e3, "peer": n / 2e3} for way in ways for n in (10, 100)]
    figure = host_copies_figure(rows, "here")
    assert [line.get_label() for line in figure.axes[0].get_lines()] == [
        "pinned, to the device", "pageable, to the device", "pinned, to the host", "pageable, to the host"]  # fmt: skip
    assert "pinned, to the host: up to 0.1 GB/s" in shown[0]
