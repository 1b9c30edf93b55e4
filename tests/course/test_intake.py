"""What is said about a submission before anything of it runs: every kind of damage has a sentence with a cure."""

import json

import pytest

from course_lib.course import intake
from course_lib.course.intake import fault_of_name, inspect_submission
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


@pytest.mark.parametrize("nbgrader", ["x", [], None, {"grade_id": [1]}, {"grade_id": None, "grade": True}, {"grade": True}])
def test_an_id_of_no_kind_is_named_by_its_cell(tmp_path, nbgrader):
    sentence = _changed(tmp_path, lambda notebook: notebook.cells[1].metadata.update(nbgrader=nbgrader))
    assert "cell 2 has nbgrader metadata " in sentence
    assert "take a fresh copy" in sentence


def _nested(levels):
    return {"inner": _nested(levels - 1)} if levels else {}


INVALID = {
    "metadata": (lambda n: n.update(metadata=[]), "no valid notebook (metadata: [] is not of type 'object')"),
    "kernelspec": (lambda n: n.metadata.update(kernelspec=None), "metadata.kernelspec: None is not of type 'object'"),
    "outputs": (lambda n: cell(n, "ex-1-1").update(outputs="text"), "outputs: 'text' is not of type 'array'"),
    "attachments": (lambda n: n.cells[0].update(attachments=[]), "cells.1.attachments: [] is not of type 'object'"),
    "tags": (lambda n: n.cells[0].metadata.update(tags=3), "cells.1.metadata.tags: 3 is not of type 'array'"),
    "cell id": (lambda n: n.cells[0].update(id="a b"), "cells.1.id: 'a b' does not match"),
    "minor version": (lambda n: n.update(nbformat_minor="5"), "no valid notebook (AssertionError)"),
    "version": (lambda n: n.update(nbformat=5), "is of notebook format 5, this course reads 4"),
    "half a character": (lambda n: n.cells[0].update(source="\ud800"), "holds half a character (\\ud800)"),
    "depth": (lambda n: n.cells[0].metadata.update(x=_nested(120)), "nests lists and objects more than 100 deep"),
}


@pytest.mark.parametrize("part", INVALID)
def test_what_would_stop_nbgrader_in_the_middle_is_named_with_a_cure(tmp_path, part):
    change, said = INVALID[part]
    sentence = _changed(tmp_path, change)
    assert sentence.startswith(f"{PHASE}.ipynb ")
    assert said in sentence
    assert "take a fresh copy" in sentence


HARMLESS = {
    "no outputs": lambda n: [each.pop(key, None) for each in n.cells for key in ("outputs", "execution_count")],
    "no cell ids": lambda n: [each.pop("id") for each in n.cells],
    "a kernel without a name": lambda n: n.metadata.update(kernelspec={}, language_info={}),
    "keys of another program": lambda n: (n.update(colab=1), cell(n, "ex-1-1").update(colab=[])),
    "an unknown id": lambda n: n.cells[0].metadata.update(nbgrader={"grade_id": "my-own"}),
    "odd points": lambda n: cell(n, "ex-1-1-check").metadata.nbgrader.update(points="many", schema_version=99),
    "a newer minor version": lambda n: n.update(nbformat_minor=9),
}


@pytest.mark.parametrize("part", HARMLESS)
def test_what_grading_mends_is_no_damage(tmp_path, part):
    assert _changed(tmp_path, HARMLESS[part]) == ""


@pytest.mark.parametrize(("text", "good"), [
    ("2026-01-31 23:59:00 UTC\n", True), ("", True), ("yesterday", False), ("9" * 60, False), ("a b c", False),
])  # fmt: skip
def test_a_time_that_nbgrader_cannot_read_is_told_before_it_tries(tmp_path, text, good):
    (tmp_path / "timestamp.txt").write_text(text)
    sentence = _said(tmp_path, LAB.read_bytes())
    assert sentence == ("" if good else "timestamp.txt holds no time such as 2026-01-31 23:59:00 UTC; correct or delete it")


@pytest.mark.parametrize("name", ["anna", "Curie, Marie", "O'Brien", "(x)+y", "100%", "山田　太郎", "=1"])
def test_a_student_may_have_any_name_that_nbgrader_takes(name):
    assert fault_of_name(name) == ""


@pytest.mark.parametrize(("name", "said"), [
    ("a[1]", "holds [ ];"), ("x?", "holds ?;"), ("new\nline", "holds \\n;"), ("caf\udce9", "holds \\xe9;"),
    ("a ", "ends with a space;"),
])  # fmt: skip
def test_a_name_that_nbgrader_takes_for_something_else_is_refused(name, said):
    assert f"{said} rename it to the student's id" in fault_of_name(name)


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
    (tmp_path / "caf\udce9.ipynb").write_text("x")
    assert "found caf\\xe9.ipynb, lab (1).ipynb; rename it" in inspect_submission(tmp_path, PHASE)
