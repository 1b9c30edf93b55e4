"""A verdict as a table: in HTML for a notebook (light and dark themes), and for the terminal with rich."""

from collections.abc import Iterator
from html import escape
from typing import Any

from ..grading.outcome import ExerciseState, Outcome, State
from ..grading.verdict import Verdict

MARKS = {State.PASSED: "✓", State.FAILED: "✗", State.BLOCKED: "○"}
_COLOURS = {State.PASSED: "#2e7d32", State.FAILED: "#c62828", State.BLOCKED: "#b26a00"}
_RICH = {State.PASSED: "green", State.FAILED: "red", State.BLOCKED: "yellow"}
_HEAD = {
    ExerciseState.DONE: _COLOURS[State.PASSED],
    ExerciseState.WAITING: _COLOURS[State.BLOCKED],
    ExerciseState.PARTIAL: _COLOURS[State.FAILED],
    ExerciseState.OPEN: "#607d8b",
}
_TEXT = "color:var(--jp-content-font-color1,inherit)"
_FONT = "font-family:var(--jp-content-font-family,sans-serif);font-size:13px;line-height:1.45"
# JupyterLab lays tables out with `fixed`, which gives columns without a width no room
_TABLE = f"width:100%;table-layout:auto;border-collapse:collapse;border:none;margin:0;{_TEXT}"
_QUIET = "color:var(--jp-content-font-color2,#616161)"


def headline(verdict: Verdict) -> str:
    """One line: exercise, state, points, what waits."""
    if not verdict.outcomes:
        return f"Exercise {verdict.exercise}: {verdict.note}"
    waiting = f", {verdict.waiting_points:g} waiting" if verdict.waiting_points else ""
    what = " (timed part)" if verdict.cell == "timed" else ""
    points = f"{verdict.score:g} of {verdict.max_points:g} points"
    return f"Exercise {verdict.exercise}{what}: {_state_words(verdict)}, {points}{waiting}"


def _state_words(verdict: Verdict) -> str:
    nothing = verdict.state is ExerciseState.PARTIAL and not verdict.score and not verdict.waiting_points
    return "not right yet" if nothing else str(verdict.state)


def html_table(verdict: Verdict, message: str = "") -> str:
    """Self-contained HTML. All text that came from the learner's code is escaped."""
    colour = _HEAD[verdict.state]
    parts = [
        f'<div class="course-verdict" style="{_TEXT};{_FONT};border-left:4px solid {colour};'
        'padding:4px 12px;max-width:880px">',
        f'<div style="font-weight:600;font-size:1.08em;margin:2px 0 6px">{escape(headline(verdict))}</div>',
    ]
    if not verdict.attempted:
        parts.append(f"<div>Not done yet. Your cell says: <code>{escape(verdict.note)}</code></div>")
    elif same := _same_reason(verdict):
        parts.append(f'<div><span style="{_ink(State.FAILED)}">{MARKS[State.FAILED]}</span> {escape(same)}</div>')
    elif verdict.outcomes:
        parts.append(f'<table style="{_TABLE}">{"".join(_html_rows(verdict))}</table>')
    if printed := str(verdict.context.get("printed", "")):
        parts.append(
            f'<details style="margin-top:6px;{_QUIET}"><summary>Your code printed this while it was checked</summary>'
            f'<pre style="white-space:pre-wrap;max-height:16em;overflow:auto">{escape(printed)}</pre></details>'
        )
    if message:
        parts.append(f'<div style="margin-top:6px;{_QUIET}">{escape(message)}</div>')
    return "".join(parts) + "</div>"


def rich_table(verdict: Verdict) -> Any:
    """The same for a terminal, as a rich renderable."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    title = Text(headline(verdict), style="bold")
    if not verdict.attempted:
        return Group(title, Text(f"  not done yet: {verdict.note}", style="dim"))
    if same := _same_reason(verdict):
        return Group(title, Text(f"  {MARKS[State.FAILED]} {same}", style="red"))
    table = Table(box=None, padding=(0, 1), show_header=False)
    for name in ("mark", "name", "points", "what"):
        table.add_column(name, justify="right" if name == "points" else "left", no_wrap=name != "what")
    for outcome in verdict.outcomes:
        what = Text(outcome.reason or outcome.claim)
        if outcome.hint:
            what.append(f"\n{outcome.hint}", style="dim")
        mark = Text(MARKS[outcome.state], style=_RICH[outcome.state])
        table.add_row(mark, outcome.name, f"{outcome.points:g}/{outcome.max_points:g}", what)
    return Group(title, table)


def _same_reason(verdict: Verdict) -> str:
    """The one reason why all criteria failed before anything was judged (a wrong signature, an exception), or ""."""
    reasons = {outcome.reason for outcome in verdict.outcomes}
    failed = all(outcome.state is State.FAILED for outcome in verdict.outcomes)
    return reasons.pop() if failed and len(verdict.outcomes) > 1 and len(reasons) == 1 else ""


def _html_rows(verdict: Verdict) -> Iterator[str]:
    """A line for each criterion; a hint that several have in common stands in the first."""
    told = {""}
    for outcome in verdict.outcomes:
        yield _html_row(outcome, "" if outcome.hint in told else outcome.hint)
        told.add(outcome.hint)


def _html_row(outcome: Outcome, hint: str) -> str:
    cell = "padding:3px 16px 3px 0;text-align:left;vertical-align:top;background:transparent"
    cell += ";border:none;max-width:none"
    short = f"{cell};white-space:nowrap;width:1px"
    lines = [escape(outcome.claim)]
    if outcome.reason:
        reason = escape(outcome.reason)
        loud = outcome.state is State.FAILED
        lines.append(f"<b>{reason}</b>" if loud else f'<span style="{_QUIET}">{reason}</span>')
    if hint:
        lines.append(f"<i>{escape(hint)}</i>")
    return (
        f'<tr style="background:transparent"><td style="{short};{_ink(outcome.state)}">'
        f"{MARKS[outcome.state]}&nbsp;{escape(str(outcome.state))}</td>"
        f'<td style="{short}">{escape(outcome.name)}</td>'
        f'<td style="{short};text-align:right">{outcome.points:g} / {outcome.max_points:g}</td>'
        f'<td style="{cell};overflow-wrap:anywhere">{"<br>".join(lines)}</td></tr>'
    )


def _ink(state: State) -> str:
    """The state's colour for text; mixed with the theme's text colour it is dark on light, and light on dark."""
    theme = "var(--jp-content-font-color1,currentColor)"
    return f"font-weight:600;color:color-mix(in srgb,{_COLOURS[state]} 60%,{theme})"
