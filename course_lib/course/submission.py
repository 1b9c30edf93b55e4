"""Which cells of a notebook belong to an exercise, and what they hold as plain Python.

Used are the locked setup cell, the cells of this and of earlier exercises, and cells before it that hold nothing but imports,
definitions and constants. Only the exercise's own cells must run; what else fails is left out and named if it is missed.
"""

import ast
import re
from collections.abc import Iterator
from typing import Any

from ..grading.child import Cell
from ..grading.exercise import Exercise

_DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_SOLUTION = re.compile(r"ex-\d+-\d+(-[a-z])?")


def grade_id(cell: Any) -> str:
    """The nbgrader id of a notebook cell, or ""."""
    metadata = cell.get("metadata", {}).get("nbgrader", {})
    return str(metadata.get("grade_id", "")) if isinstance(metadata, dict) else ""


def cells_for(notebook: Any, exercise: Exercise) -> list[Cell]:
    """The cells that the judge runs for an exercise, in order; [] when the notebook has none of its own."""
    code = [cell for cell in notebook.cells if cell.get("cell_type") == "code"]
    own = re.compile(re.escape(exercise.cell_id) + r"(-[a-z])?")
    places = [i for i, cell in enumerate(code) if own.fullmatch(grade_id(cell))]
    return list(_chosen(code[: places[-1] + 1], own)) if places else []


def _chosen(code: list[Any], own: re.Pattern) -> Iterator[Cell]:
    for index, cell in enumerate(code):
        name, source = grade_id(cell), plain_python(str(cell.get("source", "")))
        required = bool(own.fullmatch(name))
        if required or name == "setup" or _SOLUTION.fullmatch(name) or only_definitions(source):
            yield Cell(f"{index:03d}-{name or 'cell'}".replace("/", "-"), source, required)


def plain_python(source: str) -> str:
    """The source without IPython's own syntax: magics and shell lines become blank ones, so that line numbers stay."""
    if source.lstrip().startswith("%%"):
        return ""
    source = source.replace("\r\n", "\n").replace("\r", "\n")
    return "\n".join("" if line.lstrip().startswith(("%", "!")) and not _inside(source, n) else line
                     for n, line in enumerate(source.split("\n"), start=1))  # fmt: skip


def _inside(source: str, line: int) -> bool:
    """True when valid Python has a statement that goes on over this line: then % is an operator, not a magic."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return False
    return any(getattr(node, "lineno", line) < line <= (getattr(node, "end_lineno", 0) or 0) for node in ast.walk(tree))


def only_definitions(source: str) -> bool:
    """True for imports, functions, classes and assignments without calls: what is safe and useful to run for others."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError):
        return False
    return bool(body) and all(_is_definition(statement) for statement in body)


def _is_definition(statement: ast.stmt) -> bool:
    if isinstance(statement, _DEFINITIONS):
        return True
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)  # a string that serves as a comment
    assigned = isinstance(statement, (ast.Assign, ast.AnnAssign))
    return assigned and not any(isinstance(node, (ast.Call, ast.Await)) for node in ast.walk(statement))
