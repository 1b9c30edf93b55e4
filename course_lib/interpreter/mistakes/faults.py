"""How a kernel's mistake is told: which kernel, line, program, argument and index, what is allowed, and what to do."""

from dataclasses import dataclass
from typing import Any

from triton.runtime.errors import InterpreterError

from .own_lines import OwnLines


@dataclass(frozen=True, slots=True)
class Place:
    """Where an interpreted kernel stands: its name, the source line (number, text, file), the program's index in the grid."""

    kernel: str
    file: str
    line: int
    text: str
    program: tuple[int, int, int]

    def __str__(self) -> str:
        grid = ", ".join(map(str, self.program))
        return f"{self.kernel}, line {self.line} `{self.text}`, program ({grid})"


KINDS = (
    "out of bounds",  # an access outside every tensor that its pointer may reach
    "misaligned",  # an access that starts between two elements of its size
    "unwritten", "masked off", "overflow", "race",  # what watch.Checks looks for
    "assert",  # tl.device_assert, tl.static_assert and tl.assume
    "refused",  # what the compiler, a GPU or this interpreter does not take
    "error",  # any other exception inside the kernel
    "mistake",  # one of these, known only by the words of another process
)  # fmt: skip


class KernelMistake(OwnLines, InterpreterError):
    """A mistake in a kernel that a GPU would answer with garbage, a crash, or a race.

    kind      one of KINDS
    place     where the kernel stood
    argument  name of the tensor argument concerned, "" where there is none; index: element counted from its pointer (may be
              negative), or a bare address; bounds: (0, n), 0..n-1 is inside; both are None where they say nothing
    """

    def __init__(
        self, kind: str, place: Place | None, message: str, *, argument: str = "", index: Any = None, bounds: Any = None
    ):
        assert kind in KINDS, f"{kind!r} is no kind of mistake; there are {KINDS}"
        self.kind, self.place, self.argument, self.index, self.bounds = kind, place, argument, index, bounds
        self.message = message
        super().__init__(f"{place}: {message}" if place else message)

    def __reduce__(self) -> tuple:
        extra = {"argument": self.argument, "index": self.index, "bounds": self.bounds}
        return (_rebuilt, (self.kind, self.place, self.message, extra))


def _rebuilt(kind: str, place: Place | None, message: str, extra: dict) -> KernelMistake:
    return KernelMistake(kind, place, message, **extra)


class NotEmulated(KernelMistake):
    """Something that only a compiled kernel can do (inline assembly, Gluon, a library function)."""


class WrongArguments(OwnLines, TypeError):
    """A launch with arguments that the kernel does not have, lacks some, or cannot take."""


class WrongGrid(OwnLines, ValueError):
    """A launch whose grid no GPU takes."""


class NotALaunch(OwnLines, RuntimeError):
    """A kernel called like a function, from the host."""


class NoSource(OwnLines, OSError):
    """A kernel whose text is in no file and no notebook cell."""
