"""What is watched while a launch runs: `Checks` (which mistakes to look for) and `Launch` (where the kernel stands)."""

import linecache
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .counts.books import SourceLine
from .mistakes.faults import KernelMistake, Place
from .mistakes.memory import Memory

if TYPE_CHECKING:
    from .counts.accounting import Account
    from .targets import Target


@dataclass(frozen=True, slots=True)
class Checks:
    """Mistakes to look for beyond accesses out of bounds, which are always refused.

    unwritten  a value from memory that nobody wrote reaches a result (memory from torch.empty and its relatives)
    masked     a masked-off lane of a load without other= reaches a result
    races      two programs store to one address without atomics (one that has done a tl.atomic_cas holds a lock: it may)
    overflow   an address is made with int32 arithmetic that wrapped around
    """

    unwritten: bool = True
    masked: bool = True
    races: bool = True
    overflow: bool = True


NONE = Checks(unwritten=False, masked=False, races=False, overflow=False)


@dataclass
class Launch:
    """One running launch: its memory, the program that runs now, and what to look for and count."""

    kernel: str
    memory: Memory
    grid: tuple[int, int, int]
    checks: Checks
    target: "Target | None" = None
    account: "Account | None" = None
    program: tuple[int, int, int] = (0, 0, 0)
    linear: int = 0
    writers: dict[int, Any] = field(default_factory=dict)  # storage start -> last writer of each element (checks.races)
    lock_holder: int = -1  # linear index of the last program that did a tl.atomic_cas
    codes: "frozenset | set" = field(default_factory=set)  # code objects of the kernels and helpers, for line numbers

    def line(self) -> SourceLine:
        """The source line of the kernel (or of its helper) that is being executed."""
        frame = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            if code in self.codes:
                return source_line(code.co_filename, frame.f_lineno)
            frame = frame.f_back
        return SourceLine("", 0, "")

    def place(self) -> Place:
        line = self.line()
        return Place(self.kernel, line.file, line.number, line.text, self.program)

    def count_elementwise(self, flops: int) -> None:
        if self.account is not None:
            self.account.ledger.elementwise_flops += flops

    def count_special(self, name: str, calls: int) -> None:
        if self.account is not None:
            self.account.special(name, calls)

    def mistake(self, kind: str, message: str, **where: Any) -> KernelMistake:
        return KernelMistake(kind, self.place(), message, **where)


_lines: dict[tuple[str, int], SourceLine] = {}  # one object for each line, because the ledger looks lines up at each access


def source_line(file: str, number: int) -> SourceLine:
    """The line as it stands in the file now (a cell may have been run anew), or as `rename_line` wants it told."""
    text = linecache.getline(file, number).strip()
    known = _lines.get((file, number))
    if known is None or known.text != text:
        known = _lines[file, number] = SourceLine(file, number, text)
    return known


def rename_line(file: str, number: int, origin_file: str, origin_number: int) -> None:
    """Tell a line that was copied from elsewhere by the file and number that it was copied from."""
    _lines[file, number] = SourceLine(origin_file, origin_number, linecache.getline(file, number).strip())
