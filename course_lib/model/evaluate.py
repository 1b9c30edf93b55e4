"""How well a model predicts a text: bits per byte and perplexity, by the one protocol of windows.py.

    evaluate(load("course-target"), Tokenizer.load(), held_out.read())

Bits per byte compares models with different tokenizers, and with compressors; perplexity is per token and compares only models
of one tokenizer. The held-out text is the running Python's own: compare two models on one text, never numbers of two texts.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from .interval import ratio_interval
from .tokenizer import Tokenizer
from .windows import WINDOW, Texts, encoded, mark_of, scored_windows


@dataclass(frozen=True, slots=True)
class Score:
    """low ... high: 95% interval of bits_per_byte, bootstrap over documents (over itself alone when there is one)."""

    bits_per_byte: float
    low: float
    high: float
    perplexity: float  # per token
    tokens: int
    bytes: int

    @property
    def bits_per_token(self) -> float:
        return math.log2(self.perplexity)

    def __str__(self) -> str:
        return (
            f"{self.bits_per_byte:.4f} bits per byte [{self.low:.4f}, {self.high:.4f}], "
            f"perplexity {self.perplexity:.3f} per token; {self.tokens:,} tokens, {self.bytes:,} bytes"
        )


def evaluate(model: nn.Module, tokenizer, texts: Texts, *, window: int = WINDOW) -> Score:
    """Score one text or several; each starts fresh behind a mark. Deterministic on one machine."""
    documents, sizes = encoded(tokenizer, texts)
    return evaluate_tokens(model, documents, sizes, mark=mark_of(tokenizer), window=window)


def evaluate_tokens(
    model: nn.Module, documents: Sequence[Sequence[int]], sizes: Sequence[int], *, mark: int = Tokenizer.END, window: int = WINDOW
) -> Score:
    """The same for texts that are tokens already; sizes: the bytes of each text."""
    if len(documents) != len(sizes):
        raise ValueError(f"{len(documents)} documents and {len(sizes)} sizes; give the bytes of each document")
    return score_of(bits_of(model, documents, mark=mark, window=window), [len(ids) for ids in documents], sizes)


def score_of(bits: Sequence[float], tokens: Sequence[int], sizes: Sequence[int]) -> Score:
    """The score of documents whose bits are known: what bits_of gave, with the tokens and bytes of each document."""
    kept = [(some, size) for some, size in zip(bits, sizes, strict=True) if size]
    low, high = ratio_interval([some for some, _ in kept], [size for _, size in kept])
    total, size = sum(tokens), sum(sizes)
    return Score(sum(bits) / size, low, high, 2 ** (sum(bits) / total), total, size)


def bits_of(
    model: nn.Module, documents: Sequence[Sequence[int]], *, mark: int = Tokenizer.END, window: int = WINDOW
) -> list[float]:
    """Bits that the model needs for each document. A token costs -log2 of the probability that the model gave it."""
    bits = [0.0] * len(documents)
    for piece in scored_windows([model], documents, mark=mark, window=window):
        (logits,) = piece.logits
        wanted = logits.gather(1, piece.targets[:, None])[:, 0]
        # the sum of up to 1024 terms in float64: what rounds is each float32 term, by less than 1e-6 bit
        nats = (logits.logsumexp(-1) - wanted).double().sum()
        bits[piece.document] += float(nats) / math.log(2)
    return bits
