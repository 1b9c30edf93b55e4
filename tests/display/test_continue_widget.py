"""The widget in which a model goes on with a learner's text: what it shows, what its buttons do, what an exported page has."""

import re
import subprocess
import sys
from html import unescape

import ipywidgets
import pytest
import torch

from course_lib.display import continue_widget
from course_lib.display.continuation import Continuation, Shown, readable
from course_lib.display.continuation_view import continuation_html, continuation_text
from course_lib.display.continue_widget import continue_text
from course_lib.model import Decoder, ModelConfig, Sampling, generate


class Bytes:
    """Token n is the byte n - 1; 0 is the end of a document."""

    END = 0

    def encode(self, text):
        return [byte + 1 for byte in text.encode()]

    def decode(self, ids):
        return bytes(i - 1 for i in ids if i)


@pytest.fixture
def model():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # so small a model does not wait for a second one
    torch.manual_seed(0)
    shape = ModelConfig(
        name="tiny", vocab=257, hidden=64, layers=2, heads=4, kv_heads=2, head_dim=16, mlp_hidden=64, context=64, tied=False
    )
    model = Decoder(shape).eval()
    model.init_weights(std=0.3)
    yield model
    torch.set_num_threads(threads)


def seen(page):
    return unescape(re.sub(r"<[^>]*>", "", page))


def expected(model, prefix, count, temperature=0.0):
    ids = [0, *Bytes().encode(prefix)]
    sampling = Sampling(temperature=temperature)
    return list(generate(model, ids, max_new_tokens=count, sampling=sampling, tokenizer=Bytes(), stop=[0]))


def parts(box):
    field, row, picture = box.children
    *buttons, heat = row.children
    return field, buttons, heat, picture


def test_it_shows_the_models_own_continuation_with_probabilities(model):
    view = continue_text(model, Bytes(), "x=y", new_tokens=6)
    made = expected(model, "x=y", 6)
    assert view.text == "x=y" + "".join(new.text for new in made)
    page = view.html()
    for new in made:
        share = "<1%" if new.probability < 0.005 else f"{new.probability:.0%}"
        assert f'title="{share}  of '.replace("<", "&lt;") in page
    assert seen(page).count("← chosen") == 1


def test_the_time_of_a_token_leaves_out_the_step_that_read_the_prompt():
    steps = [Shown("a", "a", 0.5, (), seconds, 1, 1) for seconds in (9.0, 1.0, 2.0, 4.0)]
    assert Continuation("m", "a CPU", "x", 5, steps).token_seconds == 2.0
    assert Continuation("m", "a CPU", "x", 5, steps[:1]).token_seconds is None


def test_it_says_what_a_step_reads_and_in_what_time(model):
    view = continue_text(model, Bytes(), "x=y", new_tokens=6)
    weights_kb = 4 * (model.config.params - 257 * 64) / 1e3
    for text in (seen(view.html()), repr(view)):
        assert "the prompt's 4 tokens in one step of" in text
        assert f"Every step reads all weights once, {weights_kb:.0f} kB, whatever the token" in text
        assert re.search(r"then 5 of [\d.e+]+ m?s each \(median\), \d+ tokens/s", text)
        assert text.count(f"{weights_kb:.0f} kB") == 6 + 1
    held = 10 * model.config.kv_bytes_per_token(4) / 1e3  # the last token was made from 5 + 5 held ones
    assert f"KV {held:.0f} kB" in repr(view)


def test_what_a_learner_types_is_escaped(model):
    evil = """<script>alert("&'")</script>"""
    page = continue_text(model, Bytes(), evil, new_tokens=2).html()
    assert "<script" not in page
    assert evil in seen(page)
    assert set(re.findall(r"<(\w+)", page)) <= {"div", "span", "table", "thead", "tbody", "tr", "th", "td"}


def test_buttons_go_on_one_token_at_a_time_and_start_again(model):
    view = continue_text(model, Bytes(), "x=y", new_tokens=4)
    _, (one, many, again), _, picture = parts(view.widget())
    texts = ["".join(new.text for new in expected(model, "x=y", count)) for count in (4, 5, 9, 4)]
    assert view.text == "x=y" + texts[0]
    one.click()
    assert view.text == "x=y" + texts[1]
    many.click()
    assert view.text == "x=y" + texts[2]
    assert "tiny, float32 weights on a CPU" in seen(picture.value)
    again.click()
    assert view.text == "x=y"
    many.click()
    assert view.text == "x=y" + texts[3]
    assert not any(button.disabled for button in (one, many, again))


def test_another_text_or_temperature_begins_anew(model):
    view = continue_text(model, Bytes(), "x=y", new_tokens=4)
    field, (one, many, _), heat, _ = parts(view.widget())
    field.value = "def f"
    one.click()
    assert view.text == "def f" + expected(model, "def f", 1)[0].text
    heat.value = 1.0
    many.click()
    warm = "def f" + "".join(new.text for new in expected(model, "def f", 4, temperature=1.0))
    assert view.text == warm
    assert warm != "def f" + "".join(new.text for new in expected(model, "def f", 4))


def test_start_again_draws_anew(model):
    view = continue_text(model, Bytes(), "x=y", new_tokens=6, temperature=1.0)
    _, (_, many, again), _, _ = parts(view.widget())
    texts = [view.text]
    for _ in range(2):
        again.click()
        many.click()
        texts.append(view.text)
    assert len(set(texts)) == 3
    assert texts[0] == continue_text(model, Bytes(), "x=y", new_tokens=6, temperature=1.0).text


def test_a_text_that_is_too_long_is_a_sentence_and_not_a_traceback(model, capsys):
    view = continue_text(model, Bytes(), "x=y", new_tokens=4)
    before = view.text
    field, (one, _, _), _, picture = parts(view.widget())
    field.value = "y" * 70
    one.click()
    assert "this text has 71 tokens, and tiny reads 64, the one that it adds included" in seen(picture.value)
    assert "keep about the last 62 characters" in seen(picture.value)
    assert view.text == before
    field.value = "z"
    one.click()
    assert "this text has" not in seen(picture.value)
    assert capsys.readouterr() == ("", "")
    field.value = "y" * 62
    one.click()
    assert len(view.text) > 62
    with pytest.raises(ValueError, match="this text has 64 tokens"):
        continue_text(model, Bytes(), "y" * 63)
    with pytest.raises(ValueError, match="new_tokens is 0"):
        continue_text(model, Bytes(), new_tokens=0)


def test_it_stops_where_the_context_or_the_text_ends(model):
    view = continue_text(model, Bytes(), "y" * 60, new_tokens=40)
    assert len(view._run.continuation.tokens) == 3  # 64 - 1 - 60
    assert "No room is left for more." in repr(view)
    model.forward = lambda *a, **k: torch.nn.functional.one_hot(torch.tensor([[0]]), 257).float()
    ended = continue_text(model, Bytes(), "y", new_tokens=40)
    assert ended.text == "y"
    assert "The model ended its text." in repr(ended)
    assert "end of text" in seen(ended.html())


def test_an_exported_page_has_the_same_without_a_widget(model, monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", shown.append)
    view = continue_text(model, Bytes(), "x=y", new_tokens=4)
    view._ipython_display_()
    assert shown[0]._repr_html_() == view.html()
    assert repr(shown[0]) == repr(view)
    monkeypatch.setattr(continue_widget, "someone_can_click", lambda: True)
    view._ipython_display_()
    assert isinstance(shown[1], ipywidgets.VBox)
    bundle = shown[1]._repr_mimebundle_()
    assert bundle["text/html"] == view.html()
    assert "application/vnd.jupyter.widget-view+json" in bundle
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    view._ipython_display_()
    assert shown[2]._repr_html_() == view.html()


def test_the_page_is_drawn_while_it_goes_on(model, monkeypatch):
    monkeypatch.setattr(continue_widget, "REDRAW_SECONDS", 0)
    view = continue_text(model, Bytes(), "x=y", new_tokens=4)
    _, (_, many, _), _, picture = parts(view.widget())
    drawn = []
    picture.observe(lambda change: drawn.append(change["new"]), "value")
    many.click()
    assert len({seen(page) for page in drawn}) >= 4


def test_before_the_first_token_there_is_only_the_text(model):
    view = continue_text(model, Bytes(), "x=y", new_tokens=1)
    view.start("y=g(", 0.0)
    c = view._run.continuation
    assert seen(continuation_html(c)) == "y=g(tiny, float32 weights on a CPU."
    assert continuation_text(c) == "y=g(\n\ntiny, float32 weights on a CPU."


@pytest.mark.parametrize(("piece", "text"), [
    (b" if", "␣if"), (b"\n", "⏎"), (b"\n        ", "⏎␣×8"), (b"\t", "⇥"), (b"\xc3", "\\xc3"), ("é".encode(), "é"),
    (b"\r", "\\r"), (b"\x00", "\\x00"), ("\u200f".encode(), "\\u200f"), ("🙂".encode(), "🙂"),
])  # fmt: skip
def test_a_token_by_itself_can_be_read(piece, text):
    assert readable(piece) == text


def test_importing_it_costs_no_torch():
    code = "import sys, course_lib.display.continue_widget; print('torch' in sys.modules, 'ipywidgets' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_the_end_of_a_line_is_left_to_the_model(model):
    """A line break and the indentation after it are one token: typed by itself, the break would be another token."""
    typed = continue_text(model, Bytes(), "x=y\n    \n", new_tokens=4)
    assert typed.text == continue_text(model, Bytes(), "x=y", new_tokens=4).text
    alone = continue_text(model, Bytes(), " \n", new_tokens=2)  # the mark alone
    assert "the prompt's 1 token in one step of" in repr(alone)


def test_a_tokenizer_that_begins_a_text_itself_gets_no_second_mark_and_any_of_its_ends_ends(model):
    """As a released Llama's: 1 (byte 0) begins a text, 0 and 5 end one."""

    class Released(Bytes):
        start = (1,)

        def __init__(self, *ends):
            self.ends = ends

        def encode(self, text):
            return [*self.start, *super().encode(text)]

    made = list(generate(model, [1, *Bytes().encode("x=y")], max_new_tokens=4, tokenizer=Bytes()))
    view = continue_text(model, Released(0), "x=y", new_tokens=4)
    assert view.text == "x=y" + "".join(new.text for new in made)
    third = made[2].token
    assert third not in {made[0].token, made[1].token}
    stopped = continue_text(model, Released(0, third), "x=y", new_tokens=4)
    assert stopped.text == "x=y" + "".join(new.text for new in made[:2])
