"""A claim on a page and in a terminal: the answer is folded away, a press of a button shows it, and no text breaks out."""

import dataclasses
import io
import re
from html.parser import HTMLParser

import pytest
from rich.console import Console

from course_lib import claims, lab
from course_lib.claims import Verdict
from course_lib.display import claim_card, front_end
from course_lib.display.claim_table import rich_claim, rich_table

ALLOWED = {"div", "span", "b", "code", "details", "summary", "table", "tbody", "tr", "th", "td"}  # JupyterLab keeps these


@pytest.fixture
def shown(monkeypatch):
    """What is displayed, in order; no guess is remembered from elsewhere."""
    outputs = []
    monkeypatch.setattr("IPython.display.display", lambda output, raw=False: outputs.append(output))
    monkeypatch.setattr(claim_card, "_guesses", {})
    return outputs


class _Page(HTMLParser):
    """Words outside and inside <details>, and all tags."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.folded, self.open, self._depth = set(), [], [], 0
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self._depth += tag == "details"

    def handle_endtag(self, tag):
        self._depth -= tag == "details"

    def handle_data(self, data):
        (self.folded if self._depth else self.open).append(data)


@pytest.mark.parametrize("one", claims.all_claims(), ids=lambda one: one.id)
def test_a_card_asks_first_and_folds_its_answer_away(one):
    page = _Page(claim_card.bundle(one)["text/html"])
    asked, folded = " ".join(page.open), " ".join(page.folded)
    assert one.claim_paraphrased in asked
    assert one.roadmap_says in asked
    for answer in (one.corrected_value, one.why, one.source):
        assert answer in folded
    assert re.search(rf"The verdict: \s*{one.verdict.replace('-', ' ')}", folded)
    assert one.why not in asked
    assert page.tags <= ALLOWED


def test_the_arithmetic_is_done_when_the_card_is_made():
    folded = " ".join(_Page(claim_card.bundle(claims.claim("C039"))["text/html"]).folded)
    assert "= 166.667, printed as 166.7" in folded
    assert "= 295.343, printed as 295.3" in folded


def test_arithmetic_that_fails_is_shown_as_failing():
    broken = dataclasses.replace(claims.claim("C039"), how_to_check="py: 1000/6 => 166.8 ; py: 9**9**9 => 1")
    text = claim_card.answer_text(broken)
    assert "✗       1000/6  = 166.667, printed as 166.8, which it does not round to" in text
    assert "has no value: the exponent in '9 ** 9 ** 9' is beyond 100" in text


def test_what_stands_in_a_claim_is_escaped():
    sly = dataclasses.replace(
        claims.claim("C050"), claim_paraphrased="<script>1</script>", why="<b onclick=x>", source="</details>"
    )
    page = _Page(claim_card.bundle(sly)["text/html"])
    assert "<script>1</script>" in " ".join(page.open)
    assert page.tags <= ALLOWED
    assert "</details>" in " ".join(page.folded)


def test_as_text_a_card_is_its_question_and_says_how_to_go_on(capsys):
    card = lab.predict("C039", "C073")
    assert "The ridge point of H100 is about 0.17 FLOP/byte." in repr(card)
    assert "labs claims --id C073" in repr(card)
    for word in ("295.3", "TX_BYTES"):
        assert word not in repr(card)
        assert word in card.answer
    assert capsys.readouterr() == ("", "")


def test_where_nobody_can_click_there_are_no_buttons(shown):
    lab.predict("C039", "C073")._ipython_display_()
    assert [sorted(output) for output in shown] == [["text/html", "text/plain"]] * 2
    assert "Is that correct, misleading, wrong, to measure or unverifiable?" in shown[0]["text/html"]


def test_a_button_shows_the_answer_and_the_guess_is_remembered(shown, monkeypatch):
    monkeypatch.setattr(claim_card, "someone_can_click", lambda: True)
    lab.predict("C039")._ipython_display_()
    card, choice = shown
    assert "Decide, then press a button" in card["text/html"]
    row, answer = choice.children
    assert [button.description for button in row.children] == ["correct", "misleading", "wrong", "to measure", "unverifiable"]
    assert answer.value == ""
    row.children[1].click()
    assert "You said <b>misleading</b>. The verdict: " in answer.value
    assert "= 166.667" in answer.value
    row.children[2].click()
    assert re.search(r"You said <b[^>]*>wrong</b>, and that is the verdict\.", answer.value)
    assert [button.icon for button in row.children] == ["", "", "check", "", ""]
    lab.predict("C039")._ipython_display_()
    assert "and that is the verdict" in shown[-1].children[1].value


def test_without_ipywidgets_the_card_stands_alone(shown, monkeypatch):
    monkeypatch.setattr(claim_card, "someone_can_click", lambda: True)
    monkeypatch.setitem(__import__("sys").modules, "ipywidgets", None)
    lab.predict("C039")._ipython_display_()
    assert len(shown) == 1
    assert "Is that correct" in shown[0]["text/html"]


def test_an_unknown_or_missing_id_is_answered():
    with pytest.raises(KeyError, match="ids run from C001 to C267"):
        lab.predict("C300")
    with pytest.raises(ValueError, match=r'lab.predict\("C039"\)'):
        lab.predict()


@pytest.mark.parametrize(("request_", "live"), [
    ({"metadata": {"cellId": "a1"}}, True), ({"metadata": {}}, False), ({}, False), (None, False), ("?", False),
])  # fmt: skip
def test_a_front_end_that_sends_the_cell_s_id_is_live(request_, live, monkeypatch):
    shell = type("Shell", (), {"get_parent": lambda self: request_})()
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    assert front_end.someone_can_click() is live


@pytest.mark.parametrize("shell", [None, object()], ids=["none", "terminal"])
def test_elsewhere_nobody_can_click(shell, monkeypatch):
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    assert front_end.someone_can_click() is False


def _printed(renderable, width):
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(renderable)
    return console.export_text()


@pytest.mark.parametrize("width", [40, 60, 80, 100, 140])
def test_the_table_fits_the_terminal_and_leaves_nothing_out(width):
    chosen = claims.select(phase=1)
    text = _printed(rich_table(chosen, "Shown here"), width)
    assert max(map(len, text.splitlines())) <= width
    flat = " ".join(text.split())
    assert [one.id for one in chosen if one.id not in flat] == []
    assert "4 correct, 10 misleading, 36 wrong, 2 to measure, 1 unverifiable" in flat
    assert "…" not in text


@pytest.mark.parametrize("verdict", Verdict)
def test_one_claim_in_full_says_everything(verdict):
    one = claims.select(verdict=verdict)[0]
    flat = "".join(_printed(rich_claim(one), 80).split())
    for words in (one.id, one.place, one.claim_paraphrased, one.corrected_value, one.why, one.source):
        assert "".join(words.split()) in flat
