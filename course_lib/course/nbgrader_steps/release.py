"""From the instructor's notebook to the learner's: stubs in place of solutions, and nothing else of a solution left."""

import ast
import re
from typing import Any

from nbgrader.preprocessors import ClearSolutions as NbgraderClearSolutions
from nbgrader.preprocessors import NbGraderPreprocessor

from ...exercises import exercise

_SOLUTION_ID = re.compile(r"ex-(\d+)-(\d+)(-[a-z])?")
KEPT_METADATA = ("nbgrader", "deletable", "editable")


def exercise_id(grade_id: str) -> str | None:
    """"ex-2-4" and "ex-2-4-b" -> "2.4"; None for a cell that is no exercise's solution."""
    match = _SOLUTION_ID.fullmatch(grade_id)
    return f"{match[1]}.{match[2]}" if match else None


class ClearSolutions(NbgraderClearSolutions):
    """Stubs that say which exercise is to be written. On the host side a stub raises; in a @triton.jit body it is `pass`."""

    def preprocess_cell(self, cell: Any, resources: Any, cell_index: int) -> tuple[Any, Any]:
        grade_id = cell.metadata.get("nbgrader", {}).get("grade_id", "")
        number = exercise_id(grade_id)
        if number is None or cell.cell_type != "code":
            return super().preprocess_cell(cell, resources, cell_index)
        cell.source = with_stubs(cell.source, number, grade_id)
        return cell, resources


def with_stubs(source: str, number: str, grade_id: str) -> str:
    """The cell's source with each marked region replaced. Raises ValueError where a region stands outside a function."""
    lines, out, start = source.split("\n"), [], None
    for index, line in enumerate(lines):
        if "BEGIN SOLUTION" in line:
            if start is not None:
                raise ValueError(f"{grade_id}, line {index + 1}: a solution begins inside the one of line {start + 1}")
            start = index
            out += _stub(source, index, number, grade_id, line[: len(line) - len(line.lstrip())])
        elif "END SOLUTION" in line:
            if start is None:
                raise ValueError(f"{grade_id}, line {index + 1}: END SOLUTION without BEGIN SOLUTION")
            start = None
        elif start is None:
            out.append(line)
    if start is not None:
        raise ValueError(f"{grade_id}, line {start + 1}: the solution has no END SOLUTION")
    if len(out) == len(lines):
        raise ValueError(f"{grade_id} marks no region with ### BEGIN SOLUTION and ### END SOLUTION")
    stubbed = "\n".join(out)
    ast.parse(stubbed)  # a stub in the wrong place is an error of the author, found here
    return stubbed


def _stub(source: str, index: int, number: str, grade_id: str, indent: str) -> list[str]:
    function = _function_around(source, index + 1)
    if function is None:
        raise ValueError(f"{grade_id}, line {index + 1}: a solution must stand inside a function, or its stub could not wait")
    if any("jit" in ast.unparse(decorator) for decorator in function.decorator_list):
        return [f"{indent}pass  # {number}: yours to write"]
    wanted = exercise(number).signature if function.name == exercise(number).entry else function.name
    return [f"{indent}# your code here", f'{indent}raise NotImplementedError("{number}: {wanted} is yours to write")']


def _function_around(source: str, line: int) -> ast.FunctionDef | None:
    """The innermost function whose body spans this line."""
    found = None
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and node.lineno < line <= (node.end_lineno or 0):
            found = node if found is None or node.lineno > found.lineno else found
    return found


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
