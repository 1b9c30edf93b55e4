"""The schedule figure shows a column for each run, all of its data inside the axes, and says the essentials in words."""

from course_lib.display import schedule_figure as module
from course_lib.display.schedule_figure import schedule_figure


def run_of(*steps):
    records, at = [], 0.0
    for step_ms, decode, prefill, used in steps:
        records.append({"start_ms": at, "step_ms": step_ms, "decode": decode, "prefill_tokens": prefill, "used_blocks": used})
        at += step_ms
    return {"records": records, "itl_target_ms": 20.0, "total_blocks": 100}


def test_every_run_has_a_column_that_holds_all_its_values(monkeypatch):
    said = []
    monkeypatch.setattr(module, "show", lambda figure, alt: said.append(alt))
    runs = {"small": run_of((5, 1, 0, 2), (8, 2, 30, 4)), "large": run_of((5, 1, 0, 2), (90, 3, 4000, 97))}
    figure = schedule_figure(runs)
    assert [ax.get_title() for ax in figure.axes[:2]] == ["small", "large"]
    steps, tokens, pool = figure.axes[0], figure.axes[2], figure.axes[4]
    assert steps.get_ylim()[1] > 90
    assert tokens.get_ylim()[1] > 4003
    assert pool.get_ylim()[1] > 97
    assert pool.get_ylim()[0] == 0
    assert "small: 2 steps, 0 of them above the target of 20 ms" in said[0]
    assert "large: 2 steps, 1 of them above the target of 20 ms, the longest 90 ms, at most 3 decodes" in said[0]


def test_the_time_axis_can_be_cut():
    figure = schedule_figure({"one": run_of((5, 1, 0, 2), (8, 2, 30, 4), (8, 2, 0, 4))}, until_ms=10.0, display=False)
    assert figure.axes[-1].get_xlim() == (0, 10.0)
