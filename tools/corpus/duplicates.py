"""Exact and near duplicates: a file most of whose lines came before teaches nothing new."""

import hashlib

SHARE_SEEN = 0.75  # of a file's distinct lines
SHORTEST_LINE_BYTES = 12  # `return x` and `else:` say nothing about where a file came from
FEWEST_LINES = 4


class Duplicates:
    """Remembers what it was shown. Order matters: the first of two copies stays."""

    def __init__(self) -> None:
        self._files: set[bytes] = set()
        self._lines: set[int] = set()

    def drop(self, content: bytes) -> str:
        """ "exact duplicate", "near duplicate" or ""; only what is kept is remembered."""
        key = hashlib.blake2b(content, digest_size=16).digest()
        if key in self._files:
            return "exact duplicate"
        lines = distinct_lines(content)
        if len(lines) >= FEWEST_LINES and len(lines & self._lines) >= SHARE_SEEN * len(lines):
            return "near duplicate"
        self._files.add(key)
        self._lines |= lines
        return ""


def distinct_lines(content: bytes) -> set[int]:
    """64-bit hashes of the stripped lines that are long enough to mean something."""
    lines = {line.strip() for line in content.split(b"\n")}
    return {int.from_bytes(hashlib.blake2b(line, digest_size=8).digest()) for line in lines if len(line) >= SHORTEST_LINE_BYTES}
