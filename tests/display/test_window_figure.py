"""The figure of perplexity against a window shows every point and every level."""

from course_lib.display.window_figure import window_figure


def test_curves_and_levels_are_drawn_as_given():
    figure = window_figure({"alone": [(64, 10.0), (128, 7.5)], "one sink": [(64, 8.0), (128, 6.5)]}, {"anew": 5.0}, display=False)
    lines = [(list(line.get_xdata()), list(line.get_ydata())) for line in figure.axes[0].lines]
    assert lines[:2] == [([64, 128], [10.0, 7.5]), ([64, 128], [8.0, 6.5])]
    assert lines[2][1] == [5.0, 5.0]
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == ["alone", "one sink"]


def test_every_window_has_a_tick_and_every_number_is_said(monkeypatch):
    said = []
    monkeypatch.setattr("course_lib.display.window_figure.show", lambda figure, alt: said.append(alt))
    figure = window_figure({"alone": [(64, 10.0), (96, 7.5)]}, {"anew": 5.0})
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["64", "96"]
    assert said == ["Perplexity against the window. alone: 64 tokens 10.00, 96 tokens 7.50; anew 5.00"]


def test_no_curve_is_left_out_for_want_of_a_colour():
    many = {f"{sinks} sinks": [(64, 10.0 - sinks)] for sinks in range(9)}
    assert len(window_figure(many, {}, display=False).axes[0].lines) == 9
