"""The figures of tiled attention draw what they are given."""

from course_lib.display.attention_bytes_figure import attention_bytes_figure
from course_lib.display.tile_walk_figure import tile_walk_figure


def test_bytes_has_a_line_for_each_curve_and_one_for_the_least():
    figure = attention_bytes_figure({"naive": [(512, 4e6), (2048, 6e7)]}, [(512, 1e6), (2048, 4e6)], "32 heads", display=False)
    lines = [(list(line.get_xdata()), list(line.get_ydata())) for line in figure.axes[0].lines]
    assert lines == [([512, 2048], [4e6, 6e7]), ([512, 2048], [1e6, 4e6])]
    assert [text.get_text() for text in figure.axes[0].texts] == ["naive", "each byte once"]
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["512", "2k"]


def test_a_walk_numbers_the_tiles_it_reads_hatches_the_others_and_stacks_what_is_kept_of_the_sum():
    inf = float("inf")
    read = [(0, 2, 0, 2), (2, 4, 0, 2), (2, 4, 2, 4)]
    figure = tile_walk_figure(4, 4, 2, 2, read, [1.0, 0.0, 1.0, -inf], [(1.0, 1.5), (1.0, 2.5)], 2, display=False)
    plane, largest, total = figure.axes
    assert [text.get_text() for text in plane.texts] == ["1", "2"]
    assert [patch.get_hatch() for patch in plane.patches] == [None, "///", None, None]
    assert list(largest.lines[0].get_xdata()) == [0, 1, 2]  # key 3 is not seen
    assert [bar.get_height() for bar in total.patches] == [0.0, 1.5, 1.5, 1.0]
