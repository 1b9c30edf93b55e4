"""Before a submission runs, the course's own cells in it are the course's again, also those that were deleted.

What nbgrader knows of a cell (its points, that it is locked) is the course's again as well, whatever the submission says. A cell
with an id that this version of the lab does not have, pasted or from another version, becomes a plain cell and runs.

nbgrader puts back a deleted check, but without a cell id, and it stops at a submission in which the cell before it is gone
too. A deleted setup cell would make every answer fail for want of `torch`; it comes back as well.
"""

import re
from typing import Any

from nbformat import from_dict
from nbgrader.api import MissingEntry
from nbgrader.preprocessors import OverwriteCells as NbgraderOverwriteCells

from ..notebook_source import nbgrader_metadata
from ..submission import grade_id

_CELL = re.compile(r"ex-(\d+)-(\d+)(?:-([a-z]+))?")


class OverwriteCells(NbgraderOverwriteCells):
    """nbgrader's step, with a missing setup cell and missing checks put back in their places, under their own ids."""

    def preprocess_cell(self, cell: Any, resources: Any, cell_index: int) -> tuple[Any, Any]:
        place = (grade_id(cell), self.notebook_id, self.assignment_id)
        try:
            source = self.gradebook.find_source_cell(*place)
        except MissingEntry:
            cell.metadata.pop("nbgrader", None)
            return cell, resources
        try:
            points = self.gradebook.find_grade_cell(*place).max_score
        except MissingEntry:
            points = None
        cell.metadata["nbgrader"] = from_dict(_metadata(source, points))
        return super().preprocess_cell(cell, resources, cell_index)

    def add_missing_grade_cells(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        notebook = self.gradebook.find_notebook(self.notebook_id, self.assignment_id)
        points = {cell.name: cell.max_score for cell in notebook.grade_cells}
        ours = (cell for cell in notebook.source_cells if cell.name == "setup" or _CELL.fullmatch(cell.name))
        after = 0  # where the next missing cell belongs: behind the last one that is there
        for source in sorted(ours, key=lambda cell: reading_order(cell.name)):
            place = next((i for i, cell in enumerate(nb.cells) if grade_id(cell) == source.name), None)
            if place is not None:
                after = place + 1
            elif source.locked:
                self.log.warning("the cell %s was deleted; it is put back", source.name)
                nb.cells.insert(after, _again(source, points.get(source.name)))
                after += 1
        return nb, resources


def _again(source: Any, points: float | None) -> Any:
    """A cell as it was released; `points` None for one that is not graded."""
    made = {"id": source.name, "cell_type": source.cell_type, "source": source.source}
    made["metadata"] = {"deletable": False, "editable": False, "nbgrader": _metadata(source, points)}
    return from_dict(made | ({"outputs": [], "execution_count": None} if source.cell_type == "code" else {}))


def _metadata(source: Any, points: float | None) -> dict:
    """What nbgrader knew of the cell when it was released."""
    metadata = nbgrader_metadata(source.name, source.cell_type) | {"checksum": source.checksum}
    return metadata if points is None else metadata | {"grade": True, "points": points}


def reading_order(name: str) -> tuple:
    """A key that sorts grade ids as they stand in a lab: setup, ex-1-1, ex-1-1-b, ex-1-1-check, ex-1-1-timed, ex-1-2, ..."""
    match = _CELL.fullmatch(name)
    if match is None:
        return (0, 0, 0, "")
    part = match[3] or ""
    return (int(match[1]), int(match[2]), ("check", "timed").index(part) + 1 if part in ("check", "timed") else 0, part)
