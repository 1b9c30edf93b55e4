"""Exercises of phase 1 in their order, a file each."""

from .copy import COPY
from .count_step import COUNT_STEP
from .floors import LATENCY_FLOORS
from .graphs import CUDA_GRAPHS
from .ridge import RIDGE_POINTS
from .scheduler import SCHEDULER
from .sweep import BATCH_SWEEP
from .telemetry import TELEMETRY
from .timer import TIMER

EXERCISES = (RIDGE_POINTS, COUNT_STEP, TIMER, COPY, BATCH_SWEEP, LATENCY_FLOORS, TELEMETRY, SCHEDULER, CUDA_GRAPHS)

__all__ = [
    "BATCH_SWEEP",
    "COPY",
    "COUNT_STEP",
    "CUDA_GRAPHS",
    "EXERCISES",
    "LATENCY_FLOORS",
    "RIDGE_POINTS",
    "SCHEDULER",
    "TELEMETRY",
    "TIMER",
]
