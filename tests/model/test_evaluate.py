"""The scoring protocol, against models whose numbers are known on paper."""

import math
from dataclasses import replace

import pytest
import torch

from course_lib.model import evaluate as evaluating
from course_lib.model import windows as windowing
from course_lib.model.config import ModelConfig
from course_lib.model.decoder import Decoder
from course_lib.model.evaluate import Score, evaluate, evaluate_tokens
from course_lib.model.held_out import HeldOutText
from course_lib.model.tokenizer import Tokenizer
from course_lib.model.windows import Window, as_many_logits, scored_windows, windows

from .stubs import MARK, Bytes, Fixed, Knows, Uniform

TINY = ModelConfig(name="tiny", vocab=300, hidden=32, layers=2, heads=2, kv_heads=1, head_dim=16, mlp_hidden=64)


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (0, []),
        (1, [Window(0, 1, 0)]),
        (1024, [Window(0, 1024, 0)]),
        (1025, [Window(0, 1024, 0), Window(512, 1025, 1024)]),
        (1537, [Window(0, 1024, 0), Window(512, 1536, 1024), Window(1024, 1537, 1536)]),
    ],
)
def test_a_window_moves_by_half_and_scores_its_second_half(tokens, expected):
    assert windows(tokens) == expected


@pytest.mark.parametrize("tokens", [1, 7, 8, 9, 11, 12, 13, 100])
def test_every_token_is_scored_once_and_sees_at_least_half_a_window(tokens):
    found = windows(tokens, 8)
    assert [place for one in found for place in range(one.scored, one.stop)] == list(range(tokens))
    assert all(one.stop - one.start <= 8 for one in found)
    assert all(one.scored - one.start == 4 for one in found[1:])


@pytest.mark.parametrize("window", [0, 1, 7])
def test_an_odd_window_is_refused(window):
    with pytest.raises(ValueError, match="even number"):
        windows(10, window)


def test_a_uniform_model_needs_twelve_bits_a_token():
    score = evaluate(Uniform(4096), Bytes(), ["some text", "and another, longer one"], window=8)
    assert score.bits_per_token == pytest.approx(12, abs=1e-6)
    assert (score.bits_per_byte, score.low, score.high) == pytest.approx((12, 12, 12), abs=1e-6)  # one token a byte, all alike
    assert score.perplexity == pytest.approx(4096, rel=1e-6)
    assert (score.tokens, score.bytes) == (32, 32)


def test_bits_are_counted_per_byte_of_text_and_not_per_token():
    score = evaluate_tokens(Uniform(4096), [[1, 2, 3], [4, 5]], [10, 2], mark=0)
    assert score.bits_per_byte == pytest.approx(5 * 12 / 12, abs=1e-6)
    assert score.perplexity == pytest.approx(4096, rel=1e-6)  # of a token, however many bytes it has
    assert score.low < score.bits_per_byte < score.high  # 3.6 bits per byte in one document, 12 in the other


def test_a_model_that_knows_the_next_token_needs_no_bits():
    score = evaluate(Knows(), Bytes(), b"abc" * 20, window=8)
    assert score.bits_per_byte == pytest.approx(0, abs=1e-6)
    assert evaluate(Knows(), Bytes(), b"bca" * 20, window=8).bits_per_byte == pytest.approx(100 / math.log(2) / 60, rel=1e-5)


def test_a_fixed_distribution_costs_its_cross_entropy():
    model = Fixed(0.5, 0.25, 0.25)
    assert evaluate_tokens(model, [[0, 0, 1, 2]], [4], mark=0).bits_per_byte == pytest.approx((1 + 1 + 2 + 2) / 4, abs=1e-9)


def test_inputs_are_the_mark_and_the_text_shifted_by_one():
    model = Uniform(300)
    list(scored_windows([model], [[1, 2, 3, 4, 5]], mark=MARK, window=4))
    assert model.seen[0].tolist() == [[MARK, 1, 2, 3], [2, 3, 4, MARK]]  # the last place is filling, after every scored one


def test_documents_do_not_see_each_other_and_batches_change_nothing(monkeypatch):
    torch.manual_seed(0)
    model = Decoder(TINY)
    texts = [bytes(torch.randint(97, 123, (size,)).tolist()) for size in (5, 61, 40, 1)]
    together = evaluating.bits_of(model, [list(text) for text in texts], mark=MARK, window=16)
    monkeypatch.setattr(windowing, "BATCH_TOKENS", 1)  # a batch for each window
    apart = [evaluating.bits_of(model, [list(text)], mark=MARK, window=16)[0] for text in texts]
    assert together == pytest.approx(apart, rel=1e-5)  # float32 products of another batch round otherwise


def test_scoring_equals_one_plain_pass_per_token():
    torch.manual_seed(1)
    model, text = Decoder(TINY).double(), list(b"def f(x): return x + 1")
    marked, bits = [MARK, *text], 0.0
    for place in range(len(text)):
        start = 0 if place < 8 else (place - 4) // 4 * 4  # window 8: the window that scores this token begins here
        with torch.no_grad():
            logits = model(torch.tensor([marked[start : place + 1]]))[0, -1]
        bits -= float(logits.log_softmax(-1)[text[place]]) / math.log(2)
    assert evaluate(model, Bytes(), bytes(text), window=8).bits_per_byte == pytest.approx(bits / len(text), rel=1e-6)


def test_twice_is_the_same_and_the_model_stays_as_it_was():
    model = Decoder(TINY).train()
    texts = ["import os\n" * 9, "x = 1\n"]
    assert evaluate(model, Bytes(), texts) == evaluate(model, Bytes(), texts)
    assert model.training
    assert all(weight.grad is None and weight.requires_grad for weight in model.parameters())


@pytest.mark.parametrize("texts", ["", b"", [], ["", b""]])
def test_nothing_to_score_is_an_error(texts):
    with pytest.raises(ValueError, match="no text to score"):
        evaluate(Uniform(), Bytes(), texts)


def test_an_empty_document_counts_nothing():
    assert evaluate(Uniform(), Bytes(), ["abc", ""]) == evaluate(Uniform(), Bytes(), ["abc"])


def test_a_score_reads_as_a_sentence():
    assert str(Score(0.95, 0.9, 1.0, 8.0, 1000, 3300)) == (
        "0.9500 bits per byte [0.9000, 1.0000], perplexity 8.000 per token; 1,000 tokens, 3,300 bytes"
    )


def test_any_bytes_are_a_text_and_token_ids_are_none():
    """bytes(5) is five NULs: a list of ids would be scored as such, without a word."""
    text = b"import os\n"
    one = evaluate(Uniform(), Bytes(), text)
    held = HeldOutText("os", text)
    for same in (text.decode(), bytearray(text), memoryview(text), [held], (held,), [bytearray(text)], iter([text])):
        assert evaluate(Uniform(), Bytes(), same) == one
    for wrong in ([5], [105, 109], [text, 5], [None], [[text]]):
        with pytest.raises(ValueError, match=r"a text is str or bytes, got .*; evaluate_tokens takes token ids"):
            evaluate(Uniform(), Bytes(), wrong)
    with pytest.raises(ValueError, match="a text is str or bytes, got 5"):
        Tokenizer.load().encode(5)


def test_a_tokenizer_of_another_model_is_named():
    with pytest.raises(ValueError, match="the text has token 256, and tiny has 0 to 255; use the model's own tokenizer"):
        evaluate(Decoder(replace(TINY, vocab=256)), Bytes(), "abc")


def test_a_large_vocabulary_gets_smaller_batches():
    assert as_many_logits(8192, 300) == as_many_logits(8192, 4096) == 8192
    assert as_many_logits(8192, 128256) == 261
    assert as_many_logits(8, 128256) == 1
    model = Uniform(4096)
    model.config = replace(TINY, vocab=16384)
    evaluate(model, Bytes(), ["x" * 1024] * 4)
    assert [len(seen) for seen in model.seen] == [2, 2]  # 8 of the course's vocabulary


class Marked(Bytes):
    """Puts a mark before a text unless told not to, as Llama's tokenizer does."""

    start, END = (257,), None

    def encode(self, text, *, start=True):
        return [*self.start, *super().encode(text)] if start else super().encode(text)


def test_a_mark_that_the_tokenizer_puts_before_a_text_is_seen_and_not_scored():
    model = Uniform()
    score = evaluate(model, Marked(), "ab")
    assert (score.tokens, score.bytes) == (2, 2)
    assert model.seen[0].tolist() == [[257, ord("a")]]
    nothing = Bytes()
    nothing.END = None
    with pytest.raises(ValueError, match="knows no mark that begins or ends a text"):
        evaluate(Uniform(), nothing, "ab")
