"""Look at a submission before anything of it runs: is it a notebook of this lab, whole enough to be graded?"""

import copy
import json
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from ..exercises import PHASES, exercises_of
from .gradebook import odd_characters
from .nbgrader_steps.status import printable

MAX_BYTES = 50 * 2**20
MAX_LEVELS = 100  # of lists and objects in each other; nbformat needs a few of Python's 1000 frames for each
_FRESH = "take a fresh copy of the lab and put your answers there"


def fault_of_name(student: str) -> str:
    """What makes a student's folder one that nbgrader cannot grade, with the cure, or ""."""
    if odd := odd_characters(student):
        return f"the name of the folder holds {odd}; rename it to the student's id"
    if student != student.strip():
        return "the name of the folder begins or ends with a space; rename it to the student's id"
    return ""


def inspect_submission(folder: Path, phase: str) -> str:
    """"" when the folder can be graded, else one sentence for the learner: what is wrong and what to do."""
    path = folder / f"{phase}.ipynb"
    if not path.is_file():
        others = sorted(printable(p.name) for p in folder.glob("*.ipynb"))
        found = f"found {', '.join(others)}; rename it" if others else "there is no notebook; hand in the lab"
        return f"expected a file named {path.name}, {found}"
    if path.stat().st_size > MAX_BYTES:
        size = path.stat().st_size / 2**20
        return f"{path.name} is {size:.0f} MiB, the limit is {MAX_BYTES // 2**20} MiB; clear its outputs and hand it in again"
    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
        cure = "it is cut off or damaged: take the file from your own folder and hand it in again"
        return f"{path.name} is no valid notebook ({error}); {cure}"
    except OSError as error:
        return f"{path.name} cannot be read ({error.strerror}); hand it in again"
    return _structure(notebook, phase, path.name) or _format(notebook, path.name) or _timestamp(folder / "timestamp.txt")


def _structure(notebook: Any, phase: str, name: str) -> str:
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        return f"{name} has no list of cells; {_FRESH}"
    for number, cell in enumerate(cells, start=1):
        if fault := fault_of(cell) or _fault_of_nbgrader(cell):
            return f"{name}: cell {number} {fault}; {_FRESH}"
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


def _fault_of_nbgrader(cell: dict) -> str:
    """An id of no kind at all. One that is unknown, and odd points or flags, are mended when the cell is graded."""
    metadata = cell["metadata"].get("nbgrader", {})
    if not isinstance(metadata, dict):
        return f"has nbgrader metadata of type {type(metadata).__name__}"
    return "has nbgrader metadata without a grade_id" if metadata and not isinstance(metadata.get("grade_id"), str) else ""


def _format(notebook: dict, name: str) -> str:
    """What keeps nbformat from reading, running and writing the notebook, with a cure, or ""."""
    version = notebook.get("nbformat")
    if version != 4:
        return f"{name} is of notebook format {version!r:.20}, this course reads 4; {_FRESH}"
    if _levels(notebook) > MAX_LEVELS:
        return f"{name} nests lists and objects more than {MAX_LEVELS} deep; {_FRESH}"
    try:
        json.dumps(notebook, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        found = printable(error.object[error.start])
        return f"{name} holds half a character ({found}), which no file can hold; delete it, or {_FRESH}"
    return f"{name} is no valid notebook ({fault}); {_FRESH}" if (fault := _fault_of_format(notebook)) else ""


def _fault_of_format(notebook: dict) -> str:
    """What is missing and is made anew when the notebook is graded (outputs, the names of kernel and language) is no fault."""
    import nbformat

    whole = copy.deepcopy(notebook)
    for key in ("kernelspec", "language_info"):
        if isinstance(whole.get("metadata"), dict) and isinstance(whole["metadata"].get(key), dict):
            del whole["metadata"][key]
    for cell in whole["cells"]:
        if cell["cell_type"] == "code":
            cell.setdefault("outputs", [])
            cell.setdefault("execution_count", None)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # cells without an id get one
            nbformat.validate(nbformat.from_dict(whole), relax_add_props=True)
    except nbformat.ValidationError as error:
        place = ".".join(str(step + 1 if isinstance(step, int) else step) for step in error.absolute_path)
        return f"{printable(place) or 'the whole'}: {printable(str(error.message)):.80}"
    except Exception as error:  # nbformat raises whatever the damage leads to
        return f"{type(error).__name__} {printable(str(error)):.80}".strip()
    return ""


def _levels(value: Any) -> int:
    """How deep lists and objects stand in each other, counted without recursion."""
    levels, inner = 0, [value]
    while inner := [item for item in inner if isinstance(item, (dict, list))]:
        levels += 1
        inner = [item for part in inner for item in (part.values() if isinstance(part, dict) else part)]
    return levels


def _timestamp(path: Path) -> str:
    """nbgrader reads the time of a submission from this file beside the notebook."""
    from nbgrader.utils import parse_utc

    try:
        if path.exists() and (text := path.read_text().strip()):
            parse_utc(text)
    except (ValueError, OverflowError, TypeError, OSError):
        return f"{path.name} holds no time such as 2026-01-31 23:59:00 UTC; correct or delete it"
    return ""


def _grade_id(cell: dict) -> str:
    metadata = cell.get("metadata")
    nbgrader = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    return str(nbgrader.get("grade_id", "")) if isinstance(nbgrader, dict) else ""
