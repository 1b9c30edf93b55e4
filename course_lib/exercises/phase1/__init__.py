"""Exercises of phase 1 in their order, a file each."""

from .floors import LATENCY_FLOORS
from .ridge import RIDGE_POINTS

EXERCISES = (RIDGE_POINTS, LATENCY_FLOORS)

__all__ = ["EXERCISES", "LATENCY_FLOORS", "RIDGE_POINTS"]
