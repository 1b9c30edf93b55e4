"""Figures of an SM's timeline and of the Hopper kernel's steps: every job and step is drawn, and said in words."""

import pytest

from course_lib.attention.timeline import timeline
from course_lib.display import hopper_ladder_figure as ladder
from course_lib.display import sm_timeline_figure as sm

CYCLES = {"load": 1024, "qk": 512, "softmax": 512, "pv": 512}
STEPS = [
    {"step": "plain", "share": 0.6, "low": 0.55, "high": 0.65}, {"step": "overlap", "share": 0.9, "low": 0.9, "high": 0.9},
]  # fmt: skip


@pytest.fixture
def said(monkeypatch):
    words = []
    for module in (sm, ladder):
        monkeypatch.setattr(module, "show", lambda figure, alt: words.append(alt))
    return words


def test_every_job_is_a_bar_on_its_unit(said):
    figure = sm.sm_timeline_figure({"two groups": (timeline(3, 2, 1, 3, CYCLES), CYCLES)})
    (ax,) = figure.axes
    bars = [(round(bar.get_y() + bar.get_height() / 2), bar.get_x(), bar.get_width()) for bar in ax.patches]
    assert sorted(y for y, _, _ in bars) == [0] * 6 + [1] * 12 + [2] * 3
    assert max(x + width for _, x, width in bars) == ax.get_xlim()[1]
    assert "two groups: 7168 cycles; copy engine busy for 43%, tensor cores busy for 86%, exponentials busy for 43%" in said[0]
    assert "qk of tile 0 for group 1 at 1536" in said[0]


def test_groups_have_a_legend_and_boxes_the_number_of_their_tile():
    figure = sm.sm_timeline_figure({"two": (timeline(2, 2, 1, 3, CYCLES), CYCLES)}, display=False)
    (legend,) = figure.legends
    words = [text.get_text() for text in legend.get_texts()]
    assert words == ["load", "group 0: qk, softmax", "pv", "group 1: qk, softmax", "pv"]
    (ax,) = figure.axes
    assert [text.get_text() for text in ax.texts].count("1") == 7


def test_another_kernel_is_a_line_in_each_panel(said):
    figure = ladder.hopper_ladder_figure({"full": STEPS, "causal": STEPS[:1]}, {}, "a GPU", peers={"fa3-fwd": {"full": 0.93}})
    assert [[line.get_xdata()[0] for line in ax.lines if line.get_label() == "fa3-fwd"] for ax in figure.axes] == [[0.93], []]
    assert "overlap 90%; beside it fa3-fwd 93%. causal: plain 60%" in said[0]


def test_what_stands_in_one_panel_only_is_in_the_legend_once():
    panels = {"full": STEPS[:1], "causal": STEPS}
    peers = {f"kernel {number}": {"causal": 0.1 * number} for number in range(1, 9)}
    figure = ladder.hopper_ladder_figure(panels, {"overlap": (0.5, 0.7)}, "a GPU", peers=peers, display=False)
    (legend,) = figure.legends
    assert sorted(text.get_text() for text in legend.get_texts()) == sorted(["measured", "model", *peers])
    assert len(figure.axes[1].patches) == 3


def test_a_timeline_can_be_cut_and_a_group_of_none_is_drawn():
    jobs = [("load", None, 0, 0), ("qk", 0, 0, 1024), ("softmax", 0, 0, 1536), ("pv", 0, 0, 2048)]
    (ax,) = sm.sm_timeline_figure({"cut": (jobs, CYCLES)}, until=2000, display=False).axes
    assert len(ax.patches) == 3
    assert ax.get_xlim() == (0, 2000)


def test_no_job_is_no_bar():
    (ax,) = sm.sm_timeline_figure({"empty": ([], CYCLES)}, display=False).axes
    assert not ax.patches


def test_each_step_has_its_share_its_spread_and_the_model(said):
    figure = ladder.hopper_ladder_figure({"full": STEPS, "causal": STEPS[:1]}, {"plain": (0.5, 0.7)}, "a GPU")
    left, right = figure.axes
    assert [len(ax.containers) for ax in (left, right)] == [5, 3]  # bars, their spreads, and the model's band
    assert left.get_ylim()[0] > left.get_ylim()[1]  # the first step on top
    assert said == [
        "Steps of the Hopper kernel on a GPU. full: plain 60%, model 50 to 70%; overlap 90%. causal: plain 60%, model 50 to 70%"
    ]


def test_a_step_s_bar_spread_and_band_lie_where_the_numbers_say():
    steps = [{"step": "plain", "share": 0.6, "low": 0.5, "high": 0.65}]
    (ax,) = ladder.hopper_ladder_figure({"full": steps}, {"plain": (0.55, 0.7)}, "a GPU", display=False).axes
    assert [(bar.get_x(), bar.get_width()) for bar in ax.patches] == [(0, 0.6), (0.55, pytest.approx(0.15))]
    (spread,) = next(box for box in ax.containers if hasattr(box, "has_xerr")).lines[2]
    assert spread.get_segments()[0][:, 0].tolist() == pytest.approx([0.5, 0.65])
    assert [text.get_text() for text in ax.texts] == ["60%"]


def test_a_box_that_is_cut_has_no_number_and_values_are_lighter():
    jobs = [("qk", 0, 7, 0), ("pv", 0, 8, 512), ("qk", 0, 9, 1024)]
    (ax,) = sm.sm_timeline_figure({"cut": (jobs, CYCLES)}, until=1100, display=False).axes
    assert [text.get_text() for text in ax.texts] == ["7", "8"]
    assert [bar.get_alpha() for bar in ax.patches] == [1.0, 0.6, 1.0]


def test_a_model_of_one_value_is_a_line_and_one_number(said):
    ladder.hopper_ladder_figure({"full": STEPS[1:]}, {"overlap": (1.0, 1.0)}, "a GPU")
    assert said == ["Steps of the Hopper kernel on a GPU. full: overlap 90%, model 100%"]
