"""What a new version of a lab changes for the learner, in one sentence."""

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class CellChanges:
    new: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]

    def __str__(self) -> str:
        parts = [
            f"{what} cells: {', '.join(ids)}"
            for what, ids in (("new", self.new), ("changed", self.changed), ("removed", self.removed))
            if ids
        ]
        return "; ".join(parts) or "the same cells, only other notebook settings"


def cell_changes(old: bytes, new: bytes, answers_too: bool = True) -> CellChanges | None:
    """Compares by cell id, type and source; None when one of the two is no notebook.

    answers_too  False when `old` is a learner's file: cells meant for answers differ there and are left out
    """
    before, after = _cells(old), _cells(new)
    if before is None or after is None:
        return None
    both = [cell_id for cell_id in after if cell_id in before and (answers_too or not after[cell_id][1])]
    return CellChanges(
        new=tuple(after[cell_id][2] for cell_id in after if cell_id not in before),
        changed=tuple(after[cell_id][2] for cell_id in both if before[cell_id][0] != after[cell_id][0]),
        removed=tuple(before[cell_id][2] for cell_id in before if cell_id not in after) if answers_too else (),
    )


def _cells(data: bytes) -> dict[str, tuple[tuple[str, str], bool, str]] | None:
    """id -> ((type, source), whether it is for answers, how a learner finds it), in order."""
    try:
        found, heading = {}, ""
        for at, cell in enumerate(json.loads(data)["cells"]):
            cell_id, what = _id(cell, at), _what(cell)
            if what[0] == "markdown" and (lines := [line for line in what[1].splitlines() if line.startswith("#")]):
                heading = lines[-1].lstrip("# ")
            found[cell_id] = (what, _is_answer(cell), _name(cell, cell_id, heading))
        return found
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _name(cell: dict[str, Any], cell_id: str, heading: str) -> str:
    """A cell's grade id; for one that has only a hash, the heading that it stands under."""
    graded = cell.get("metadata", {}).get("nbgrader", {}).get("grade_id")
    if graded or not heading:
        return str(graded or cell_id)
    return f"one under '{heading}'"


def _id(cell: dict[str, Any], at: int) -> str:
    grade_id = cell.get("metadata", {}).get("nbgrader", {}).get("grade_id")
    return str(cell.get("id") or grade_id or f"number {at + 1}")


def _what(cell: dict[str, Any]) -> tuple[str, str]:
    source = cell.get("source", "")
    text = source if isinstance(source, str) else "".join(source)
    return str(cell.get("cell_type")), text.replace("\r\n", "\n")


def _is_answer(cell: dict[str, Any]) -> bool:
    return bool(cell.get("metadata", {}).get("nbgrader", {}).get("solution"))
