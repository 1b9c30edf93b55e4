"""The roofline as small pure functions: FLOPs, bytes, and the time they cannot beat."""

from .ridge import ridge_points

__all__ = ["ridge_points"]
