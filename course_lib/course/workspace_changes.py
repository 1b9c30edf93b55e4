"""What a new version of a lab changes for the learner, in one sentence."""

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

UNDER = "one under "  # the name of a cell that has none of its own: its heading follows
HEADINGS_SHOWN = 6  # of one kind of change; beyond that they are counted


@dataclass(frozen=True, slots=True)
class CellChanges:
    new: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]

    def __str__(self) -> str:
        parts = [
            f"{what} cells: {_listed(ids)}"
            for what, ids in (("new", self.new), ("changed", self.changed), ("removed", self.removed))
            if ids
        ]
        return "; ".join(parts) or "the same cells, only other notebook settings"


def cell_changes(old: bytes, new: bytes, answers_too: bool = True) -> CellChanges | None:
    """Compares by cell id, type and source; None when one of the two is no notebook.

    answers_too  False when `old` is a learner's file: cells meant for answers and the learner's own are left out
    """
    before, after = _cells(old), _cells(new)
    if before is None or after is None:
        return None
    gone = [before[cell_id] for cell_id in before if cell_id not in after] if answers_too else []
    new, changed = [], []
    for cell_id, (what, is_answer, name) in after.items():
        if cell_id in before:
            if before[cell_id][0] != what and (answers_too or not is_answer):
                changed.append(name)
        elif same_place := _reworded(what, name, gone):
            gone.remove(same_place)
            changed.append(name)
        else:
            new.append(name)
    return CellChanges(tuple(new), tuple(changed), removed=tuple(name for _, _, name in gone))


def _reworded(what: tuple[str, str], name: str, gone: list[Any]) -> Any:
    """The cell that this one replaces: an id is made of the text, so a cell whose text changed has another one."""
    if not name.startswith(UNDER):
        return None
    return next((cell for cell in gone if cell[2] == name and cell[0][0] == what[0]), None)


def _listed(names: tuple[str, ...]) -> str:
    """Cells with a name of their own one by one, the others by heading; of many headings the first and the last."""
    counts = Counter(name for name in names if name.startswith(UNDER))
    if len(counts) <= HEADINGS_SHOWN:
        return ", ".join(_counted(name, counts.get(name, 1)) for name in dict.fromkeys(names))
    first, *_, last = (name.removeprefix(UNDER) for name in counts)
    rest = f"under {len(counts)} headings, from {first} to {last}"
    own = [name for name in names if name not in counts]
    return ", ".join([*own, f"{counts.total()} {'others ' if own else ''}{rest}"])


def _counted(name: str, number: int) -> str:
    return name if number == 1 else f"{number} {name.removeprefix('one ')}"


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
    return f"{UNDER}'{heading}'"


def _id(cell: dict[str, Any], at: int) -> str:
    grade_id = cell.get("metadata", {}).get("nbgrader", {}).get("grade_id")
    return str(cell.get("id") or grade_id or f"number {at + 1}")


def _what(cell: dict[str, Any]) -> tuple[str, str]:
    source = cell.get("source", "")
    text = source if isinstance(source, str) else "".join(source)
    return str(cell.get("cell_type")), text.replace("\r\n", "\n")


def _is_answer(cell: dict[str, Any]) -> bool:
    return bool(cell.get("metadata", {}).get("nbgrader", {}).get("solution"))
