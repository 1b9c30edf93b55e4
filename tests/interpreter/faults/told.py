"""How a planted mistake must be told, and how to show that its twin is left alone."""

import inspect
import pickle
import re
from contextlib import contextmanager

import pytest

from course_lib import interpreter
from course_lib.interpreter.mistakes.faults import KernelMistake


@contextmanager
def checks_on(**checks):
    """All checks on for a `with` block, as in a notebook; what held before holds afterwards."""
    from course_lib.interpreter import switch

    with switch.interpreting(interpreter.Checks(**checks)):
        yield


@pytest.fixture(autouse=True)
def checked():
    with checks_on():
        yield


def line_of(kernel, text):
    """Number and text of the one line of a kernel's source that has `text` in it."""
    lines, first = inspect.getsourcelines(kernel.fn)
    found = [(first + place, line.strip()) for place, line in enumerate(lines) if text in line]
    assert len(found) == 1, f"{len(found)} lines of {kernel.fn.__name__} have {text!r}"
    return found[0]


def caught(kind, kernel, text, run, *, program=(0, 0, 0), argument="", index=None, bounds=None, says="", place_of=None):
    """Assert that run() is stopped by exactly this mistake, and that it reads well -> the mistake.

    text: part of the source line that must be named, of the kernel, or of the helper `place_of`
    """
    with pytest.raises(KernelMistake) as found:
        run()
    told = found.value
    message = str(told)
    assert told.kind == kind, message
    assert (told.place.line, told.place.text) == line_of(place_of or kernel, text), message
    assert (told.place.kernel, told.place.program) == (kernel.fn.__name__, program), message
    assert told.place.file == inspect.getsourcefile(kernel.fn), message
    assert (told.argument, told.index, told.bounds) == (argument, index, bounds), message
    assert says in message, message
    reads_well(message)
    again = pickle.loads(pickle.dumps(told))
    assert (str(again), again.place, again.index, again.bounds) == (message, told.place, told.index, told.bounds)
    return told


def reads_well(message):
    """No numpy in it, no wrong plural, no full stop at its end, no doubled marks. (Quoted source is the learner's.)"""
    message = re.sub("`[^`]*`", "source", message)
    assert not re.search(
        r"np\.|int64\(|uint8|array\(|None|\b1 (bytes|lanes|programs)\b|\(\)|\.\.(?!\d)|[,;:] ?[.,;:]|\. [.,;:]|  ", message
    ), message
    assert not message.endswith((".", " ")), message
