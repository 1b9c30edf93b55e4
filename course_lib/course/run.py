"""The whole course in one command: execute the solved notebooks with papermill, grade them with nbgrader, show the progress.

Everything lands in run/: executed notebooks, a grade book of its own, and a progress log that is not the learner's.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..exercises import PHASES, Phase
from .environment import environment
from .grade import Row, grade
from .kernel import CourseKernelManager
from .notebook_health import bad_outputs

STUDENT = "solved"


@dataclass(frozen=True, slots=True)
class RunReport:
    """`failures` are sentences; empty when every notebook ran and every row earned or waits for all its points."""

    rows: list[Row]
    failures: list[str]


def run(root: Path, phases: list[Phase], say: Callable[[str], None] = lambda _: None) -> RunReport:
    """Run and grade the given phases; afterwards `summary()` under COURSE_HOME=root/run shows them."""
    where = root / "run"
    for old in ("grading", "executed", ".course"):  # nothing of an earlier run is shown as this one's
        shutil.rmtree(where / old, ignore_errors=True)
    failures: list[str] = []
    todo = []
    for phase in phases:
        say(f"{phase.name}: executing the solved notebook")
        failure = _execute(root, where, phase)
        if failure:
            failures.append(failure)
            continue
        todo.append((STUDENT, phase.name))
        say(f"{phase.name}: grading it")
    rows = grade(root, where / "grading", todo, feedback=True)
    with environment({"COURSE_HOME": str(where)}):
        for row in rows:
            _record(where, row)
    for row in rows:
        if row.score is None or row.score + row.waiting_points < row.max_score:
            points = f"{row.score} of {row.max_score:g} points, {row.waiting_points:g} waiting"
            failures.append(f"{row.phase}: {points} ({row.status})")
    return RunReport(rows, failures)


def available(root: Path) -> list[Phase]:
    """The phases whose solved notebook is in this clone."""
    return [p for p in PHASES if (root / "solutions" / p.name / f"{p.name}.ipynb").exists()]


def _execute(root: Path, where: Path, phase: Phase) -> str:
    """Execute with papermill and hand the result in -> "", or why it failed."""
    import papermill

    source = root / "solutions" / phase.name / f"{phase.name}.ipynb"
    executed = where / "executed" / f"{phase.name}.ipynb"
    executed.parent.mkdir(parents=True, exist_ok=True)
    with environment({"COURSE_HOME": str(where)}):
        try:
            ran = papermill.execute_notebook(
                source, executed, kernel_name="python3", cwd=executed.parent, progress_bar=False,
                kernel_manager_class=CourseKernelManager,
            )  # fmt: skip
        except papermill.PapermillExecutionError as error:
            return f"{phase.name}: {error.ename}: {error.evalue} in the cell\n{error.source}"
    if wrong := bad_outputs(ran):
        return f"{phase.name}: " + "; ".join(wrong)
    target = where / "grading" / "submitted" / STUDENT / phase.name
    target.mkdir(parents=True)
    shutil.copy(source, target / f"{phase.name}.ipynb")
    return ""


def _record(where: Path, row: Row) -> None:
    """Every verdict of the autograded notebook is one event of the run's own progress."""
    import nbformat

    from .nbgrader_steps.outputs import verdicts_of
    from .progress import record

    path = where / "grading" / "autograded" / row.student / row.phase / f"{row.phase}.ipynb"
    if path.exists():
        for verdict in verdicts_of(nbformat.read(path, as_version=4)):
            record(verdict, "grade")


def summary_of_run(root: Path) -> Any:
    """The progress summary of the last run."""
    from .progress import summary

    with environment({"COURSE_HOME": str(root / "run")}):
        return summary()
