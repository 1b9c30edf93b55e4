"""Keeps the held-out modules (course_lib/model/held_out.txt) out of the training text: the files, their tests, and copies.

Dropped  the modules, their tests and their stubs by name; any file a quarter of whose distinct lines are held-out lines, and any
         that has a quarter of one module's distinct lines, however much else it has: a module pasted into a long file.
Comments do not count as lines here: the same licence header stands above many files. What remains all the same: overlap.py.
"""

import re
from collections.abc import Iterable

from course_lib.model.held_out import modules

SHARE_COPIED = 0.25
SHORTEST_LINE_BYTES = 25
FEWEST_LINES = 4


class HeldOut:
    """`contents`: the held-out files' bytes, of one Python version or of several."""

    def __init__(self, contents: Iterable[bytes], names: Iterable[str] | None = None) -> None:
        self._names = tuple(modules() if names is None else names)
        self._modules = [long_lines(content) for content in contents]
        self._lines = set().union(*self._modules)
        last = "|".join(sorted({re.escape(name.rpartition(".")[2]) for name in self._names}))
        whole = "|".join(sorted({re.escape(name.replace(".", joint)) for name in self._names for joint in ("", "_")}))
        package = "|".join(sorted({re.escape(name.partition(".")[0]) for name in self._names}))
        self._tests = re.compile(rf"(^|/)test/(test_)?({last}|{whole}|{package})(_?tests?)?(\.py$|/|_[a-z_]+\.py$)")
        files = "|".join(re.escape(name.replace(".", "/")) for name in self._names)
        self._files = re.compile(rf"({files})\.py")
        self._stubs = re.compile(rf"(^|/)({files})\.pyi")

    def drop_path(self, path: str, is_stdlib: bool) -> str:
        """ "held out" for the modules, their tests (both in the standard library) and their stubs (anywhere), or ""."""
        if is_stdlib and (self._files.fullmatch(path) or self._tests.search(path)):
            return "held out"
        return "held out" if self._stubs.search(path) else ""

    def drop_content(self, content: bytes) -> str:
        """ "copy of held out" when a quarter of its distinct long lines are held-out ones, or it has a quarter of a module's."""
        lines = long_lines(content)
        copied = lines & self._lines
        if len(lines) >= FEWEST_LINES and len(copied) >= SHARE_COPIED * len(lines):
            return "copy of held out"
        if len(copied) < FEWEST_LINES:
            return ""
        whole = any(len(held) >= FEWEST_LINES and len(copied & held) >= SHARE_COPIED * len(held) for held in self._modules)
        return "copy of held out" if whole else ""

    def lines_found(self, contents: Iterable[bytes]) -> float:
        """The share of held-out lines that occur anywhere in `contents`: idioms remain, so it is small and not zero."""
        found: set[bytes] = set()
        for content in contents:
            found |= long_lines(content) & self._lines
        return len(found) / len(self._lines)


def long_lines(content: bytes) -> set[bytes]:
    """The distinct lines that say where a text came from: long enough, and no comment."""
    lines = {line.strip() for line in content.split(b"\n")}
    return {line for line in lines if len(line) >= SHORTEST_LINE_BYTES and not line.startswith(b"#")}
