"""Progress for a terminal: per phase its states, a bar, points, what waits and the best ratio; each exercise, if wished."""

from typing import Any

from ..course.progress_summary import PhaseState, Summary
from ..grading.outcome import ExerciseState
from .progress_words import WAITING_NOTE, plain_text, points_text, ratio_text, shares, states_text

_BAR_CELLS = 16
_LEAST_WIDTH_FOR_BARS, _LEAST_WIDTH_FOR_COLUMNS = 64, 50  # of the terminal
_STYLE = {
    ExerciseState.OPEN: "dim", ExerciseState.PARTIAL: "blue", ExerciseState.WAITING: "yellow", ExerciseState.DONE: "green",
    PhaseState.EMPTY: "dim", PhaseState.OPEN: "dim", PhaseState.STARTED: "blue", PhaseState.COMPLETE: "green",
}  # fmt: skip  # PhaseState.WAITING reads like ExerciseState.WAITING


def rich_table(summary: Summary, exercises: bool = False) -> Any:
    """A rich renderable of the progress; with `exercises`, a second table has a line for each of them.

    Below 64 columns it has no bars, below 50 it is plain lines.
    """
    return _ProgressTable(summary, exercises)


class _ProgressTable:
    def __init__(self, summary: Summary, exercises: bool):
        self.summary, self.exercises = summary, exercises

    def __rich_console__(self, console: Any, options: Any) -> Any:
        from rich.text import Text

        summary = self.summary
        if options.max_width < _LEAST_WIDTH_FOR_COLUMNS:
            yield Text(plain_text(summary))
            return
        yield Text(summary.text, "bold")
        yield Text()
        yield _phases(summary, bars=options.max_width >= _LEAST_WIDTH_FOR_BARS)
        if self.exercises and any(phase.exercises for phase in summary.phases):
            yield Text()
            yield _exercises(summary)
        waiting = [Text(WAITING_NOTE, "yellow")] if any(phase.waiting_points for phase in summary.phases) else []
        notes = [*waiting, *(Text(f"! {message}", "red") for message in summary.messages)]
        yield from [Text(), *notes] if notes else []


def _phases(summary: Summary, bars: bool) -> Any:
    from rich.text import Text

    table = _table("Phase", *(["Progress"] if bars else []), "Points", "Waiting", "Best")
    for phase in summary.phases:
        title = Text.assemble((f"{phase.title}\n", "bold"), (states_text(phase), _STYLE[phase.state]))
        bar = [_Bar(*shares(phase.points, phase.waiting_points, phase.max_points))] if bars else []
        table.add_row(str(phase.number), title, *bar, *_numbers(phase))
    return table


def _exercises(summary: Summary) -> Any:
    from rich.text import Text

    table = _table("Exercise", "Points", "Waiting", "Best", "State")
    for exercise in (e for phase in summary.phases for e in phase.exercises):
        state = Text(str(exercise.state), _STYLE[exercise.state])
        table.add_row(exercise.id, Text(exercise.title), *_numbers(exercise), state)
    return table


def _table(name: str, *others: str) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("", no_wrap=True)
    table.add_column(name, min_width=12)
    for other in others:
        table.add_column(other, justify="left" if other in ("Progress", "State") else "right", no_wrap=other != "State")
    return table


def _numbers(part: Any) -> tuple[Any, Any, Any]:
    """Points, waiting points and best ratio of a phase or an exercise."""
    from rich.text import Text

    points = f"{points_text(part.points)} of {points_text(part.max_points)}" if part.max_points else ""
    waiting = Text(points_text(part.waiting_points) if part.waiting_points else "", "yellow")
    return points, waiting, ratio_text(part.best_ratio)


class _Bar:
    """Earned, waiting and missing points as one line of cells."""

    def __init__(self, earned: float, waiting: float):
        self.earned, self.waiting = earned, waiting

    def __rich_console__(self, console: Any, options: Any) -> Any:
        from rich.text import Text

        cells = min(_BAR_CELLS, options.max_width)
        full, held, none = "#=-" if options.ascii_only else "━╍─"
        num_earned, num_waiting = _cells(self.earned, self.waiting, cells)
        rest = none * (cells - num_earned - num_waiting)
        yield Text.assemble((full * num_earned, "green"), (held * num_waiting, "yellow"), (rest, "dim"))

    def __rich_measure__(self, console: Any, options: Any) -> Any:
        from rich.measure import Measurement

        return Measurement(min(8, options.max_width), min(_BAR_CELLS, options.max_width))


def _cells(earned: float, waiting: float, cells: int) -> tuple[int, int]:
    """Cells of a bar that are earned and waiting: full only when all is there, and empty only when nothing is.

    16 cells: 0.01 earned -> 1, 0.99 earned -> 15; 0.99 earned and 0.01 waiting -> 15 and 1.
    """
    num_earned = _rounded(earned, cells)
    num_waiting = _rounded(earned + waiting, cells) - num_earned
    if waiting > 0 and num_waiting == 0:
        return (num_earned, 1) if num_earned < cells - 1 else (num_earned - 1, 1)
    return num_earned, num_waiting


def _rounded(share: float, cells: int) -> int:
    if share <= 0 or share >= 1 - 1e-9:
        return 0 if share <= 0 else cells
    return min(max(round(share * cells), 1), cells - 1)
