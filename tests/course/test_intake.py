"""What is said about a submission before anything of it runs: every kind of damage has a sentence with a cure."""

import json

import pytest

from course_lib.course import intake
from course_lib.course.intake import inspect_submission
from course_lib.exercises import PHASES, exercises_of
from tests.notebooks.classroom import PHASE, ROOT, cell, read

LAB = ROOT / "labs" / PHASE / f"{PHASE}.ipynb"


def _said(tmp_path, data: bytes) -> str:
    (tmp_path / f"{PHASE}.ipynb").write_bytes(data)
    return inspect_submission(tmp_path, PHASE)


def _changed(tmp_path, change) -> str:
    notebook = read(LAB)
    change(notebook)
    return _said(tmp_path, json.dumps(notebook).encode())


@pytest.mark.parametrize("phase", [p.name for p in PHASES if exercises_of(p.number)])
@pytest.mark.parametrize("folder", ["labs", "solutions"])
def test_the_course_s_own_notebooks_are_taken(phase, folder):
    assert inspect_submission(ROOT / folder / phase, phase) == ""


DAMAGED = {
    "empty": (b"", "is no valid notebook"),
    "not utf-8": (LAB.read_bytes().replace(b"roofline", b"roof\xffline", 1), "is no valid notebook"),
    "cut off": (LAB.read_bytes()[:3000], "is no valid notebook"),
    "nested too deep": (b"[" * 200_000, "is no valid notebook"),
    "a list": (b"[]", "has no list of cells"),
    "no cells": (b'{"cells": 3}', "has no list of cells"),
    "a cell that is text": (b'{"cells": ["x = 1"]}', "has no list of cells"),
    "of version 3": (b'{"worksheets": [{"cells": []}]}', "has no list of cells"),
    "no cell of ours": (b'{"cells": []}', "carries none of the cells ex-1-1"),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_file_is_named_with_a_cure(tmp_path, damage):
    data, said = DAMAGED[damage]
    sentence = _said(tmp_path, data)
    assert sentence.startswith(f"{PHASE}.ipynb ")
    assert said in sentence
    assert any(cure in sentence for cure in ("hand it in again", "fresh copy"))


BROKEN_CELLS = {
    "cell_type": ("sql", "is of type 'sql'"),
    "metadata": (None, "has no metadata"),
    "source": ([1, 2], "has no readable source"),
}


@pytest.mark.parametrize("part", BROKEN_CELLS)
def test_a_broken_cell_is_named_by_its_place(tmp_path, part):
    value, said = BROKEN_CELLS[part]
    sentence = _changed(tmp_path, lambda notebook: notebook.cells[2].update({part: value}))
    assert f"cell 3 {said}; take a fresh copy" in sentence


@pytest.mark.parametrize("copied", ["setup", "ex-1-1", "ex-1-1-check", "ex-1-1-timed"])
def test_every_copied_cell_is_named(tmp_path, copied):
    sentence = _changed(tmp_path, lambda notebook: notebook.cells.append(cell(notebook, copied)))
    assert f"holds the cell {copied} more than once (a copy?); delete the copy" in sentence


def test_a_deleted_answer_is_no_damage(tmp_path):
    assert _changed(tmp_path, lambda notebook: notebook.cells.remove(cell(notebook, "ex-1-1"))) == ""


def test_a_source_may_be_a_list_of_lines(tmp_path):
    def change(notebook):
        for each in notebook.cells:
            each.source = each.source.splitlines(keepends=True)

    assert _changed(tmp_path, change) == ""


def test_a_file_beyond_the_limit_is_not_even_read(tmp_path, monkeypatch):
    monkeypatch.setattr(intake, "MAX_BYTES", 2 * 2**20)
    assert "is 3 MiB, the limit is 2 MiB; clear its outputs" in _said(tmp_path, b"x" * (3 * 2**20))


def test_a_missing_notebook_names_those_that_are_there(tmp_path):
    assert "there is no notebook; hand in the lab" in inspect_submission(tmp_path, PHASE)
    (tmp_path / "lab (1).ipynb").write_bytes(LAB.read_bytes())
    (tmp_path / "notes.txt").write_text("x")
    assert f"expected a file named {PHASE}.ipynb, found lab (1).ipynb; rename it" in inspect_submission(tmp_path, PHASE)
