"""The timeline of decode work: a box for each item, the line where evenly spread work would end, and its numbers in words."""

import pytest

from course_lib.display.split_timeline_figure import split_timeline_figure

UNCUT, CUT = [(0, 0, 6, 0), (1, 0, 2, 1)], [(0, 0, 3, 0), (1, 0, 3, 0), (0, 3, 4, 1), (1, 3, 4, 1)]


def test_each_item_is_a_box_and_the_titles_say_when_all_is_done():
    figure = split_timeline_figure({"nothing cut": UNCUT, "cut": CUT}, 2, display=False)
    assert [len(ax.collections[0].get_paths()) for ax in figure.axes] == [2, 4]
    assert [ax.get_title(loc="left").splitlines()[1] for ax in figure.axes] == [
        "2 items, done after 6, 67% busy", "4 items, done after 4, 100% busy"
    ]  # fmt: skip
    assert all(list(ax.lines[0].get_xdata()) == [4.0, 4.0] for ax in figure.axes)


def test_neighbours_are_told_apart_and_stay_in_their_rows():
    (ax,) = split_timeline_figure({"cut": CUT}, 2, display=False).axes
    (boxes,) = ax.collections
    assert [round(alpha, 2) for alpha in boxes.get_facecolors()[:, 3]] == [1, 0.55, 1, 0.55]
    assert [box.get_extents().bounds for box in boxes.get_paths()] == [(0, 0, 3, 1), (0, 1, 3, 1), (3, 0, 1, 1), (3, 1, 1, 1)]


def test_no_item_is_drawn_as_nothing():
    (ax,) = split_timeline_figure({"empty": []}, 4, display=False).axes
    assert "0 items, done after 0" in ax.get_title(loc="left")


def test_it_is_shown_with_words(monkeypatch):
    from course_lib.display import split_timeline_figure as module

    said = []
    monkeypatch.setattr(module, "show", lambda figure, alt: said.append(alt))
    split_timeline_figure({"cut": CUT}, 2)
    assert said == [
        "Timelines of 2 programs, a colour for each sequence. cut: 4 items, done after 4, 100% busy, evenly spread 4."
    ]


@pytest.mark.parametrize("sequence", [0, 7, 8, 100])
def test_any_number_of_sequences_has_colours(sequence):
    assert split_timeline_figure({"one": [(0, 0, 1, sequence)]}, 1, display=False).axes
