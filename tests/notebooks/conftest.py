"""One class, graded once for all tests that look at it: what was handed in stands in `the_class.py`."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from course_lib.course.grade import Row, open_gradebook
from course_lib.course.grade_command import grade_folder

from .classroom import PHASE
from .small_course import planted, write_course
from .the_class import STUDENTS


@dataclass(frozen=True)
class GradedClass:
    root: Path
    where: Path
    rows: dict[str, Row]
    csv: Path

    def autograded(self, student: str) -> Path:
        return self.where / "autograded" / student / PHASE / f"{PHASE}.ipynb"

    def feedback(self, student: str) -> str:
        return (self.where / "feedback" / student / PHASE / f"{PHASE}.html").read_text(encoding="utf-8")

    def gradebook(self):
        return open_gradebook(self.where)


@pytest.fixture(scope="session")
def graded_class(tmp_path_factory) -> GradedClass:
    """Every student of the class, graded in one go as `labs grade --feedback --export` does."""
    root = tmp_path_factory.mktemp("class")
    where, csv = root / "grading", root / "grades.csv"
    with planted(), pytest.MonkeyPatch.context() as patch:
        patch.delenv("COURSE_RUN_ID", raising=False)
        write_course(root)
        for name, student in STUDENTS.items():
            student.hand_in(root, name)
        rows = grade_folder(root, where, 1, "*", True, csv)
    return GradedClass(root, where, {row.student: row for row in rows}, csv)
