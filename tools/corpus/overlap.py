"""How much of the held-out text stands in the training text all the same; the model card quotes it.

    python -m tools.corpus.overlap BUILD_FOLDER RECORD.json      reads what was encoded; tools/train/runs/overlap.json is in git

held_out.py drops copies of the modules. What remains are idioms, quotations (CPython's documentation shows examples that a module
has in its docstrings), and lines that a package took over. Three numbers say how much that is: the share of lines that occur
anywhere, the largest share of one module's lines in one file, and the longest run of lines in their order.
"""

import argparse
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from course_lib.model.held_out import HeldOutText, digest, known_texts, read

from .encode import chosen
from .held_out import long_lines
from .prepare import contents, documents

RUN = 6  # lines; shorter runs are idioms such as `try:`, an import, `except ImportError:`


def overlap(texts: Sequence[HeldOutText], files: Iterable[tuple[str, bytes]]) -> dict[str, Any]:
    """files: (name, content) of the training text. Lines that count: held_out.long_lines; a run's are all but the blank ones."""
    of_module = {text.module: long_lines(text.content) for text in texts}
    every = set().union(*of_module.values())
    order = [(text.module, _lines(text.content)) for text in texts]
    known = {line for _, lines in order for line in lines}
    runs = {tuple(lines[at : at + RUN]) for _, lines in order for at in range(len(lines) - RUN + 1)}
    found: set[bytes] = set()
    share, longest = {"share": 0.0}, {"lines": 0}
    for name, content in files:
        lines = _lines(content)
        here = every.intersection(lines)
        found |= here
        for module, held in of_module.items():
            part = len(here & held) / len(held) if here and held else 0.0
            if part > share["share"]:
                share = {"share": part, "lines": len(here & held), "module": module, "file": name}
        for piece in _pieces(lines, known):
            if any(tuple(piece[at : at + RUN]) in runs for at in range(len(piece) - RUN + 1)):
                length, module = max((_longest(piece, held), module) for module, held in order)
                if length > longest["lines"]:
                    longest = {"lines": length, "module": module, "file": name}
    return {"lines": len(every), "lines_found": len(found), "largest_share": share, "longest_run": longest}


def _lines(content: bytes) -> list[bytes]:
    return [line for line in map(bytes.strip, content.split(b"\n")) if line]


def _pieces(lines: Sequence[bytes], known: set[bytes]) -> Iterator[list[bytes]]:
    """The parts of at least RUN lines all of which are held-out lines, in whatever order there."""
    piece: list[bytes] = []
    for line in (*lines, b""):
        if line in known:
            piece.append(line)
            continue
        if len(piece) >= RUN:
            yield piece
        piece = []


def _longest(one: Sequence[bytes], other: Sequence[bytes]) -> int:
    """Length of the longest run of lines that both have."""
    longest, before = 0, [0] * (len(other) + 1)
    for line in one:
        now = [0] * (len(other) + 1)
        for at, theirs in enumerate(other, 1):
            if line == theirs:
                now[at] = before[at - 1] + 1
                longest = max(longest, now[at])
        before = now
    return longest


def main(build: Path, record: Path) -> None:
    texts, kept = read(), chosen(documents(build))
    names = (f"{document.source}: {document.path}" for document in kept)
    facts = overlap(texts, zip(names, contents(build, kept), strict=True))
    sha = digest(texts)
    python = next((version for version, known in known_texts().items() if known == sha), None)
    made = {"python": python, "text_sha256": sha, "files": len(kept), **facts}
    record.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    print(f"overlap: {record}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tools.corpus.overlap", description="Held-out lines in the training text.")
    parser.add_argument("build", type=Path)
    parser.add_argument("record", type=Path)
    given = parser.parse_args()
    main(given.build, given.record)
