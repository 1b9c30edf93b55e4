"""The telemetry figures draw what they are given, and say in words what they draw."""

from course_lib.display import energy_figure, telemetry_figure
from course_lib.display.telemetry_figure import loops_of

ROWS = {"rows": [
    {"case": "spin: busy_time_percent", "ours": 100.0}, {"case": "spin: tensor_percent", "ours": 0.0},
    {"case": "decode 8: mean_watts", "ours": 480.0}, {"case": "decode 8: tensor_percent", "ours": 2.4},
]}  # fmt: skip


def test_rows_become_loops():
    assert loops_of(ROWS) == {
        "spin": {"busy_time_percent": 100.0, "tensor_percent": 0.0},
        "decode 8": {"mean_watts": 480.0, "tensor_percent": 2.4},
    }


def test_a_panel_for_each_counter_and_a_word_for_one_that_is_missing():
    figure = telemetry_figure.telemetry_figure(loops_of(ROWS), "a device", display=False)
    assert len(figure.axes) == 5
    busy, _, tensor, dram, watts = figure.axes
    assert [text.get_text() for text in busy.texts] == ["100", "no counter"]
    assert [text.get_text() for text in tensor.texts] == ["0", "2.4"]
    assert [text.get_text() for text in dram.texts] == ["no counter"] * 2
    assert [bar.get_width() for bar in watts.patches] == [0.0, 480.0]
    assert [label.get_text() for label in busy.get_yticklabels()] == ["spin", "decode 8"]


def test_energy_against_batch_has_both_curves():
    figure = energy_figure.energy_figure([1, 8, 64], [2.0, 0.3, 0.06], [450.0, 470.0, 520.0], "a device", display=False)
    left, right = figure.axes
    assert list(left.lines[0].get_ydata()) == [2.0, 0.3, 0.06]
    assert list(right.lines[0].get_ydata()) == [450.0, 470.0, 520.0]
    assert right.get_ylim()[0] == 0


def test_the_notebook_gets_a_picture_with_a_text(monkeypatch):
    said = []
    monkeypatch.setattr("course_lib.display.telemetry_figure.show", lambda figure, alt: said.append(alt))
    telemetry_figure.telemetry_figure(loops_of(ROWS), "a device", only=["spin"])
    assert said == [
        "Counters on a device. spin: utilization.gpu, % 100, SM activity, % no counter, tensor activity, % 0, "
        "DRAM bandwidth, % no counter, power, W no counter"
    ]
