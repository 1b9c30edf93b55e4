"""The live check: judge a function in the notebook's own kernel, in seconds and on trust, and write down the result."""

import os
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from .. import __version__
from ..exercises import UnknownExercise, exercise, runners
from ..grading.exercise import Exercise
from ..grading.inside.attempt import attempt, check_entry
from ..grading.inside.border import printable, short
from ..grading.inside.quiet import Quiet
from ..grading.judging import Job, conclude, plan, refused
from ..grading.launches import wants_launches, with_launch_evidence
from ..grading.verdict import Verdict
from ..interpreter import entry as triton_entry

RUN_VARIABLE = "COURSE_RUN_ID"  # set by a grading run; a verdict without this run's id is never scored


def check_live(exercise_id: str, entry: Any, cell: str = "check", seed: int | None = None) -> Verdict:
    """The verdict on `entry`. Never raises for what a learner passes in, and writes nothing to stderr.

    seed  draws the cases; by default it is fresh, and stands in the verdict's context so that a run can be repeated
    """
    try:
        known = exercise(exercise_id)
    except UnknownExercise as error:
        return Verdict(short(exercise_id, 60).strip("'"), cell, (), note=printable(error))
    seed = secrets.randbits(62) if seed is None else seed
    context = run_context(seed)
    if not known.in_cell(cell):
        return Verdict(known.id, cell, (), note=f"exercise {known.id} has no {cell} part", context=context)
    try:
        with Quiet():
            wrong = check_entry(entry, list(known.params))
        if wrong:
            return refused(known, cell, wrong, context)
        return conclude(known, cell, *_attempts(known, cell, entry, seed), context)
    except KeyboardInterrupt:  # between two attempts; one that hits an attempt is told by it
        return refused(known, cell, "the check was interrupted", context)
    except Exception as error:  # a notebook can have replaced parts of torch or of Python that the check itself needs
        said = f"the check itself failed ({type(error).__name__}: {short(str(error), 200)})"
        return refused(known, cell, f"{said}; restart the kernel and run your cells again", context)


def run_context(seed: int) -> dict[str, Any]:
    """What is told beside every verdict: course version, device, seed, and the id of the grading run, if any."""
    context: dict[str, Any] = {"course_version": __version__, "device": device_name(), "seed": str(seed)}
    if run := os.environ.get(RUN_VARIABLE):
        context["run"] = run
    return context


def device_name() -> str:
    """Name of the CUDA device in use, or "CPU"."""
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"


def _attempts(known: Exercise, cell: str, entry: Any, seed: int) -> tuple[list[Job], list[Mapping[str, Any]]]:
    runner = runners.load(known.runner)
    jobs, attempts = plan(known, cell, seed), []
    launches = wants_launches(known, cell)
    recorder = _recorder() if launches else None
    with _kernels_as_in_the_judge():
        for job in jobs:
            request = job.request(known.in_cell(cell))
            observe = getattr(runner, request["observe"]) if request["observe"] else None
            recording = recorder if request["launches"] else None
            attempts.append(attempt(getattr(runner, request["run"]), entry, request["case"], observe, recording))
            if attempts[-1]["status"] == "interrupted":  # nobody wants to interrupt every single case
                attempts += [attempts[-1]] * (len(jobs) - len(attempts))
                break
    return jobs, with_launch_evidence(known, cell, jobs, attempts, runner, cached=True) if launches else attempts


def _recorder() -> Callable:
    """What writes launches down; where no kernel can be launched, what says why."""
    now = triton_entry.state()
    if now.can_launch:
        from ..interpreter.recorded.recording import record

        return record

    def none() -> None:
        raise RuntimeError(now.reason)

    return none


@contextmanager
def _kernels_as_in_the_judge() -> Iterator[None]:
    """Interpreted kernels run with all checks, whatever the notebook turned off. Triton is not loaded for it."""
    if "triton.language" not in sys.modules or triton_entry.state().mode != "interpreter":
        yield
        return
    from ..interpreter import switch

    if switch.version_refusal():
        yield
        return
    with switch.interpreting():
        yield
