"""What a new version of a lab changes for the learner, by cell id, in one sentence."""

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
        return "; ".join(parts) or "the cells are the same, only notebook settings differ"


def cell_changes(old: bytes, new: bytes, answers_too: bool = True) -> CellChanges | None:
    """Compares by cell id, type and source; None when one of the two is no notebook.

    answers_too  False when `old` is a learner's file: cells meant for answers differ there and are left out
    """
    before, after = _cells(old), _cells(new)
    if before is None or after is None:
        return None
    both = [cell_id for cell_id in after if cell_id in before and (answers_too or not after[cell_id][1])]
    return CellChanges(
        new=tuple(cell_id for cell_id in after if cell_id not in before),
        changed=tuple(cell_id for cell_id in both if before[cell_id][0] != after[cell_id][0]),
        removed=tuple(cell_id for cell_id in before if cell_id not in after) if answers_too else (),
    )


def _cells(data: bytes) -> dict[str, tuple[tuple[str, str], bool]] | None:
    """id -> ((type, source), whether it is for answers), in order."""
    try:
        cells = json.loads(data)["cells"]
        return {_id(cell, at): (_what(cell), _is_answer(cell)) for at, cell in enumerate(cells)}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _id(cell: dict[str, Any], at: int) -> str:
    grade_id = cell.get("metadata", {}).get("nbgrader", {}).get("grade_id")
    return str(cell.get("id") or grade_id or f"number {at + 1}")


def _what(cell: dict[str, Any]) -> tuple[str, str]:
    source = cell.get("source", "")
    text = source if isinstance(source, str) else "".join(source)
    return str(cell.get("cell_type")), text.replace("\r\n", "\n")


def _is_answer(cell: dict[str, Any]) -> bool:
    return bool(cell.get("metadata", {}).get("nbgrader", {}).get("solution"))
