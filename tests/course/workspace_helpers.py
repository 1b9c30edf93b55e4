"""Small fake releases and learners for the tests of the learner's copy."""

import json
import os
from pathlib import Path

from course_lib.course import workspace

ANSWER = "ex-1-1"


def notebook(version: str = "0.1.0", **cells: str) -> bytes:
    """A notebook with one cell for each keyword (`_` stands for `-` in the id); ex-... cells are answers."""
    made = [
        {
            "cell_type": "code",
            "id": name.replace("_", "-"),
            "metadata": {"nbgrader": {"grade_id": name.replace("_", "-"), "solution": name.startswith("ex_")}},
            "source": source.splitlines(keepends=True),
            "outputs": [],
            "execution_count": None,
        }
        for name, source in cells.items()
    ]
    metadata = {"course": {"lab_version": version}}
    return json.dumps({"cells": made, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}).encode()


STUB = 'raise NotImplementedError("1.1: ridge")'
V1 = notebook("0.1.0", text="# Roofline", ex_1_1=STUB, ex_1_1_check="lab.check()")
V2 = notebook("0.2.0", text="# The roofline", ex_1_1=STUB, ex_1_1_check="lab.check()", ex_1_2="raise", note="new")
V3 = notebook("0.3.0", text="# The roofline, again", ex_1_1=STUB)
MINE = notebook("0.1.0", text="# Roofline", ex_1_1="answer = 42", ex_1_1_check="lab.check()")
LAB = "phase1_roofline/phase1_roofline.ipynb"


class Course:
    """A folder of released labs that a test changes as it likes."""

    def __init__(self, labs: Path):
        self.labs = labs
        labs.mkdir()

    def release(self, data: bytes, phase: str = "phase1_roofline") -> None:
        folder = self.labs / phase
        folder.mkdir(exist_ok=True)
        (folder / f"{phase}.ipynb").write_bytes(data)


def tree(work: Path, with_state: bool = False) -> dict[str, bytes]:
    """Every file of the copy with its bytes; without .git, and without .course unless asked."""
    found = {}
    for folder, folders, names in os.walk(work):
        folders[:] = [name for name in folders if name != ".git" and (with_state or name != ".course")]
        for name in names:
            path = Path(folder, name)
            found[path.relative_to(work).as_posix()] = path.read_bytes()
    return found


def backups(work: Path) -> list[bytes]:
    return [path.read_bytes() for path in (work / ".course" / "backups").rglob("*") if path.is_file()]


def started(course: Course, work: Path, data: bytes = V1) -> Path:
    course.release(data)
    workspace.start(work)
    return work
