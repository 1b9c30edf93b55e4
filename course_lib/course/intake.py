"""Look at a submission before anything of it runs: is it a notebook of this lab, whole enough to be graded?"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from ..exercises import PHASES, exercises_of

MAX_BYTES = 50 * 2**20


def inspect_submission(folder: Path, phase: str) -> str:
    """"" when the folder can be graded, else one sentence for the learner: what is wrong and what to do."""
    path = folder / f"{phase}.ipynb"
    if not path.is_file():
        others = sorted(p.name for p in folder.glob("*.ipynb"))
        found = f"found {', '.join(others)}; rename it" if others else "there is no notebook; hand in the lab"
        return f"expected a file named {path.name}, {found}"
    if path.stat().st_size > MAX_BYTES:
        size = path.stat().st_size / 2**20
        return f"{path.name} is {size:.0f} MiB, the limit is {MAX_BYTES // 2**20} MiB; clear its outputs and hand it in again"
    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
        return f"{path.name} is no valid notebook ({error}); open it in JupyterLab, save it and hand it in again"
    return _structure(notebook, phase, path.name)


def _structure(notebook: Any, phase: str, name: str) -> str:
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        return f"{name} has no list of cells; take a fresh copy of the lab and put your answers there"
    for number, cell in enumerate(cells, start=1):
        if fault := fault_of(cell):
            return f"{name}: cell {number} {fault}; take a fresh copy of the lab and put your answers there"
    ids = Counter(_grade_id(cell) for cell in cells)
    number = next(p.number for p in PHASES if p.name == phase)
    ours = [cell_id for e in exercises_of(number) for cell_id in (e.cell_id, *map(e.grade_id, e.cells))]
    if not any(ids[cell_id] for cell_id in ours):
        answers = ", ".join(e.cell_id for e in exercises_of(number))
        return f"{name} carries none of the cells {answers}: its metadata is gone; put your answers into a fresh copy"
    twice = sorted(cell_id for cell_id, count in ids.items() if cell_id and count > 1)
    if twice:
        return f"{name} holds the cell {', '.join(twice)} more than once (a copy?); delete the copy and hand it in again"
    return ""


def fault_of(cell: dict) -> str:
    """What makes a cell unreadable for nbgrader, or ""."""
    if cell.get("cell_type") not in ("code", "markdown", "raw"):
        return f"is of type {cell.get('cell_type')!r:.40}"
    if not isinstance(cell.get("metadata"), dict):
        return "has no metadata"
    source = cell.get("source")
    lines = source if isinstance(source, list) else [source]
    return "" if all(isinstance(line, str) for line in lines) else "has no readable source"


def _grade_id(cell: dict) -> str:
    metadata = cell.get("metadata")
    nbgrader = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    return str(nbgrader.get("grade_id", "")) if isinstance(nbgrader, dict) else ""
