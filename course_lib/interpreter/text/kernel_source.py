"""The text of a module that defines a kernel and everything it uses, so that another process can compile or replay it.

Triton reads a kernel from the file that defines it, and that file is a notebook cell, a module inside a zip, or a script that
cannot be imported twice. The text made here stands alone: helpers are copied from wherever they live, constants are written out,
and only Triton and the standard library are imported. Every line knows where it came from, so that a message can say so.

Layout of the text: imports and constants where they are first needed, helpers before their callers, the kernel last.
Not here: running the text (compiled/), which arguments it is launched with (compiled/arguments.py).
"""

import ast
import bisect
import builtins
from dataclasses import dataclass, field
from typing import Any

from .kernel_parts import Part, SourceError, identity, part_of

RESERVED = {"_triton", "_language", "_gluon", *dir(builtins)}

__all__ = ["KernelSource", "Segment", "SourceError", "self_contained"]


@dataclass(frozen=True, slots=True)
class Segment:
    """Lines text_line ... text_line + count - 1 of the text are the lines from `line` on of `file`."""

    text_line: int
    count: int
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class KernelSource:
    """A module as text. `name` is the kernel's name in it; file and first_line are where its `def` stands originally.

    also   names, in the text, of the further jit functions that were asked for (function-valued constexpr arguments)
    gluon  the kernel is a Gluon kernel
    """

    text: str
    name: str
    file: str
    first_line: int
    segments: tuple[Segment, ...] = ()
    also: tuple[str, ...] = ()
    gluon: bool = False

    def where(self, text_line: int) -> tuple[str, int] | None:
        """The file and line that a line of the text (from 1) was copied from; None for a line written here."""
        index = bisect.bisect_right([segment.text_line for segment in self.segments], text_line) - 1
        if index < 0:
            return None
        segment = self.segments[index]
        offset = text_line - segment.text_line
        return (segment.file, segment.line + offset) if offset < segment.count else None


def self_contained(kernel: Any, *also: Any) -> KernelSource:
    """The text of a kernel made by @triton.jit or @gluon.jit, plain, interpreted, or wrapped by autotune and heuristics.

    also: further jit functions that the text must define, whether the kernel names them or not.
    Raises SourceError, which names the value and what to do, for a global that cannot be written down; TypeError for no kernel.
    """
    book = _Book()
    for root in (kernel, *also):
        book.collect(root, getattr(root, "__name__", type(root).__name__), "")
    name, *names = [book.name_for(root, book.parts[identity(root)].title) for root in (kernel, *also)]
    text, segments = book.write()
    root = book.parts[identity(kernel)]
    return KernelSource(text, name, root.file, root.first_line, segments, tuple(names), root.gluon)


@dataclass(slots=True)
class _Book:
    """The parts found, callees before callers, and the names that they get: (identity of a value, name wanted) -> name."""

    parts: dict[Any, Part] = field(default_factory=dict)
    order: list[Any] = field(default_factory=list)
    names: dict[tuple[Any, str], str] = field(default_factory=dict)

    def collect(self, value: Any, name: str, user: str) -> None:
        key = identity(value)
        if key in self.parts:
            return
        self.parts[key] = part = part_of(value, name, user)
        for use in part.uses:
            self.collect(use.value, use.name, part.title)
        self.order.append(key)

    def name_for(self, value: Any, wanted: str, fresh: bool = False) -> str:
        """A name of the text for a value: the one wanted unless something else has it, and never one that a local would hide."""
        key = (identity(value), wanted)
        if key not in self.names:
            everywhere = {name for part in self.parts.values() for name in part.identifiers}
            given, number, name = {*self.names.values(), *RESERVED}, 1, wanted
            while name in given or (name in everywhere and (fresh or number > 1)):
                number += 1
                name = f"{wanted}_{number}"
            self.names[key] = name
        return self.names[key]

    def write(self) -> tuple[str, tuple[Segment, ...]]:
        lines = ["import triton as _triton", "import triton.language as _language"]
        if any(part.gluon for part in self.parts.values()):
            lines.append("from triton.experimental import gluon as _gluon")
        for part in self.parts.values():  # names first: those that come from the source, then those made here
            for use in sorted(part.uses, key=lambda use: use.fresh):
                self.name_for(use.value, use.name, use.fresh)
        segments = []
        for key in self.order:
            part = self.parts[key]
            own, *others = [name for (owner, _), name in self.names.items() if owner == key]
            head, body = part.written(own, [self.names[identity(use.value), use.name] for use in part.uses])
            lines += head
            if body:
                segments.append(Segment(len(lines) + 1, len(body), part.file, part.first_line))
                lines += body
            lines += [f"{other} = {own}" for other in others]
        text = "\n".join(lines) + "\n"
        ast.parse(text)  # an edit that broke the text is our mistake: better here than in another process
        return text, tuple(segments)
