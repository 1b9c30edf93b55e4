"""Build the notebooks: solutions/NAME.py -> solutions/NAME/NAME.ipynb -> labs/NAME/NAME.ipynb.

Everything is made in a temporary folder and moved into place when it is whole. The grade book is never touched.
"""

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat

from ..exercises import PHASES, Phase, exercises_of
from .nbgrader_steps.stubs import exercise_id, with_stubs
from .notebook_health import bad_outputs, foreign_syntax, name_of
from .notebook_source import NBVAL_TAG, read_notebook


class BuildError(RuntimeError):
    """An authored notebook that cannot be built; the message says which cell and what to change."""


@dataclass
class BuildReport:
    """Paths relative to the root: written or, with check, different from what is there."""

    changed: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)


def build(
    root: Path, *, execute: bool = False, check: bool = False, say: Callable[[str], None] = lambda _: None
) -> BuildReport:
    """Build every phase that has a source. Nothing is written unless all of them can be built.

    execute  run the solved notebook and store the outputs of the cells tagged nbval-check-output (otherwise kept from last time)
    check    write nothing; report what would change
    """
    report, made = BuildReport(), []
    for phase in PHASES:
        source = root / "solutions" / f"{phase.name}.py"
        if not source.exists():
            continue
        say(f"{phase.name}: building")
        solved = read_notebook(source, phase)
        _lint(solved, phase)
        solved_path = root / "solutions" / phase.name / f"{phase.name}.ipynb"
        if execute:
            say(f"{phase.name}: executing the solved notebook")
            _store_outputs(solved, executed(solved, root))
        else:
            _keep_outputs(solved, solved_path)
        released_path = root / "labs" / phase.name / f"{phase.name}.ipynb"
        made += [(solved_path, to_text(solved)), (released_path, to_text(release(solved, phase.name)))]
    for path, text in made:
        _put(path, text, root, check, report)
    return report


def to_text(notebook: Any) -> str:
    """The bytes of a notebook file: validated, stable key order, one newline at the end."""
    nbformat.validate(notebook)
    return nbformat.writes(notebook).rstrip("\n") + "\n"


def executed(notebook: Any, root: Path) -> Any:
    """A copy of the notebook, run in this environment in a folder of its own.

    Raises BuildError for the first cell that fails, and for cells that wrote to stderr: IPython only prints some errors.
    """
    from copy import deepcopy

    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    from .kernel import CourseKernelManager

    copy = deepcopy(notebook)
    with tempfile.TemporaryDirectory(prefix="course-build-") as folder:
        environment = os.environ | {"COURSE_HOME": folder, "PYTHONPATH": str(root)}
        client = NotebookClient(
            copy, timeout=600, kernel_manager_class=CourseKernelManager, resources={"metadata": {"path": folder}},
            coalesce_streams=True,  # how many pieces a text comes in is chance
        )  # fmt: skip
        try:
            client.execute(env=environment)
        except CellExecutionError as error:
            first = str(error.traceback).strip().splitlines()[-1]
            raise BuildError(f"the solved notebook does not run: {error.ename}: {error.evalue} ({first})") from error
    if wrong := bad_outputs(copy):
        raise BuildError("the solved notebook does not run cleanly: " + "; ".join(wrong))
    return copy


def release(solved: Any, name: str) -> Any:
    """The learner's notebook, made by nbgrader's generate_assignment with our steps and no grade book."""
    with tempfile.TemporaryDirectory(prefix="course-release-") as folder:
        _generate(Path(folder), to_text(solved), name, database=None)
        return nbformat.read(Path(folder, "labs", name, f"{name}.ipynb"), as_version=4)


def register_lab(solved_path: Path, name: str, database: str) -> str:
    """Enter a solved notebook's cells and points into a grade book -> "", or why it refuses. labs/ is not touched."""
    from nbgrader.converters.base import NbGraderException

    with tempfile.TemporaryDirectory(prefix="course-register-") as folder:
        try:
            _generate(Path(folder), solved_path.read_text(encoding="utf-8"), name, database)
        except (NbGraderException, RuntimeError) as error:
            return str(error) or type(error).__name__
    return ""


def _generate(folder: Path, text: str, name: str, database: str | None) -> None:
    from nbgrader.converters import GenerateAssignment
    from nbgrader.coursedir import CourseDirectory
    from traitlets.config import Config

    from .nbgrader_steps.config import configure

    path = folder / "solutions" / name / f"{name}.ipynb"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    config = Config()
    configure(config)
    if database is None:
        config.SaveCells.enabled = False
        config.GenerateAssignment.no_database = True
    else:
        config.CourseDirectory.db_url = database
    config.CourseDirectory.root = str(folder)
    config.CourseDirectory.assignment_id = name
    converter = GenerateAssignment(coursedir=CourseDirectory(config=config), config=config)
    converter.log.setLevel("ERROR")
    converter.start()


def _lint(notebook: Any, phase: Phase) -> None:
    """Every exercise of the phase stands in the notebook with all its cells, nothing else is graded, and stubs can be made."""
    have = {c.metadata.nbgrader.grade_id for c in notebook.cells if "nbgrader" in c.metadata}
    graded = {c.metadata.nbgrader.grade_id for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade")}
    want = {e.cell_id for e in exercises_of(phase.number)}
    want_graded = {e.grade_id(cell) for e in exercises_of(phase.number) for cell in e.cells}
    if missing := (want | want_graded) - have:
        raise BuildError(f"{phase.name} has no cell {', '.join(sorted(missing))}; add it to solutions/{phase.name}.py")
    if extra := graded - want_graded:
        raise BuildError(f"{phase.name} grades {', '.join(sorted(extra))}, which no exercise of phase {phase.number} has")
    if "setup" not in have:
        raise BuildError(f'{phase.name} has no cell grade_id="setup", which every notebook begins with')
    if foreign := foreign_syntax(notebook):
        raise BuildError(f"{phase.name}: " + "; ".join(foreign))
    for cell in notebook.cells:
        grade_id = cell.metadata.get("nbgrader", {}).get("grade_id", "")
        if (number := exercise_id(grade_id)) and cell.cell_type == "code":
            with_stubs(cell.source, number, grade_id)
        elif "BEGIN SOLUTION" in cell.source or "END SOLUTION" in cell.source:
            raise BuildError(f"{phase.name}: {name_of(cell)} marks a solution and is no solution cell; give it a grade_id")


def _checked_cells(notebook: Any) -> list[tuple[int, Any]]:
    """(execution count, cell) of the cells whose outputs are stored; the count is the place among the code cells."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [(n, cell) for n, cell in enumerate(code, start=1) if NBVAL_TAG in cell.metadata.get("tags", [])]


def _store_outputs(notebook: Any, ran: Any) -> None:
    by_id = {cell.id: cell for cell in ran.cells}
    for count, cell in _checked_cells(notebook):
        cell.outputs, cell.execution_count = by_id[cell.id].outputs, count


def _keep_outputs(notebook: Any, path: Path) -> None:
    old = {c.id: c for c in nbformat.read(path, as_version=4).cells} if path.exists() else {}
    for count, cell in _checked_cells(notebook):
        if cell.id not in old or not old[cell.id].outputs:
            raise BuildError(
                f"{path.name}: the cell '{cell.source.splitlines()[0][:60]}' is tagged {NBVAL_TAG} and has no stored output; "
                "run: labs build --execute"
            )
        cell.outputs, cell.execution_count = old[cell.id].outputs, count


def _put(path: Path, text: str, root: Path, check: bool, report: BuildReport) -> None:
    name = str(path.relative_to(root))
    if path.exists() and path.read_bytes() == text.encode():
        report.unchanged.append(name)
        return
    report.changed.append(name)
    if check:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    neighbour = path.parent.with_name(f".{path.name}.{os.getpid()}")  # the folder itself holds the notebook and nothing else
    try:
        neighbour.write_text(text, encoding="utf-8", newline="\n")
        os.replace(neighbour, path)
    finally:
        neighbour.unlink(missing_ok=True)
