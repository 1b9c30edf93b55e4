"""The map of tiles has a square for each size, and says in words what the colours say."""

import pytest

from course_lib.display.tile_map_figure import tile_map_figure

TILES = [
    {"block_q": 64, "block_k": 32, "limit": "", "text": "48\n4"},
    {"block_q": 64, "block_k": 64, "limit": "registers", "text": "80\n2"},
    {"block_q": 128, "block_k": 32, "limit": "shared memory", "text": "320\n-"},
]


def test_a_square_for_each_tile_in_its_row_and_column():
    figure = tile_map_figure({"A": TILES, "B": TILES[:1]}, display=False)
    first, second = figure.axes
    assert [text.get_text() for text in first.texts] == ["48\n4", "80\n2", "320\n-"]
    assert [(patch.get_x(), patch.get_y()) for patch in first.patches] == [(0, 0), (1, 0), (0, 1)]
    assert len({patch.get_facecolor() for patch in first.patches}) == 3
    assert len(second.patches) == 1
    for labels, names in ((first.get_xticklabels(), ["32", "64"]), (first.get_yticklabels(), ["64", "128"])):
        assert [label.get_text() for label in labels] == names


def test_the_text_says_which_tiles_are_refused(monkeypatch):
    told = []
    monkeypatch.setattr("course_lib.display.tile_map_figure.show", lambda figure, alt: told.append(alt))
    tile_map_figure({"A": TILES})
    assert told == ["A: refused: shared memory: 128 x 32; must spill: 64 x 64; nothing forbids it: 64 x 32"]


def test_an_unknown_limit_is_refused():
    with pytest.raises(ValueError, match="limit 'warps' has no colour"):
        tile_map_figure({"A": [TILES[0] | {"limit": "warps"}]}, display=False)
