"""A class on the terminal: a progress bar while it is graded, a table when it is done."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

_STYLES = {"graded": "green", "graded, points waiting": "yellow", "failed": "red", "malformed": "red"}


def rich_table(rows: Sequence[Any]) -> Any:
    """One line for each submission; below it what each learner is told, and the counts by status."""
    from collections import Counter

    from rich.box import SIMPLE_HEAD
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name, justify in (("student", "left"), ("phase", "left"), ("score", "right"), ("waiting", "right"), ("status", "left")):
        table.add_column(name, justify=justify, no_wrap=True)
    for row in rows:
        score = "-" if row.score is None else f"{row.score:g} / {row.max_score:g}"
        waiting = f"{row.waiting_points:g}" if row.waiting_points else ""
        status = Text(row.status, style=_STYLES.get(row.status, "magenta"))
        table.add_row(Text(row.student), row.phase, score, waiting, status)
    counts = Counter(row.status for row in rows)
    notes = [Text(f"{row.student}: {row.sentence}", style="dim") for row in rows if row.sentence]
    return Group(table, *notes, Text(", ".join(f"{number} {status}" for status, number in counts.most_common()), style="bold"))


@contextmanager
def grading(quiet: bool = False) -> Iterator[Callable[[int, Any], None]]:
    """A progress bar on stdout; the value is the `step` of grade_folder."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    name = TextColumn("{task.description}", markup=False)
    columns = (TextColumn("grading"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), name)
    with Progress(*columns, console=Console(), disable=quiet, transient=True) as bar:
        task = bar.add_task("", total=None)

        def step(total: int, row: Any) -> None:
            bar.update(task, total=total, advance=0 if row is None else 1, description=row.student if row else "")

        yield step
