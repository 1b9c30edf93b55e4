"""Keeps the held-out modules (course_lib/model/held_out.txt) out of the training text: the files, their tests, and copies.

Dropped  the modules, their tests and their stubs by name; and any file a quarter of whose distinct lines are held-out lines.
Comments do not count as lines here: the same licence header stands above many files.
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
        self._lines = set().union(*(_long_lines(content) for content in contents))
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
        """ "copy of held out" when at least a quarter of the distinct long lines are held-out lines, or ""."""
        lines = _long_lines(content)
        copied = len(lines & self._lines)
        return "copy of held out" if len(lines) >= FEWEST_LINES and copied >= SHARE_COPIED * len(lines) else ""

    def lines_found(self, contents: Iterable[bytes]) -> float:
        """The share of held-out lines that occur anywhere in `contents`: idioms remain, so it is small and not zero."""
        found: set[bytes] = set()
        for content in contents:
            found |= _long_lines(content) & self._lines
        return len(found) / len(self._lines)


def _long_lines(content: bytes) -> set[bytes]:
    lines = {line.strip() for line in content.split(b"\n")}
    return {line for line in lines if len(line) >= SHORTEST_LINE_BYTES and not line.startswith(b"#")}
