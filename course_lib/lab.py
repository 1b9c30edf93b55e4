"""What a notebook imports first: `from course_lib import lab`, then `lab.start(1)` and, after each exercise, `lab.check(...)`.

First, because importing it decides whether Triton interprets or compiles, and much of torch imports Triton on its own
(interpreter/entry.py).
"""

from .interpreter import after_import as _triton_import
from .interpreter import entry as _triton_entry

_triton_entry.for_notebook()
_triton_import.arm()  # right numbers and all checks, as soon as Triton is there

from typing import Any  # noqa: E402 - nothing may come before the decision

from .course.notebook_views import register as _register_views  # noqa: E402
from .course.shown import Shown  # noqa: E402

_register_views()


def start(phase: int) -> None:
    """Say in a few lines where this notebook runs and what can be judged here."""
    from .course.greeting import greeting

    _triton_entry.settle()
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


def predict(*claim_ids: str) -> Any:
    """One or more claims of the roadmap ("C039"), to judge before the answer is shown. As the last line of a cell: its card.

    The answer is folded away; in a live notebook there is a button for each verdict as well. No score is kept.
    Raises KeyError for an id that there is not.
    """
    from .claims import select
    from .display.claim_card import ClaimCards

    if not claim_ids:
        raise ValueError('lab.predict needs the id of a claim, such as lab.predict("C039"); labs claims lists them')
    return ClaimCards(select(ids=claim_ids))


def trace(
    function: Any,
    /,
    *args: Any,
    grid: Any = None,
    gpu: Any = "H100 SXM",
    targets: Any = ("sm_75", "sm_80", "sm_90", "gfx942"),
    config: dict[str, int] | None = None,
    **kwargs: Any,
) -> Any:
    """Run a kernel, or a function that launches kernels, once, and show what it does with memory. Nothing is timed.

    lab.trace(add_kernel, x, y, out, n, BLOCK=1024, grid=(8,))     add_kernel[(8,)](x, y, out, n, BLOCK=1024)
    lab.trace(add, x, y)                                           add(x, y), and every launch inside it

    function  made by @triton.jit (then `grid` is needed), or any host function
    gpu       whose roofline the launches are drawn on: a name ("H100 SXM", "H200"), or a hardware.GpuSpec
    targets   what to compile for (a second or two for each, then remembered); () leaves it out
    config    the configuration of an autotuned kernel, by its constants ({"BLOCK": 64}); default: the first valid one
    ->        a page as the value of a cell, text with print; `.ledger` and `.launches` hold its numbers, `.result` what the
              function returned, `.findings` the sentences, `.compiled` the compile reports
    A mistake in a kernel is shown, with what was counted up to it, and does not raise: it is in `.mistake`.
    What each count means, and what a run on a CPU does not prove: docs/no-gpu.md.
    """
    from .course.trace import trace

    return trace(function, args, kwargs, grid=grid, gpu=gpu, targets=targets, config=config)


def _checked(exercise_id: str, entry: Any, cell: str, seed: int | None) -> Shown:
    from .course.live import check_live

    verdict = check_live(exercise_id, entry, cell, seed)
    triton = _triton_entry.state()
    messages = [triton.reason] if triton.mode == "too late" else []
    if verdict.outcomes and "run" not in verdict.context:  # in a grading run the grader records
        from .course.progress import record

        messages.append(record(verdict, "live"))
    return Shown(verdict, " ".join(filter(None, messages)))
