"""The course as a learner meets it: their own copy, JupyterLab in a browser, exercise 1.1 solved by hand.

With COURSE_SCREENSHOTS=<folder> there is a picture of every step; two of them, cut to their cells, are those in
docs/images (verdict.png and progress.png).
"""

import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from pathlib import Path

import nbformat
import pytest

from course_lib.exercises import exercises_of
from course_lib.grading.verdict import MIME

from .jupyter_server import jupyter_server
from .lab_browser import lab_browser

NOTEBOOK = "phase1_roofline/phase1_roofline.ipynb"
SIGNATURE = "def ridge_points(peak_tflops: torch.Tensor, hbm_gb_per_s: torch.Tensor) -> torch.Tensor:\n"
SOLVED = SIGNATURE + "    return 1e3 * peak_tflops.double() / hbm_gb_per_s.double()[:, None]"
WITHOUT_UNITS = SIGNATURE + "    return peak_tflops.double() / hbm_gb_per_s.double()[:, None]"
ENDLESS = SIGNATURE + "    open('looping', 'w').close()\n    while True:\n        pass"
PHASE_POINTS = sum(exercise.points() for exercise in exercises_of(1))
READABLE = 4.5  # WCAG AA for text


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """A fresh learner's copy, on a machine without a GPU."""
    copy = tmp_path / "work"
    monkeypatch.setenv("COURSE_HOME", str(copy))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    subprocess.run([sys.executable, "-m", "course_lib.cli", "start"], check=True, cwd=tmp_path, timeout=120)
    return copy


@contextmanager
def _in_jupyterlab(copy):
    """The notebook, opened as after `labs start --open`. -> (its page, the server)"""
    there = copy.parent
    exposed = ["--LabApp.expose_app_in_browser=True"]
    with lab_browser(_screenshots(), there / "failure.png") as lab:
        with jupyter_server(copy, there / "jupyter", exposed) as server:
            lab.open(server.address(NOTEBOOK))
            yield lab, server
            assert lab.errors == []  # in the browser's console


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_learner_opens_solves_and_checks_an_exercise_in_jupyterlab(copy):
    with _in_jupyterlab(copy) as (lab, server):
        _nbgrader_is_off(lab, server)
        _an_untouched_notebook_runs_to_its_end(lab)
        _a_right_answer_is_done_and_waits_for_a_gpu(lab)
        _a_wrong_answer_is_shown_where_it_is_wrong(lab)
        _everything_can_be_read_in_both_themes(lab)
        _an_endless_answer_is_interrupted(lab, copy / "phase1_roofline" / "looping")
        _try_again(lab)
        lab.save()
    _what_was_done_lies_in_the_copy(copy)
    with _in_jupyterlab(copy) as (lab, _):
        _a_saved_notebook_still_shows_progress(lab)


def _nbgrader_is_off(lab, server):
    """It is installed, and must be absent: its Validate button calls every partial score failed."""
    config = lab.page.evaluate("JSON.parse(document.getElementById('jupyter-config-data').textContent)")
    assert "@jupyter/nbgrader" in config["disabledExtensions"]
    assert "@jupyter/nbgrader" in [extension["name"] for extension in config["federated_extensions"]]
    commands = lab.page.evaluate("window.jupyterapp.commands.listCommands()")
    assert "notebook:run-all-cells" in commands
    words = " ".join([lab.page.locator(".jp-NotebookPanel").inner_text(), *commands]).lower()
    assert "validate" not in words
    assert "nbgrader" not in words
    who = {"Authorization": f"token {server.token}"}
    assert lab.page.request.get(f"{server.url}/api/status", headers=who).status == 200
    for page in ("formgrader", "formgraders", "assignments"):
        assert lab.page.request.get(f"{server.url}/{page}", headers=who).status == 404, page


def _an_untouched_notebook_runs_to_its_end(lab):
    lab.shot("opened")
    lab.run_all()
    assert lab.kernel_name() == "python3"
    assert lab.kernel_value("__import__('sys').prefix") == repr(sys.prefix)
    assert _troubles(lab) == []
    assert "Exercise 1.1: open, 0 of 4 points" in lab.seen("ex-1-1-check")
    assert "1.1: ridge_points" in lab.seen("ex-1-1-check")
    lab.shot("open")
    assert "Exercise 1.1 (timed part): open" in lab.seen("ex-1-1-timed")
    progress = _progress_cell(lab)
    assert "0 of 4 phases (0%)" in lab.seen(progress)
    assert f"0 of {PHASE_POINTS:g}" in lab.seen(progress)
    lab.shot("no-progress")


def _a_right_answer_is_done_and_waits_for_a_gpu(lab):
    _answer(lab, SOLVED)
    assert "Exercise 1.1: done, 4 of 4 points" in lab.seen("ex-1-1-check")
    lab.shot("done")
    lab.run("ex-1-1-timed")
    assert "timing waiting, 0 of 1 points, 1 waiting" in lab.seen("ex-1-1-timed")
    assert "needs a CUDA device" in lab.seen("ex-1-1-timed")
    lab.shot("timing-waits")
    lab.shot("verdict", "ex-1-1", "ex-1-1-timed")
    progress = _progress_cell(lab)
    assert f"0 of {PHASE_POINTS:g}" in lab.seen(progress)
    lab.cell(progress).get_by_role("button", name="Refresh").click()
    lab.cell(progress).get_by_text(f"4 of {PHASE_POINTS:g}", exact=True).first.wait_for()
    assert "0 of 4 phases (0%)" in lab.seen(progress)  # a phase whose timing waits is not complete
    assert "1 timing waiting" in lab.seen(progress)
    lab.cell(progress).get_by_text("Each exercise").click()
    lab.cell(progress).get_by_text("Ridge points").wait_for()
    assert "4 of 5 1 done, timing waiting" in lab.seen(progress)
    lab.shot("progress")
    lab.shot("readme-progress", progress)


def _a_wrong_answer_is_shown_where_it_is_wrong(lab):
    _answer(lab, WITHOUT_UNITS)
    seen = lab.seen("ex-1-1-check")
    assert "Exercise 1.1: not right yet, 0 of 4 points" in seen
    assert "first at [0, 0]: got" in seen
    assert "Every value is 0.001 times the right one." in seen
    lab.shot("wrong")
    lab.shot("readme-verdict", "ex-1-1", "ex-1-1-check")


def _an_endless_answer_is_interrupted(lab, looping):
    lab.write("ex-1-1", ENDLESS)
    lab.run("ex-1-1")
    lab.start("ex-1-1-check")
    _wait_for(looping)
    lab.interrupt()
    lab.cell("ex-1-1-check").get_by_text("was interrupted after").first.wait_for()
    assert _troubles(lab) == []
    lab.shot("interrupted")
    assert lab.kernel_value("6 * 7") == "42"


def _everything_can_be_read_in_both_themes(lab):
    """By now the verdict has red in it and a hint, the timed one amber, the progress its bars and states."""
    shown = {"ex-1-1-check": ".course-verdict", "ex-1-1-timed": ".course-verdict"}
    shown[_progress_cell(lab)] = ".jp-Cell-outputArea"
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        lab.theme(theme)
        for cell, inside in shown.items():
            assert lab.overlaps(cell, inside) == []
            assert lab.contrast(cell, inside) >= READABLE, f"{cell} in {theme}"
            lab.shot(f"{theme.split()[-1].lower()}-{cell}")


def _try_again(lab):
    _answer(lab, SOLVED)
    assert "Exercise 1.1: done, 4 of 4 points" in lab.seen("ex-1-1-check")
    assert _troubles(lab) == []


def _a_saved_notebook_still_shows_progress(lab):
    """As it was refreshed last: its kernel is gone, and nothing was run again."""
    progress = lab.cell(_progress_cell(lab))
    progress.get_by_text("0 of 4 phases (0%)").wait_for(timeout=30_000)
    assert f"4 of {PHASE_POINTS:g}" in lab.seen(_progress_cell(lab))
    lab.shot("opened-again")


def _what_was_done_lies_in_the_copy(copy):
    with closing(sqlite3.connect(copy / ".course" / "progress.db")) as database:
        wanted = "cell, source, state, score, waiting_points"
        events = database.execute(f"SELECT {wanted} FROM events WHERE exercise = '1.1' ORDER BY at")
        assert list(events) == [
            ("check", "live", "open", 0, 0),
            ("timed", "live", "open", 0, 0),
            ("check", "live", "done", 4, 0),
            ("timed", "live", "done, timing waiting", 0, 1),
            ("check", "live", "partial", 0, 0),
            ("check", "live", "partial", 0, 0),
            ("check", "live", "done", 4, 0),
        ]
    cells = {cell.id: cell for cell in nbformat.read(copy / NOTEBOOK, as_version=4).cells}
    assert cells["ex-1-1"].source == SOLVED
    assert cells["ex-1-1"].metadata.nbgrader.grade_id == "ex-1-1"
    assert cells["ex-1-1-check"].outputs[0].data[MIME]["state"] == "done"


def _answer(lab, source):
    """What a learner does for every try: edit, run, check."""
    lab.write("ex-1-1", source)
    lab.run("ex-1-1")
    lab.run("ex-1-1-check")


def _progress_cell(lab):
    (cell,) = [cell for cell in lab.outputs() if lab.source(cell).strip() == "lab.progress()"]
    return cell


def _troubles(lab):
    """Outputs that a learner would take for a fault: tracebacks, and anything on stderr."""
    return [
        (cell, output)
        for cell, outputs in lab.outputs().items()
        for output in outputs
        if output["output_type"] == "error" or output.get("name") == "stderr"
    ]


def _wait_for(file, seconds=10.0):
    end = time.monotonic() + seconds
    while not file.exists():
        assert time.monotonic() < end, f"{file} did not appear in {seconds:g} s"
        time.sleep(0.05)


def _screenshots():
    folder = os.environ.get("COURSE_SCREENSHOTS")
    if not folder:
        return None
    Path(folder).mkdir(parents=True, exist_ok=True)
    return Path(folder)
