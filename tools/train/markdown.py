"""Tables and paragraphs of a Markdown page."""

import textwrap
from collections.abc import Sequence
from typing import Any

WIDTH = 128


def table(head: Sequence[Any], rows: Sequence[Sequence[Any]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(str(cell) for cell in line) + " |\n" for line in lines)


def paragraph(*sentences: str, first: str = "", later: str = "") -> str:
    """Sentences as one paragraph, in lines of readable length."""
    filler = textwrap.TextWrapper(WIDTH, first, later, break_long_words=False, break_on_hyphens=False)
    return filler.fill(" ".join(sentences)) + "\n"


def points(items: Sequence[str]) -> str:
    return "".join(paragraph(item, first="- ", later="  ") for item in items)
