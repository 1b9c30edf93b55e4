"""Progress in a notebook: a static view that any front end can show, and a widget with a Refresh button.

Styles stand on the elements and use JupyterLab's theme variables, with fallbacks that can be read on light and on dark.
"""

from collections.abc import Callable
from html import escape
from typing import Any

from ..course.progress_summary import PhaseState, Summary
from ..grading.outcome import ExerciseState
from .progress_badge import badge_svg
from .progress_words import WAITING_NOTE, plain_text, points_text, ratio_text, shares, states_text

__all__ = ["ProgressView", "badge_svg", "widget"]

_GREEN, _AMBER = "var(--jp-success-color1, #2e9e4f)", "var(--jp-warn-color1, #d9822b)"
_RED = "var(--jp-error-color1, #d64545)"
_BLUE, _GREY = "var(--jp-brand-color1, #2b7de9)", "var(--jp-border-color1, rgba(128,128,128,.7))"
_TRACK, _LINE = "rgba(128,128,128,.25)", "var(--jp-border-color2, rgba(128,128,128,.4))"
_TEXT, _FAINT = "var(--jp-ui-font-color1, inherit)", "var(--jp-ui-font-color2, inherit)"
_STRIPES = f"repeating-linear-gradient(135deg,{_AMBER} 0 3px,transparent 3px 6px)"
_COLOUR = {
    ExerciseState.OPEN: _GREY, ExerciseState.PARTIAL: _BLUE, ExerciseState.WAITING: _AMBER, ExerciseState.DONE: _GREEN,
    PhaseState.EMPTY: _GREY, PhaseState.OPEN: _GREY, PhaseState.STARTED: _BLUE, PhaseState.COMPLETE: _GREEN,
}  # fmt: skip  # PhaseState.WAITING reads like ExerciseState.WAITING


class ProgressView:
    """A summary that shows itself: text that begins "0 of 4 phases (0%)", and a table in HTML."""

    def __init__(self, summary: Summary):
        self.summary = summary

    def __repr__(self) -> str:
        return plain_text(self.summary)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": plain_text(self.summary), "text/html": self.html()}

    def html(self) -> str:
        """Self-contained; every text is escaped."""
        summary = self.summary
        rows = "".join(_row(f"{p.number}&ensp;{escape(p.title)}", p, escape(states_text(p))) for p in summary.phases)
        notes = "".join(f'<div style="margin-top:6px">{_dot(_RED)}{escape(text)}</div>' for text in summary.messages)
        if any(phase.waiting_points for phase in summary.phases):
            striped = WAITING_NOTE.replace("points", "points (striped)", 1)
            notes = f'<div style="margin-top:6px;color:{_FAINT}">{striped}</div>{notes}'
        return (
            f'<div style="max-width:860px;color:{_TEXT};font-family:var(--jp-ui-font-family, sans-serif);font-size:13px;'
            f'line-height:1.5">{_headline(summary)}{_table("Phase", "Exercises", rows)}{_exercises(summary)}{notes}</div>'
        )


def widget(read: Callable[[], Summary]) -> Any:
    """The view with a Refresh button; `read` gives the summary, now and at each refresh.

    Where ipywidgets is missing it is the static view, and a front end that shows no widgets shows that too.
    """
    view = ProgressView(read())
    try:
        import ipywidgets
    except ImportError:
        return view

    class ProgressWidget(ipywidgets.VBox):
        def _repr_mimebundle_(self, **kwargs: Any) -> Any:
            bundle = super()._repr_mimebundle_(**kwargs) or {}
            return bundle | ProgressView(read())._repr_mimebundle_()

    body = ipywidgets.HTML(view.html())
    button = ipywidgets.Button(description="Refresh", icon="refresh", tooltip="Read the recorded results again")

    def refresh(_button: Any) -> None:
        body.value = ProgressView(read()).html()

    button.on_click(refresh)
    return ProgressWidget([body, button])


def _headline(summary: Summary) -> str:
    parts = "".join(f'<span style="flex:1;background:{_filled(phase)}"></span>' for phase in summary.phases)
    return (
        f'<div style="font-size:16px;font-weight:600">{escape(summary.text)}</div><div aria-hidden="true" '
        f'style="display:flex;gap:3px;height:6px;margin:6px 0 10px">{parts}</div>'
    )


def _filled(phase: Any) -> str:
    """Background of a phase's part of the line: filled up to the share of its points that is earned or waits."""
    earned, waiting = shares(phase.points, phase.waiting_points, phase.max_points)
    edge = f"{100 * (earned + waiting):.1f}%"
    return f"linear-gradient(to right,{_COLOUR[phase.state]} {edge},{_TRACK} {edge})"


def _table(first: str, last: str, rows: str) -> str:
    names = (  # with a width in per cent, so that both tables have their columns in the same places
        (first, "left", 31), ("Progress", "left", 17), ("Points", "right", 9), ("Waiting", "right", 10),
        ("Best", "right", 8), (last, "left", 25),
    )  # fmt: skip
    heads = "".join(
        f'<th scope="col" style="{_cell(align)};width:{width}%;font-weight:600;color:{_FAINT}">{name}</th>'
        for name, align, width in names
    )
    head = f'<thead><tr style="background:transparent;border-bottom:1px solid {_LINE}">{heads}</tr></thead>'
    style = f"border-collapse:collapse;width:100%;margin:0;color:{_TEXT};font-size:13px;border:none;table-layout:auto"
    return f'<table style="{style}">{head}<tbody>{rows}</tbody></table>'


def _row(name: str, part: Any, states: str) -> str:
    """A line of the table for a phase or an exercise; `name` and `states` are HTML."""
    points = f"{points_text(part.points)} of {points_text(part.max_points)}" if part.max_points else ""
    cells = (
        f'<th scope="row" style="{_cell("left")};font-weight:normal">{name}</th>',
        f'<td style="{_cell("left")}">{_bar(part)}</td>',
        f'<td style="{_cell("right")};white-space:nowrap">{points}</td>',
        f'<td style="{_cell("right")}">{points_text(part.waiting_points) if part.waiting_points else ""}</td>',
        f'<td style="{_cell("right")}">{ratio_text(part.best_ratio)}</td>',
        f'<td style="{_cell("left")}"><div style="padding-left:14px;text-indent:-14px">'
        f"{_dot(_COLOUR[part.state])}{states}</div></td>",
    )
    return f'<tr style="background:transparent;border-bottom:1px solid {_LINE}">{"".join(cells)}</tr>'


def _exercises(summary: Summary) -> str:
    rows = "".join(
        _row(f"{escape(e.id)}&ensp;{escape(e.title)}", e, escape(str(e.state))) for p in summary.phases for e in p.exercises
    )
    if not rows:
        return ""
    opener = f'<summary style="cursor:pointer;color:{_FAINT}">Each exercise</summary>'
    return f'<details style="margin-top:8px">{opener}{_table("Exercise", "State", rows)}</details>'


def _bar(part: Any) -> str:
    earned, waiting = shares(part.points, part.waiting_points, part.max_points)
    says = f"{points_text(part.points)} of {points_text(part.max_points)} points"
    fills = ((earned, _GREEN), (waiting, _STRIPES))
    inside = "".join(f'<span style="width:{100 * share:.1f}%;background:{fill}"></span>' for share, fill in fills if share)
    style = f"display:flex;width:120px;height:10px;border-radius:5px;overflow:hidden;background:{_TRACK}"
    return f'<div role="img" aria-label="{says}" style="{style}">{inside}</div>'


def _dot(colour: str) -> str:
    return (
        f'<span aria-hidden="true" style="display:inline-block;width:8px;height:8px;border-radius:4px;margin-right:6px;'
        f'background:{colour}"></span>'
    )


def _cell(align: str) -> str:
    return f"text-align:{align};padding:5px 14px 5px 0;vertical-align:middle;border:none;max-width:none"
