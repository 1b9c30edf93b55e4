"""`labs check`: a notebook file is judged and recorded, and what cannot be judged is said in a sentence."""

import json

import pytest

from course_lib.course.check import CheckError, check_notebook
from course_lib.course.progress import summary
from tests.notebooks.classroom import PHASE, ROOT, read

SOLVED = ROOT / "solutions" / PHASE / f"{PHASE}.ipynb"
RELEASED = ROOT / "labs" / PHASE / f"{PHASE}.ipynb"


def test_a_solved_exercise_is_judged_and_recorded():
    (check, message), (timed, _) = check_notebook(SOLVED, ["1.1"])
    assert (check.score, check.max_points, check.state, message) == (4.0, 4.0, "done", "")
    assert (timed.cell, timed.max_points) == ("timed", 1.0)
    assert summary().phases[0].points >= 4.0


def test_an_open_exercise_is_open():
    verdicts = [verdict for verdict, _ in check_notebook(RELEASED, ["1.1"])]
    assert [(v.state, v.score) for v in verdicts] == [("open", 0.0), ("open", 0.0)]
    assert verdicts[0].note.startswith("1.1: ridge_points(")


def test_every_exercise_of_a_notebook_is_judged_by_default(monkeypatch):
    from course_lib.course import check
    from course_lib.course.judge import judgeable

    def not_judged(notebook, known, cell):
        from course_lib.grading.judging import refused

        return refused(known, cell, "not judged here")

    monkeypatch.setattr(check, "judge", not_judged)
    found = [(verdict.exercise, verdict.cell) for verdict, _ in check_notebook(SOLVED, [])]
    assert found == [(e.id, cell) for e, cell in judgeable(read(SOLVED))]
    assert ("1.1", "check") in found


@pytest.mark.parametrize(("exercises", "said"), [
    (["9.9"], "there is no exercise '9.9'; the course has 1.1"),
    (["1.1", "nonsense"], "there is no exercise 'nonsense'"),
])  # fmt: skip
def test_an_unknown_exercise_is_answered_with_the_known_ones(exercises, said):
    with pytest.raises(CheckError, match=said):
        list(check_notebook(SOLVED, exercises))


def test_an_exercise_that_the_notebook_lacks_is_named(tmp_path):
    import nbformat

    nbformat.write(nbformat.v4.new_notebook(), tmp_path / "empty.ipynb")
    with pytest.raises(CheckError, match=r"holds no cell of 1\.1; open a lab from labs start"):
        list(check_notebook(tmp_path / "empty.ipynb", ["1.1"]))
    with pytest.raises(CheckError, match="holds no check that this course knows"):
        list(check_notebook(tmp_path / "empty.ipynb", []))


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b"\xff\xfe", b'{"cells": 3}', b'{"nbformat": 4, "nbformat_minor": 5}'])
def test_a_file_that_is_no_notebook_is_said_to_be_none(tmp_path, data):
    (tmp_path / "lab.ipynb").write_bytes(data)
    with pytest.raises(CheckError, match=r"lab\.ipynb"):
        list(check_notebook(tmp_path / "lab.ipynb", []))


@pytest.mark.parametrize(("part", "value"), [("cell_type", "sql"), ("metadata", None), ("source", 3)])
def test_a_broken_cell_is_named_by_its_place(tmp_path, part, value):
    notebook = read(RELEASED)
    notebook.cells[1][part] = value
    (tmp_path / "lab.ipynb").write_text(json.dumps(notebook))
    with pytest.raises(CheckError, match=r"lab\.ipynb"):
        list(check_notebook(tmp_path / "lab.ipynb", []))


def test_a_missing_file_and_a_folder_are_said_to_be_so(tmp_path):
    with pytest.raises(CheckError, match="there is no file"):
        list(check_notebook(tmp_path / "lab.ipynb", []))
    with pytest.raises(CheckError, match="cannot be read"):
        list(check_notebook(tmp_path, []))


def test_the_result_goes_to_the_copy_that_the_notebook_lies_in_wherever_it_is_called(tmp_path, monkeypatch):
    copy = tmp_path / "somewhere" / "llm-inference-work"
    (copy / ".course").mkdir(parents=True)
    (copy / PHASE).mkdir()
    notebook = copy / PHASE / SOLVED.name
    notebook.write_bytes(SOLVED.read_bytes())
    monkeypatch.delenv("COURSE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    assert all(message == "" for _, message in check_notebook(notebook, ["1.1"]))
    assert (copy / ".course" / "progress.db").exists()
    assert not (tmp_path / "home").exists()
    monkeypatch.chdir(copy)
    assert summary().phases[0].points == 4.0
