"""What a notebook of ours must not do, though nothing raises: print an error, run a shell line, use a magic.

IPython prints "UsageError" for some magics and goes on, and `!false` fails in silence, so a cell with either can pass papermill
and nbval. The judge leaves such lines out as well. The notebooks of this course are plain Python.
"""

import ast
from collections.abc import Iterator
from typing import Any


def foreign_syntax(notebook: Any) -> list[str]:
    """A sentence for each code cell that is no plain Python: magics, shell lines, syntax errors."""
    return list(_foreign(notebook))


def bad_outputs(notebook: Any) -> list[str]:
    """A sentence for each executed cell that shows an error or wrote to stderr."""
    return [f"{name_of(cell)}: {what}" for cell in notebook.cells for what in _complaints(cell)]


def name_of(cell: Any) -> str:
    """A cell's grade id, or its first line, for a message."""
    grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
    first = next(iter(cell.source.splitlines()), "")
    return f"the cell {grade_id}" if grade_id else f"the cell that begins with '{first[:60]}'"


def _foreign(notebook: Any) -> Iterator[str]:
    from IPython.core.inputtransformer2 import TransformerManager

    for cell in notebook.cells:
        if cell.cell_type != "code" or not cell.source.strip():
            continue
        try:
            ast.parse(cell.source)
        except SyntaxError as error:
            line = [*cell.source.splitlines(), ""][(error.lineno or 1) - 1].strip()
            ipython = "get_ipython()" in TransformerManager().transform_cell(cell.source)
            why = "is IPython's, not Python's; write plain Python" if ipython else f"is a syntax error ({error.msg})"
            yield f"{name_of(cell)}: line {error.lineno}, '{line[:60]}', {why}"


def _complaints(cell: Any) -> Iterator[str]:
    for output in cell.get("outputs", []):
        if output.output_type == "error":
            yield f"{output.ename}: {output.evalue[:200]}"
        elif output.output_type == "stream" and output.name == "stderr":
            yield f"wrote to stderr: {output.text.strip()[:200]}"
