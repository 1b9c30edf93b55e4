"""What the notebook promises: after a restart, the first cell and one's own ones are enough to go on with any section, save where
an exercise mends code that it was given (`given-...`), and says so."""

import linecache
import re
from pathlib import Path

import nbformat
import pytest

from course_lib.exercises import PHASES, exercises_of

NOTEBOOKS = [path for p in PHASES if (path := Path(__file__).parents[2] / "solutions" / p.name / f"{p.name}.ipynb").exists()]


def own_cells(path):
    """Sources of the first cell and of the solution cells, without the calls that show or check something."""
    for cell in nbformat.read(path, as_version=4).cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id", "")
        if name == "setup" or re.fullmatch(r"ex-\d-\d+(-[a-z])?|given-\d-\d+", name):
            yield name, cell.source


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_the_solution_cells_need_the_first_cell_and_each_other_only(path):
    names, space = [], {"__name__": "notebook"}
    for name, source in own_cells(path):
        source = source.replace("lab.start(", "#lab.start(")
        linecache.cache[f"<{name}>"] = (len(source), None, source.splitlines(keepends=True), f"<{name}>")  # Triton reads it
        exec(compile(source, f"<{name}>", "exec"), space)
        names.append(name)
    assert names[0] == "setup"
    assert len(names) > len(exercises_of(int(path.stem.removeprefix("phase")[0])))
