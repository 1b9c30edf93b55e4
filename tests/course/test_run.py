"""`labs run`: the solved course executes with papermill, is graded in full, and a notebook that misbehaves fails it."""

import shutil

import pytest

from course_lib.course import run as run_module
from course_lib.course.environment import environment
from course_lib.course.grade import Row
from course_lib.course.live import check_live
from course_lib.course.nbgrader_steps.outputs import verdicts_of
from course_lib.course.progress import record
from course_lib.course.run import available, run, summary_of_run
from course_lib.exercises import PHASES, exercises_of
from tests.exercises.answers import RIGHT
from tests.notebooks.classroom import ROOT, read
from tests.notebooks.small_course import FIRST, SETUP, planted, write_course


def test_the_whole_course_runs_and_earns_every_point_that_does_not_wait(tmp_path):
    shutil.copytree(ROOT / "solutions", tmp_path / "solutions")
    phases = available(tmp_path)
    report = run(tmp_path, phases)
    assert report.failures == []
    for phase, row in zip(phases, report.rows, strict=True):
        points = sum(e.points() for e in exercises_of(phase.number))
        verdicts = verdicts_of(read(tmp_path / "run" / "executed" / f"{phase.name}.ipynb"))
        assert sum(v.score for v in verdicts) == row.score
        assert row.max_score == points == row.score + row.waiting_points
        assert summary_of_run(tmp_path).phases[phase.number - 1].points == row.score
    assert phases[0] == PHASES[0]
    assert (tmp_path / "run" / "grading" / "feedback" / "solved" / phases[0].name / f"{phases[0].name}.html").exists()


BAD = {
    "1 / 0": "ZeroDivisionError: division by zero in the cell",
    "import sys; print('UsageError: no such magic', file=sys.stderr)": "wrote to stderr: UsageError: no such magic",
}


@pytest.mark.parametrize("source", BAD)
def test_a_solved_notebook_that_misbehaves_fails_the_run(tmp_path, source):
    with planted():
        write_course(tmp_path, SETUP + f"\n# %%\n{source}\n" + FIRST)
        report = run(tmp_path, [PHASES[0]])
    assert report.rows == []
    (failure,) = report.failures
    assert failure.startswith("phase1_roofline: ")
    assert BAD[source] in failure


@pytest.mark.parametrize(("score", "said"), [
    (3.0, ["phase1_roofline: 3.0 of 5 points, 1 waiting (graded)"]),
    (None, ["phase1_roofline: None of 5 points, 1 waiting (graded)"]),
    (4.0, []),
])  # fmt: skip
def test_a_solved_notebook_that_loses_points_fails_the_run(tmp_path, monkeypatch, score, said):
    row = Row("solved", PHASES[0].name, "graded", "", score, 5.0, 1.0)
    monkeypatch.setattr(run_module, "_execute", lambda *_: "")
    monkeypatch.setattr(run_module, "grade", lambda *_, **__: [row])
    assert run(tmp_path, [PHASES[0]]).failures == said


def test_a_run_shows_nothing_of_the_run_before(tmp_path, monkeypatch):
    with environment({"COURSE_HOME": str(tmp_path / "run")}):
        assert record(check_live("1.1", RIGHT["1.1"][0], seed=1), "grade") == ""
    assert summary_of_run(tmp_path).phases[0].points == 4.0
    monkeypatch.setattr(run_module, "_execute", lambda *_: "phase1_roofline: broken")
    monkeypatch.setattr(run_module, "grade", lambda *_, **__: [])
    assert run(tmp_path, [PHASES[0]]).failures == ["phase1_roofline: broken"]
    assert summary_of_run(tmp_path).phases[0].points == 0.0
