"""From the instructor's notebook to the learner's: stubs in place of solutions, and nothing else of a solution left."""

from typing import Any

from nbgrader.preprocessors import ClearSolutions as NbgraderClearSolutions
from nbgrader.preprocessors import NbGraderPreprocessor

from .stubs import exercise_id, with_stubs

KEPT_METADATA = ("nbgrader", "deletable", "editable")


class ClearSolutions(NbgraderClearSolutions):
    """Stubs that say which exercise is to be written. On the host side a stub raises; in a @triton.jit body it is `pass`."""

    def preprocess_cell(self, cell: Any, resources: Any, cell_index: int) -> tuple[Any, Any]:
        grade_id = cell.metadata.get("nbgrader", {}).get("grade_id", "")
        number = exercise_id(grade_id)
        if number is None or cell.cell_type != "code":
            return super().preprocess_cell(cell, resources, cell_index)
        cell.source = with_stubs(cell.source, number, grade_id)
        return cell, resources


class StripRelease(NbGraderPreprocessor):
    """Of a cell's metadata only what nbgrader needs goes out; no tag, output, execution count or attachment of a solution."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        for cell in nb.cells:
            solution = cell.metadata.get("nbgrader", {}).get("solution", False)
            cell.metadata = type(cell.metadata)({k: v for k, v in cell.metadata.items() if k in KEPT_METADATA})
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
            if solution:
                cell.pop("attachments", None)
        return nb, resources
