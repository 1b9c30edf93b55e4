"""A page is made of a run that earned every point on one device, and its pictures carry their texts."""

import base64
import sys
from pathlib import Path

import nbformat
import pytest
from bs4 import BeautifulSoup

from course_lib.grading.outcome import Kind, Outcome, State
from course_lib.grading.verdict import MIME, Verdict

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
import publish_page

H200 = {"device": "NVIDIA H200"}
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def output(data, **metadata):
    return nbformat.v4.new_output("display_data", data, metadata=metadata)


def graded(cell, most, *outcomes):
    """A grade cell worth `most` points, and the verdict on it, unless it shows none."""
    made = nbformat.v4.new_code_cell(
        "lab.check(...)", id=f"ex-1-1-{cell}", metadata={"nbgrader": {"grade": True, "points": most}}
    )
    if outcomes:
        made.outputs = [output({MIME: Verdict("1.1", cell, outcomes).to_json(), "text/plain": "1.0"})]
    return made


def outcome(state, points, most, evidence=()):
    return Outcome("name", Kind.TIMED, "a claim", state, points, most, evidence=dict(evidence))


def notebook(*cells):
    ran = {"papermill": {"end_time": "2026-11-29T22:40:00+00:00"}, "course": {"lab_version": "0.1.0"}}
    return nbformat.v4.new_notebook(cells=list(cells), metadata=ran)


RIGHT = graded("check", 4, outcome(State.PASSED, 4, 4))
TIMED = graded("timed", 1, outcome(State.PASSED, 1, 1, H200))


def picture(text):
    return nbformat.v4.new_code_cell("figure()", outputs=[output({"image/png": PIXEL}, **{"image/png": {"alt": text}})])


def test_the_page_says_where_and_when_it_ran_and_pictures_get_their_texts():
    assert base64.b64decode(PIXEL).startswith(b"\x89PNG")
    page = BeautifulSoup(publish_page.page(notebook(RIGHT, picture("a roof"), TIMED, picture("a <curve>"))), "html.parser")
    top = page.select_one(".jp-Cell").get_text()
    for words in ("version 0.1.0", "on one NVIDIA H200 on 2026-11-29", "5 of 5 points"):
        assert words in top
    assert [image["alt"] for image in page.select(".jp-OutputArea-output img")] == ["a roof", "a <curve>"]


@pytest.mark.parametrize(("cells", "says"), [
    ([graded("check", 4, outcome(State.FAILED, 3, 4)), TIMED], "4 of 5 points, short in 1.1"),
    ([RIGHT, graded("timed", 1, outcome(State.BLOCKED, 0, 1))], "4 of 5 points, short in 1.1"),
    ([graded("check", 4), TIMED], "1 of 5 points, short in check cells that show no verdict"),
    ([], "0 of 0 points"),
    ([RIGHT], "timed on no device"),
    ([graded("check", 4, outcome(State.PASSED, 4, 4, {"device": "NVIDIA A10"})), TIMED], "'NVIDIA A10', 'NVIDIA H200'"),
    ([RIGHT, TIMED, picture("")], "1 pictures on the page, 0 texts for 1 of them"),
], ids=["failed", "waiting", "no verdict", "nothing graded", "no device", "two devices", "no text"])  # fmt: skip
def test_a_run_that_shows_less_than_all_is_refused(cells, says):
    with pytest.raises(ValueError, match=says):
        publish_page.page(notebook(*cells))
