"""From the authored percent script to the instructor's notebook: ids, nbgrader metadata, points, fixed notebook metadata.

An author writes only `# %% grade_id="ex-1-1"`; what that means follows from the id, and points come from the exercise.
"""

import hashlib
import re
from collections import Counter
from pathlib import Path
from typing import Any

import nbformat

from .. import __version__
from ..exercises import Phase, UnknownExercise, exercise

_GRADE_ID = re.compile(r"ex-(?P<phase>\d+)-(?P<number>\d+)(?:-(?P<part>check|timed|[a-z]))?")
NBVAL_TAG = "nbval-check-output"
KNOWN_TAGS = frozenset({NBVAL_TAG})


def read_notebook(path: Path, phase: Phase) -> Any:
    """The instructor's notebook of a script, without outputs. Raises ValueError for what an author did wrong."""
    import jupytext

    text = path.read_text(encoding="utf-8")  # with any line ends: they all arrive as \\n
    script = jupytext.reads(text, fmt="py:percent")
    cells = [_finish(cell, path.name) for cell in script.cells]
    _set_ids(cells, path.name)
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return nbformat.from_dict(
        {
            "nbformat": 4,
            "nbformat_minor": 5,
            "metadata": {
                "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
                "language_info": {"name": "python"},
                "course": {"phase": phase.number, "lab_version": f"{__version__}+{digest}"},
            },
            "cells": cells,
        }
    )


def _finish(cell: Any, name: str) -> dict:
    metadata = dict(cell.metadata)
    grade_id = metadata.pop("grade_id", None)
    tags = metadata.pop("tags", [])
    metadata.pop("lines_to_next_cell", None)  # jupytext's note on blank lines in the script
    if unknown := set(tags) - KNOWN_TAGS:
        raise ValueError(f"{name}: unknown tag {sorted(unknown)}; known are {sorted(KNOWN_TAGS)}")
    if metadata:
        raise ValueError(f"{name}: a cell header carries {sorted(metadata)}; use grade_id and tags")
    made = {"cell_type": cell.cell_type, "metadata": {}, "source": cell.source}
    if tags:
        made["metadata"]["tags"] = sorted(tags)
    if cell.cell_type == "code":
        made |= {"outputs": [], "execution_count": None}
    if grade_id:
        made["metadata"]["nbgrader"] = nbgrader_metadata(grade_id, cell.cell_type, name)
    return made


def nbgrader_metadata(grade_id: str, cell_type: str, name: str = "") -> dict:
    """What nbgrader needs to know about a cell, from its id: a locked cell, a solution, or a grade cell with its points."""
    base = {"grade_id": grade_id, "schema_version": 3, "cell_type": cell_type, "task": False}
    match = _GRADE_ID.fullmatch(grade_id)
    if match is None:
        if grade_id.startswith("ex-"):
            raise ValueError(f"{name}: grade_id {grade_id!r}; write ex-1-1, ex-1-1-b, ex-1-1-check or ex-1-1-timed")
        return base | {"grade": False, "solution": False, "locked": True}
    part = match["part"]
    if part not in ("check", "timed"):
        return base | {"grade": False, "solution": True, "locked": False}
    try:
        points = exercise(f"{match['phase']}.{match['number']}").points(part)
    except UnknownExercise as error:
        raise ValueError(f"{name}: grade_id {grade_id!r}, but {error}") from error
    if points <= 0:
        raise ValueError(f"{name}: {grade_id} grades nothing; its exercise has no {part} criterion")
    return base | {"grade": True, "solution": False, "locked": True, "points": points}


def _set_ids(cells: list[dict], name: str) -> None:
    """Cell id = grade id, or a hash of the source and how often that source came before."""
    seen: Counter[str] = Counter()
    for cell in cells:
        grade_id = cell["metadata"].get("nbgrader", {}).get("grade_id")
        key = grade_id or hashlib.sha256(cell["source"].encode()).hexdigest()[:12]
        seen[key] += 1
        if grade_id and seen[key] > 1:
            raise ValueError(f"{name}: grade_id {grade_id!r} stands twice")
        cell["id"] = key if seen[key] == 1 else f"{key}-{seen[key]}"
