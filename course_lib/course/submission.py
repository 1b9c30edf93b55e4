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

_CELL_MAGIC = re.compile(r"\s*%%(\w+)[^\n]*\n?")
_WHOLE_LINE = re.compile(r"(?m)^get_ipython\(\)\..*$")
_RUNS_THE_CELL = frozenset({"time", "capture", "prun"})
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
    """The source as Python: IPython's own lines become blank, or calls of `get_ipython()`, a stub in the judge. Lines keep
    their numbers."""
    source = source.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    head = _CELL_MAGIC.match(source)
    if head:  # one that runs the rest in the notebook's namespace is a blank line; any other one (%%bash) is the whole cell
        source = "\n" * head[0].count("\n") + source[head.end() :] if head[1] in _RUNS_THE_CELL else ""
    return source if _parses(source) else _without_magics(source)


def _without_magics(source: str) -> str:
    from IPython.core.inputtransformer2 import TransformerManager

    blank = len(source) - len(source.lstrip("\n"))  # IPython drops these, and the line numbers with them
    try:
        plain = "\n" * blank + TransformerManager().transform_cell(source)
    except Exception:  # it raises whatever the damage leads to
        plain = ""
    if plain and _parses(plain):
        return _WHOLE_LINE.sub("", plain).rstrip("\n")
    return "\n".join("" if line.lstrip().startswith(("%", "!")) else line for line in source.split("\n"))


def _parses(source: str) -> bool:
    try:
        ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


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
