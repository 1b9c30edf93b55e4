"""The n-gram model is a probability distribution, agrees with the formula written with dictionaries, and learns."""

import lzma
import math
from collections import Counter

import numpy as np
import pytest

from tools.corpus.baselines import PART, kneser_ney_bits_per_byte, xz_bits_per_byte
from tools.corpus.kneser_ney import KneserNey, _discounts

TEXT = PART + PART.join([b"the cat sat on the mat, the cat ate", b"a cat and a mat", b"mats and cats and that"] * 3) + PART


@pytest.mark.parametrize("order", [2, 3, 5, 8])
@pytest.mark.parametrize("context", [b"", b"the ", b"cat and a mat", b"\xff\xfe never seen"])
def test_the_probabilities_of_all_256_bytes_add_up_to_one(order, context):
    model = KneserNey(TEXT, order)
    assert sum(model.probabilities(context + bytes([byte]))[-1] for byte in range(256)) == pytest.approx(1, abs=1e-12)


def by_the_formula(text, order, context, byte):
    """p_n(w | h) with dictionaries, one order after the other."""
    windows = [text[i : i + order] for i in range(len(text) - order + 1)]
    tables = {order: Counter(windows)}
    for n in range(order - 1, 0, -1):
        tables[n] = Counter(gram[1:] for gram in tables[n + 1])
    p = 1 / 256
    for n in range(1, order + 1):
        table = tables[n]
        d = _discounts([sum(c == k for c in table.values()) for k in (1, 2, 3, 4)])
        h = context[len(context) - (n - 1) :]
        follow = {gram[-1]: c for gram, c in table.items() if gram[:-1] == h}
        total = sum(follow.values())
        if total:
            kept = sum(d[min(c, 3) - 1] for c in follow.values())
            c = follow.get(byte, 0)
            p = (max(c - d[min(c, 3) - 1], 0) if c else 0) / total + kept / total * p
    return p


@pytest.mark.parametrize("order", [2, 4])
def test_it_is_the_formula(order):
    model = KneserNey(TEXT, order)
    document = b"that cat, the rat"
    padded = b"\0" * (order - 1) + document
    expected = [by_the_formula(TEXT, order, padded[: i + order - 1], byte) for i, byte in enumerate(document)]
    np.testing.assert_allclose(model.probabilities(document), expected, rtol=1e-12)


def test_more_context_and_more_text_predict_better():
    rng = np.random.default_rng(0)
    words = [b"import ", b"return ", b"self.", b"value ", b"None\n", b"def ", b"class "]
    text = b"".join(words[i] for i in rng.integers(0, 7, 4000))
    train, test = PART + text[:15000] + PART, text[15000:17000]
    bits = [kneser_ney_bits_per_byte(KneserNey(train, order), [test]) for order in (2, 4, 8)]
    assert bits[0] > bits[1] > bits[2]
    assert bits[2] > 0.95 * math.log2(7) / (sum(map(len, words)) / 7)  # a random word takes log2(7) bits, whoever predicts it
    assert kneser_ney_bits_per_byte(KneserNey(train[:2000] + PART, 8), [test]) > bits[2]


def test_orders_outside_the_uint64_are_refused():
    with pytest.raises(ValueError, match="order 9 is not possible; use 2 to 8"):
        KneserNey(TEXT, 9)


def test_xz_counts_bits_of_the_file_per_byte_of_text():
    texts = [b"abc" * 400, b"abd" * 300]
    apart, joined = xz_bits_per_byte(texts, one_stream=False), xz_bits_per_byte(texts, one_stream=True)
    assert apart == 8 * sum(len(lzma.compress(t, preset=9)) for t in texts) / 2100
    assert joined < apart
