"""A question of the diagnostic, judged by working its answer out; none is stored.

A judge gets what the reader wrote, which can be anything, and returns "" for right or a sentence about what is not. It may raise
whatever an answer of another form makes it raise; the reader is then told which form is asked for.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Question:
    """form: what an answer looks like; read: where to read, for a reader who missed it."""

    form: str
    judge: Callable[[Any], str]
    read: str


def near(got: Any, expected: float, share: float = 0.01) -> bool:
    return abs(float(got) - expected) <= share * abs(expected)
