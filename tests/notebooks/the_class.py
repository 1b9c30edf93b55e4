"""The class: what each student hands in, and what it must earn, worked out by hand.

Exercise 1.1 has 5 points: 2 for the data sheet, 1 for any table, 1 for missing precisions; 1 is measured on a GPU and waits here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import nbformat

from .classroom import (
    HEAD,
    RIGHT,
    answer,
    cell,
    delete,
    extra_cells,
    folder_of,
    forged_full_marks,
    hand_in,
    place,
    source,
)


@dataclass(frozen=True)
class Student:
    """`score` None: no grade at all, and the status says why."""

    hand_in: Callable[[Path, str], object]
    score: float | None
    waiting: float
    status: str


def _changed(*changes, start="solutions"):
    return partial(_hand_in, changes, start)


def _hand_in(changes, start, root, student):
    return hand_in(root, student, *changes, start=start)


def _full(*changes):
    return Student(_changed(*changes), 4.0, 1.0, "graded, points waiting")


def _nothing(*changes, start="solutions", status="graded"):
    return Student(_changed(*changes, start=start), 0.0, 0.0, status)


def _malformed(make):
    return Student(make, None, 0.0, "malformed")


NOISY = """
    import logging, sys, warnings
    warnings.warn("the table looks odd")
    logging.getLogger().warning("from the root logger")
    logging.error("and an error")
    print("to stderr", file=sys.stderr)
    for step in range(100):
        sys.stderr.write(f"\\r{step:3d}% |{'#' * (step // 10):<10}|")
    print("to stdout")
"""
FLOOD = "for part in range(100): print('a line\\n' * 10_000)"  # a million lines
LONG_LINE = "print('x' * 50_000_000)"
LONG_VALUE = "'y' * 50_000_000"
LONG_ERROR = "raise ValueError('z' * 5_000_000)"
ASKS = ("name = input('name?')", "breakpoint()", "import getpass; getpass.getpass()", "%debug", "import sys; sys.exit()")


def _renamed(root, student):
    path = hand_in(root, student)
    path.rename(path.with_name("phase1_roofline (1).ipynb"))


def _no_json(root, student):
    path = hand_in(root, student)
    path.write_text(path.read_text(encoding="utf-8")[:-50], encoding="utf-8")


def _without_metadata(notebook):
    notebook.metadata = {}
    for each in notebook.cells:
        each.metadata = {}


def _copied_cell(notebook):
    notebook.cells.insert(place(notebook, "ex-1-1"), dict(cell(notebook, "ex-1-1")) | {"id": "a-copy"})


def _crlf(root, student):
    """A copy that went through Windows: line ends of the file and of every source, the old Mac's in one of them."""

    def change(notebook):
        for each in notebook.cells:
            each.source = each.source.replace("\n", "\r\n")
        cell(notebook, "ex-1-1-check").source = "\r" + cell(notebook, "ex-1-1-check").source

    path = hand_in(root, student, change)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))


def _as_markdown(notebook):
    """The answer's cell was turned into markdown by a slip of the keyboard."""
    turned = cell(notebook, "ex-1-1")
    turned.cell_type = "markdown"
    del turned["outputs"], turned["execution_count"]


def _from_elsewhere(notebook):
    """An older version of the lab, with the kernel of somebody's conda environment."""
    notebook.metadata["kernelspec"] = {"display_name": "Python [conda env:thesis]", "language": "python", "name": "thesis"}
    notebook.metadata["course"]["lab_version"] = "0.0.1+0ldc0de5"


def _ids_of_elsewhere(notebook):
    """Cells with ids that this version does not have, and a check that says it is none."""
    mine = {"grade": True, "solution": False, "locked": True, "points": 4, "schema_version": 3}
    for nbgrader in ({"grade_id": "my-own"}, {}, mine | {"grade_id": "ex-1-9"}):
        notebook.cells.insert(2, nbformat.v4.new_code_cell("1", metadata={"nbgrader": nbgrader}))
    cell(notebook, "ex-1-1-check").metadata["nbgrader"] |= {"grade": False, "points": "many", "schema_version": 99}
    for each in notebook.cells:
        each.pop("outputs", None)


ONLY_FLOAT64 = "    return (peak_tflops * 1e3 / hbm_gb_per_s[:, None]).double()\n"  # float32 inputs lose their digits

STUDENTS = {
    "solved": _full(),
    "Curie, Marie": Student(_crlf, 4.0, 1.0, "graded, points waiting"),
    "untouched": _nothing(start="labs"),
    "half-wrong": Student(_changed(answer(ONLY_FLOAT64)), 3.0, 1.0, "graded, points waiting"),
    "syntax-error": _nothing(source("ex-1-1", HEAD + "    return peak_tflops *\n")),
    "undefined": _nothing(source("ex-1-1", HEAD.replace("ridge_points", "ridge") + RIGHT)),
    "solution-deleted": _nothing(delete("ex-1-1")),
    "dies": _nothing(answer("    import os\n    os._exit(0)\n"), status="graded, kernel died"),
    "dies-elsewhere": Student(_changed(extra_cells("import os; os._exit(1)")), 4.0, 1.0, "graded, kernel died"),
    "all-but-the-answer-deleted": _full(delete("setup", "ex-1-1-check", "ex-1-1-timed")),
    "forged": _nothing(
        forged_full_marks, source("ex-1-1-check", "4.0"), source("ex-1-1-timed", "1.0"), start="labs"
    ),
    "flood": _full(
        extra_cells(FLOOD, LONG_LINE, LONG_VALUE, LONG_ERROR), answer(NOISY + "    print('x' * 10_000_000)\n" + RIGHT)
    ),
    "shadows": _full(extra_cells("torch = None; np = 1; sum = max; range = list", before="ex-1-1-check")),
    "from-elsewhere": _full(_from_elsewhere, _as_markdown, extra_cells(*ASKS), _ids_of_elsewhere),
    "copied-cell": _malformed(_changed(_copied_cell)),
    "renamed": _malformed(_renamed),
    "no-json": _malformed(_no_json),
    "without-metadata": _malformed(_changed(_without_metadata)),
    "empty-folder": _malformed(folder_of),
}
