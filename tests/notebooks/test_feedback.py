"""Feedback pages: what waits stands at the top, why points were lost is said, and the answer is not given away."""

import re
from html import unescape

import pytest

from .classroom import cell, read
from .small_course import released, solved
from .the_class import STUDENTS

GRADED = [name for name, student in STUDENTS.items() if student.score is not None]


def _visible(page: str) -> str:
    body = page[page.index("<body") :]
    return unescape(re.sub(r"<[^>]+>", "", re.sub(r"<(style|script).*?</\1>", "", body, flags=re.DOTALL)))


@pytest.fixture(scope="module")
def secret_lines(graded_class) -> list[str]:
    """The lines of the reference solution that a stub does not have."""
    stub, lines = (
        {line.strip() for line in cell(read(path(graded_class.root)), "ex-1-1").source.splitlines()}
        for path in (released, solved)
    )
    secret = sorted(line for line in lines - stub if len(line) >= 20 and "SOLUTION" not in line)
    assert len(secret) == 2
    return secret


@pytest.mark.parametrize("name", GRADED)
def test_a_page_says_at_its_top_how_many_points_wait_and_only_then(graded_class, name):
    text = _visible(graded_class.feedback(name))
    said = text.find("1 point waits for a GPU.")
    if not STUDENTS[name].waiting:
        assert said == -1
    else:
        assert 0 <= said < text.index("A small course")
        assert "exercise 1.1: 1 (needs a CUDA device, and this machine shows none)" in text


@pytest.mark.parametrize("name", ["untouched", "forged", "solution-deleted", "undefined"])
def test_a_page_does_not_give_the_solution_away(graded_class, secret_lines, name):
    page = unescape(re.sub(r"</?span[^>]*>", "", graded_class.feedback(name)))
    assert [line for line in secret_lines if line in page] == []


def test_the_search_for_the_solution_finds_it_where_it_is(graded_class, secret_lines):
    page = unescape(re.sub(r"</?span[^>]*>", "", graded_class.feedback("solved")))
    assert [line for line in secret_lines if line in page] == secret_lines


def test_a_page_shows_the_first_wrong_value_of_a_wrong_answer(graded_class):
    text = _visible(graded_class.feedback("half-wrong"))
    assert re.search(r"case 'float32 inputs': \d+ of 15 values differ .* first at \[0, \d\]: got [\d.]+, expected", text)


def test_a_malformed_submission_has_no_page(graded_class):
    assert not (graded_class.where / "feedback" / "no-json").exists()
