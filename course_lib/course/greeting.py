"""The lines that `lab.start` prints: which phase, which machine, what waits for another one."""

import platform
from collections.abc import Sequence

from .. import __version__
from ..exercises import exercises_of, phase
from ..grading.exercise import Exercise
from ..interpreter import after_import, entry


def greeting(phase_number: int) -> str:
    """A few lines of text. Raises KeyError for an unknown phase."""
    import torch

    this = phase(phase_number)
    exercises = exercises_of(this.number)
    points = sum(e.points() for e in exercises)
    timed = sum(e.points("timed") for e in exercises)
    if not exercises:
        return f"Phase {this.number}, {this.title}: no exercises yet (course {__version__})"
    count = "1 exercise" if len(exercises) == 1 else f"{len(exercises)} exercises"
    lines = [
        f"Phase {this.number}, {this.title}: {count}, {points:g} points",
        f"course {__version__}, Python {platform.python_version()}, torch {torch.__version__}",
    ]
    if torch.cuda.is_available():
        lines.append(_on_gpu(torch.cuda.get_device_name(), exercises, points))
    elif timed:
        lines.append(f"device: CPU; of the {points:g} points {timed:g} must be measured on a GPU and will wait for one")
    else:
        lines.append("device: CPU; everything in this phase can be judged here")
    triton = entry.state()
    if this.needs_triton or triton.mode == "too late":
        lines.append(triton.reason)
        if triton.mode == "no triton":
            lines.append(_without_triton(exercises))
        if triton.mode == "interpreter" and not after_import.refusal:
            lines.append("How far that can be trusted, and how to look into a kernel (lab.trace): docs/no-gpu.md")
    return "\n".join(filter(None, [*lines, after_import.refusal]))


def _on_gpu(name: str, exercises: Sequence[Exercise], points: float) -> str:
    bars = [(more, devices) for e in exercises for more, devices in e.bars() if name not in devices]
    if not bars:
        return f"device: {name}; everything in this phase can be judged here"
    total, where = sum(more for more, _ in bars), " and ".join(sorted({" or ".join(devices) for _, devices in bars}))
    waits = f"bars set on an {where}: here their ratios are shown, and these points wait for one"
    return f"device: {name}; of the {points:g} points {total:g} are for speed, with {waits}"


def _without_triton(exercises: Sequence[Exercise]) -> str:
    """Which exercises can still be done where there is no Triton (macOS and native Windows)."""
    kernels = [e.id for e in exercises if "triton" in e.may_import]
    others = len(exercises) - len(kernels)
    runs = "there is none without kernels" if not others else f"the other {others} run" if others > 1 else "the other one runs"
    return f"{', '.join(kernels)} {'is' if len(kernels) == 1 else 'are'} about kernels, which can be read; {runs}."
