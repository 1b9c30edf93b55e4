"""An instructor who uses nbgrader's own command, at the root of a repository, with the course's nbgrader_config.py."""

import csv
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from course_lib.course.grade import _nbgrader, open_gradebook, register

from .classroom import PHASE, ROOT, hand_in
from .small_course import planted, write_course


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    """A repository with the small course, whose class of one handed in the solved lab."""
    root = tmp_path_factory.mktemp("repository")
    with planted():
        write_course(root)
        hand_in(root, "anna")
        with _nbgrader(root, root / "grading"):
            register(root, root / "grading", PHASE)
    shutil.copy(ROOT / "nbgrader_config.py", root)
    return root


def _nbgrader_command(root: Path, *arguments: str) -> subprocess.CompletedProcess:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "nbgrader", *arguments]
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)


def _grades(root: Path) -> list[tuple]:
    with open_gradebook(root / "grading") as gradebook:
        grades = gradebook.find_submission(PHASE, "anna").notebooks[0].grades
        return sorted((grade.name, grade.auto_score, grade.needs_manual_grade) for grade in grades)


def test_no_execute_is_refused_and_leaves_no_score(root):
    ended = _nbgrader_command(root, "autograde", PHASE, "--no-execute")
    assert ended.returncode != 0
    assert "this notebook was not executed in this run (--no-execute?), so its outputs prove nothing" in ended.stderr
    assert [score for _, score, _ in _grades(root)] == [None, None]
    assert not (root / "grading" / "autograded" / "anna" / PHASE).exists()


def test_autograde_and_export_give_what_labs_grade_gives(root):
    ended = _nbgrader_command(root, "autograde", PHASE, "--force")
    assert ended.returncode == 0, ended.stderr
    assert _grades(root) == [("ex-1-1-check", 4.0, False), ("ex-1-1-timed", None, True)]

    ended = _nbgrader_command(root, "export", "--to", "table.csv")
    assert ended.returncode == 0, ended.stderr
    with open(root / "table.csv", newline="", encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert (row["student_id"], row["score"], row["waiting_points"]) == ("anna", "4.0", "1.0")
    assert (row["status"], row["max_score"]) == ("graded, points waiting", "5.0")
