"""The memory figures draw what they are given, to scale, and say it in words as well."""

import pytest

from course_lib.display import allocators_figure as allocators_module
from course_lib.display import block_table_figure as table_module
from course_lib.display.allocators_figure import PARTS, allocators_figure
from course_lib.display.block_table_figure import EMPTY, MORE_COLOURS, block_table_figure
from course_lib.kvcache.baselines import allocators
from course_lib.kvcache.replay import replay
from course_lib.kvcache.trace import SHAREGPT


@pytest.fixture(scope="module")
def runs():
    requests = SHAREGPT.requests(80, seed=0)
    return [replay(requests, one) for one in allocators(4 * 2048, 2048)]


def test_every_allocator_has_a_band_on_one_time_axis(runs, monkeypatch):
    said = []
    monkeypatch.setattr(allocators_module, "show", lambda figure, alt: said.append(alt))
    figure = allocators_figure(runs, "80 requests")
    assert [ax.get_title(loc="left").split(":")[0] for ax in figure.axes] == ["max length", "power of two", "oracle", "paged"]
    assert {ax.get_xlim() for ax in figure.axes} == {(0, max(run.steps for run in runs))}
    paged = runs[-1]
    assert f"paged: {100 * paged.mean_shares()['live']:.0f}% holds tokens" in figure.axes[-1].get_title(loc="left")
    assert f"all requests done after {paged.steps} steps" in said[0]
    assert said[0].startswith("Memory of 4 allocators over time. 80 requests")


def test_the_bands_are_the_shares(runs):
    run = runs[0]
    (ax,) = allocators_figure([run], display=False).axes
    assert len(ax.collections) == len(PARTS)
    row = next(row for row in run.rows if row.step == 64)
    tops = []
    for area in ax.collections:
        vertices = area.get_paths()[0].vertices
        tops.append(max(y for x, y in vertices if x == 64))
    shares = row.shares()
    heights = [100 * shares[part] for part, _, _ in PARTS]
    assert tops == pytest.approx([sum(heights[: place + 1]) for place in range(len(heights))])


def patches(ax, colour):
    from matplotlib.colors import to_rgba

    return [patch for patch in ax.patches if patch.get_fill() and patch.get_facecolor() == to_rgba(colour)]


def test_a_slot_with_a_token_has_the_colour_of_its_sequence_and_shared_ones_are_hatched(monkeypatch):
    said = []
    monkeypatch.setattr(table_module, "show", lambda figure, alt: said.append(alt))
    tables, tokens = {"a": [5, 2], "b": [5, 0, 7]}, {"a": 6, "b": 9}
    figure = block_table_figure(tables, tokens, 8, 4, columns=4)
    upper, lower = figure.axes
    assert [label.get_text() for label in upper.get_yticklabels()] == ["a: 6 tokens", "b: 9 tokens"]
    assert [text.get_text() for text in upper.texts] == ["5", "2", "5", "0", "7"]
    a, b = patches(lower, MORE_COLOURS[0]), patches(lower, MORE_COLOURS[1])
    assert (len(a), len(b), len(patches(lower, EMPTY))) == (4 + 2, 4 + 1, 8 * 4 - 11)
    assert [(patch.get_x(), patch.get_y(), patch.get_width()) for patch in lower.patches if patch.get_hatch()] == [(1, 1, 0.9)]
    assert [(patch.get_x(), patch.get_y()) for patch in upper.patches if patch.get_hatch()] == [(0, 0), (0, 1)]
    assert "4 free" in lower.get_title(loc="left")
    assert "a has 6 tokens in blocks [5, 2]; b has 9 tokens in blocks [5, 0, 7]. Shared blocks: 5 (a, b)" in said[0]


def test_an_empty_memory_and_an_empty_sequence_can_be_drawn():
    assert block_table_figure({}, {}, 4, 4, display=False)
    assert block_table_figure({"a": []}, {"a": 0}, 4, 4, "one sequence", display=False)
