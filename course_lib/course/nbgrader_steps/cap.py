"""Bound what a cell put out, so that a flood of a submission does not become a file of 100 MB.

Text is cut to its first and last part. Figures and other rich outputs stay whole or go whole: half a figure is none.
"""

import json
from collections.abc import Iterator
from typing import Any

KEPT_TEXT_CHARACTERS = 20_000  # for each cell
KEPT_RICH_CHARACTERS = 2_000_000
KEPT_OUTPUTS = 100


def cap(cell: Any, untouched: str) -> None:
    """Cut the outputs of a cell in place; those that carry the MIME type `untouched` stay as they are."""
    ours = [output for output in cell.get("outputs", []) if untouched in output.get("data", {})]
    others = [output for output in cell.get("outputs", []) if untouched not in output.get("data", {})]
    if not others:
        return
    text_room, rich_room = KEPT_TEXT_CHARACTERS, KEPT_RICH_CHARACTERS
    for output in others[:KEPT_OUTPUTS]:
        for holder, key in _texts(output):
            text = holder[key]
            holder[key] = _cut(text, text_room)
            text_room = max(0, text_room - len(text))
        size = sum(len(json.dumps(value)) for value in output.get("data", {}).values())
        if size > rich_room:
            output.data = {"text/plain": f"... an output of {size} characters left out ..."}
        rich_room = max(0, rich_room - size)
    cell.outputs = others[:KEPT_OUTPUTS] + ours


def _cut(text: str, room: int) -> str:
    if len(text) <= room:
        return text
    head, tail = text[: room // 2], text[len(text) - room // 2 :]
    return f"{head}\n... {len(text) - len(head) - len(tail)} characters left out ...\n{tail}"


def _texts(output: Any) -> Iterator[tuple[Any, Any]]:
    """(holder, key) of every plain text in an output."""
    if output.output_type == "stream":
        yield output, "text"
    elif output.output_type == "error":
        output.traceback = ["\n".join(output.traceback)]
        yield from ((output, "evalue"), (output.traceback, 0))
    elif "text/plain" in output.data:
        yield output.data, "text/plain"
