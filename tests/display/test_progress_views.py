"""The views of progress: in HTML, as a widget, in a terminal, as a badge."""

import io
import re
import sys
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import pytest
from rich.console import Console

from course_lib import lab
from course_lib.course.progress_summary import ExerciseProgress, PhaseProgress, Summary
from course_lib.display.progress_badge import badge_svg
from course_lib.display.progress_table import _cells, rich_table
from course_lib.display.progress_widget import ProgressView, widget
from course_lib.display.progress_words import points_text, ratio_text, states_text
from course_lib.grading.outcome import ExerciseState

EVIL = """<script>alert("&'")</script>"""


def phase(number, *exercises, title="Roofs"):
    return PhaseProgress(number, f"phase{number}", title, exercises)


def of(id, state, points=0.0, most=4.0, waiting=0.0, ratio=None, title="A title"):
    return ExerciseProgress(id, title, state, points, most, waiting, ratio)


EMPTY = Summary(tuple(phase(n) for n in (1, 2, 3, 4)))
MIXED = Summary(
    (
        phase(1, of("1.1", ExerciseState.DONE, 4)),
        phase(2, of("2.1", ExerciseState.WAITING, 2, waiting=2, ratio=0.873), of("2.2", ExerciseState.DONE, 4)),
        phase(3, of("3.1", ExerciseState.PARTIAL, 3.333), of("3.2", ExerciseState.OPEN, title="Pack")),
        phase(4),
    ),
    ["Something is wrong: see /a/b."],
)


def in_terminal(summary, width=80, exercises=False, encoding="utf-8"):
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    Console(file=file, width=width).print(rich_table(summary, exercises))
    file.flush()
    return file.buffer.getvalue().decode(encoding)


class Texts(HTMLParser):
    """Collects the text and the tags; fails on a tag that is not closed."""

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.text = [], set(), ""
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data + " "


def in_html(summary):
    return Texts(ProgressView(summary).html()).text


def as_text(summary):
    return repr(ProgressView(summary))


@pytest.mark.parametrize("show", [as_text, in_terminal, in_html])
def test_every_view_begins_with_the_count_of_phases(show):
    assert show(EMPTY).strip().startswith("0 of 4 phases (0%)")
    assert show(MIXED).strip().startswith("1 of 4 phases (25%)")


def test_the_mime_bundle_holds_text_and_html():
    bundle = ProgressView(EMPTY)._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"}
    assert bundle["text/plain"].startswith("0 of 4 phases (0%)")


@pytest.mark.parametrize("show", [as_text, in_terminal, in_html])
def test_every_view_says_points_waiting_states_ratio_empty_phases_and_messages(show):
    seen = " ".join(show(MIXED).split())
    for words in ("4 of 4", "6 of 8", "3.33 of 8", "1 done, 1 timing waiting", "1 partial, 1 open", "0.87x",
                  "no exercises yet", "Something is wrong: see /a/b."):  # fmt: skip
        assert words in seen, words


@pytest.mark.parametrize("show", [as_text, in_terminal, in_html])
def test_the_note_on_waiting_points_stands_only_where_some_wait(show):
    assert "0 points" not in show(EMPTY)
    assert ("on the machine that checked them" in " ".join(show(MIXED).split())) == (show is not as_text)
    assert "on the machine that checked them" not in show(EMPTY)


def test_all_text_is_escaped_and_nothing_is_loaded_from_elsewhere():
    evil = Summary((phase(1, of(EVIL, ExerciseState.OPEN, title=EVIL), title=EVIL),), [EVIL])
    page = Texts(ProgressView(evil).html())
    assert "script" not in page.tags
    assert page.text.count("alert") == 4
    assert not re.search(r"https?:|src=|@import|url\(", ProgressView(evil).html())
    ElementTree.fromstring(badge_svg(evil, label=EVIL))


def test_the_html_needs_no_style_sheet_and_every_theme_colour_has_a_fallback():
    page = ProgressView(MIXED).html()
    assert not {"style", "link"} & Texts(page).tags
    assert page.count("var(--jp-") == len(re.findall(r"var\(--jp-[a-z0-9-]+, ", page)) > 20


def test_colour_is_never_the_only_sign_of_a_state():
    text = Texts(ProgressView(MIXED).html()).text
    for state in ("done, timing waiting", "partial", "open"):
        assert state in text


def test_the_terminal_lists_exercises_only_when_asked():
    assert "Pack" not in in_terminal(MIXED)
    assert re.search(r"3\.2 +Pack +0 of 4 +open", in_terminal(MIXED, exercises=True))


@pytest.mark.parametrize("width", [20, 40, 49, 50, 63, 64, 80, 200])
def test_no_line_is_wider_than_the_terminal_and_no_number_is_cut(width):
    shown = in_terminal(MIXED, width, exercises=width >= 60)
    assert max(map(len, shown.splitlines())) <= width
    assert "3.33 of 8" in " ".join(shown.split())


def test_a_terminal_without_unicode_gets_a_bar_of_plain_characters():
    shown = in_terminal(MIXED, encoding="ascii")
    assert "################" in shown
    assert "############====" in shown  # 6 of 8 points, 2 waiting


@pytest.mark.parametrize(
    ("earned", "waiting", "cells"),
    [(0, 0, (0, 0)), (1, 0, (16, 0)), (0.01, 0, (1, 0)), (0.99, 0, (15, 0)), (0.99, 0.01, (15, 1)), (0, 0.01, (0, 1)),
     (0, 1, (0, 16)), (0.5, 0.5, (8, 8)), (0.98, 0.005, (14, 1)), (0.5, 0.001, (8, 1))],
)  # fmt: skip
def test_a_bar_is_full_only_when_all_is_there_and_shows_the_least_that_waits(earned, waiting, cells):
    assert _cells(earned, waiting, 16) == cells


@pytest.mark.parametrize(("number", "text"), [(0, "0"), (2.0, "2"), (10, "10"), (3.3333, "3.33"), (12.5, "12.5"), (100, "100")])
def test_points_have_at_most_two_decimals_and_no_idle_zeros(number, text):
    assert points_text(number) == text


def test_ratios_and_states_in_words():
    assert (ratio_text(None), ratio_text(0.873), ratio_text(12)) == ("", "0.87x", "12.00x")
    assert states_text(phase(1)) == "no exercises yet"
    assert states_text(phase(1, of("1.1", ExerciseState.OPEN))) == "1 open"


def test_the_badge_is_an_image_with_its_words_and_a_colour_for_none_some_and_all():
    done = Summary((phase(1, of("1.1", ExerciseState.DONE, 4)),))
    colours = []
    for summary in (EMPTY, MIXED, done):
        root = ElementTree.fromstring(badge_svg(summary))
        assert root.get("aria-label") == f"progress: {summary.text}"
        assert [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")] == ["progress", summary.text]
        colours.append([r.get("fill") for r in root.iter("{http://www.w3.org/2000/svg}rect")][-1])
    assert len(set(colours)) == 3


def test_the_widget_shows_the_view_and_refresh_reads_again():
    summaries = iter([EMPTY, MIXED])
    shown = widget(lambda: next(summaries))
    body, button = shown.children
    assert "0 of 4 phases (0%)" in body.value
    button.click()
    assert "1 of 4 phases (25%)" in body.value


def test_a_front_end_without_widgets_shows_the_static_view_of_the_widget():
    bundle = widget(lambda: EMPTY)._repr_mimebundle_()
    assert bundle["text/plain"].startswith("0 of 4 phases (0%)")
    assert "no exercises yet" in bundle["text/html"]
    assert "application/vnd.jupyter.widget-view+json" in bundle


def test_without_ipywidgets_the_widget_is_the_static_view(monkeypatch):
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    assert isinstance(widget(lambda: EMPTY), ProgressView)


def test_without_an_argument_the_widget_shows_the_course(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_HOME", str(tmp_path / "home"))
    assert "0 of 4 phases (0%)" in lab.progress().children[0].value
    assert not (tmp_path / "home").exists()
