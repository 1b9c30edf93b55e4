"""What a notebook imports first: `from course_lib import lab`, then `lab.start(1)` and, after each exercise, `lab.check(...)`."""

from typing import Any

from .course.shown import Shown


def start(phase: int) -> None:
    """Say in a few lines where this notebook runs and what can be judged here."""
    from .course.greeting import greeting

    print(greeting(phase))


def check(exercise_id: str, entry: Any, *, seed: int | None = None) -> Shown:
    """Judge everything but time, show the verdict as a table, record it. As the last line of a cell its value is the score."""
    return _checked(exercise_id, entry, "check", seed)


def check_timed(exercise_id: str, entry: Any, *, seed: int | None = None) -> Shown:
    """Judge what is measured on a device. Without one these points are blocked: they wait, they are not lost."""
    return _checked(exercise_id, entry, "timed", seed)


def progress() -> Any:
    """The learner's progress over the four phases, as a widget."""
    from .course.progress import summary
    from .display.progress_widget import widget

    return widget(summary)


def _checked(exercise_id: str, entry: Any, cell: str, seed: int | None) -> Shown:
    from .course.live import check_live

    verdict = check_live(exercise_id, entry, cell, seed)
    message = ""
    if verdict.outcomes and "run" not in verdict.context:  # in a grading run the grader records
        from .course.progress import record

        message = record(verdict, "live")
    return Shown(verdict, message)
