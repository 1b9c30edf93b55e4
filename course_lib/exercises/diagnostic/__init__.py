"""A short diagnostic before the course: quick questions, judged at once, never scored, never in anybody's way.

`check` says right, not yet, or open, and where to read. What was answered lives in this Python process only: it goes into no
progress, no grade and no file.
"""

from typing import Any

from . import algebra, machine, tensors
from .machine import LINK, TOPOLOGY
from .tensors import KERNEL

__all__ = ["KERNEL", "LINK", "TOPOLOGY", "check", "summary"]

GROUPS = {
    "linear algebra and attention": algebra.QUESTIONS,
    "Python, PyTorch and kernels": tensors.QUESTIONS,
    "the machine": machine.QUESTIONS,
}
QUESTIONS = {name: question for group in GROUPS.values() for name, question in group.items()}

_seen: dict[str, str] = {}  # name of a question -> "right", "not yet", "open"


def check(name: str, answer: Any) -> None:
    """Judge the answer to one question and print one line, or two. None is an open question.

    Raises KeyError, with the names there are, for a question that does not exist.
    """
    if name not in QUESTIONS:
        raise KeyError(f"there is no question {name!r}; there are {', '.join(QUESTIONS)}")
    state, told = _judged(name, answer)
    _seen[name] = state
    print(f"{name}: {state}{'. ' + told if told else ''}")
    if state == "not yet":
        print(f"To read: {QUESTIONS[name].read}")


def _judged(name: str, answer: Any) -> tuple[str, str]:
    question = QUESTIONS[name]
    if answer is None or (name == "attend" and callable(answer) and _is_stub(answer)):
        return "open", f"Asked for: {question.form}"
    try:
        told = question.judge(answer)
    except Exception as error:  # an answer can be anything
        return "not yet", f"Asked for: {question.form} ({_short(error)})"
    return ("not yet", told) if told else ("right", "")


def _short(error: Exception) -> str:
    try:
        return f"{type(error).__name__}: {error}".splitlines()[0][:120]
    except Exception:  # one that cannot print itself
        return type(error).__name__


def _is_stub(function: Any) -> bool:
    """True for a function that returns None for whatever it is given, which is what the notebook starts with."""
    import torch

    try:
        return function(*(torch.zeros(1, 1, 1, dtype=torch.float64) for _ in range(3))) is None
    except NotImplementedError:
        return True
    except Exception:
        return False


def summary() -> None:
    """What is right, open and missed, by group, and what to read for what is missed."""
    for group, names in GROUPS.items():
        states = [_seen.get(name, "open") for name in names]
        print(f"{group}: {states.count('right')} of {len(names)} right" + _rest(states))
        missed = dict.fromkeys(QUESTIONS[name].read for name in names if _seen.get(name) == "not yet")
        for read in missed:
            print(f"  to read: {read}")
    print("Nothing of this is recorded or scored. Whatever it says, section 1 is open.")


def _rest(states: list[str]) -> str:
    parts = [f"{states.count(state)} {state}" for state in ("not yet", "open") if state in states]
    return f" ({', '.join(parts)})" if parts else ""
