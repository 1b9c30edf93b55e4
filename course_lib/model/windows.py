"""The fixed protocol by which every number about a model on a text is made: which tokens are scored, and what each may see.

Protocol  A document is its tokens behind the mark Tokenizer.END. A window of 1024 inputs moves over it by half a window; of the
          first window every prediction is scored, of each later one the second half. So each prediction but the first 512 sees at
          least 512 tokens, and each token is scored once. The mark itself is never predicted: the bytes are those of the text.
Why fixed The protocol moves bits per byte more than the model does: one small checkpoint read 1.36 in separate windows past its
          training length and 1.20 with context. Numbers made by different rules do not compare.

Two numbers, window 1024: 1024 tokens are one window; 1025 are two, and the second scores one token, which sees 513 inputs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, SupportsBytes

import torch
from torch import Tensor, nn

WINDOW = 1024
BATCH_TOKENS = 8192  # inputs in one forward pass on a CPU: 134 MB of logits
GPU_BATCH_TOKENS = 65536
USUAL_VOCAB = 4096  # for which those are meant; with a larger vocabulary fewer inputs make as many logits

Texts = str | bytes | Sequence[str | bytes | SupportsBytes]


class Window(NamedTuple):
    """Inputs start ... stop - 1 of a document; those from `scored` on are scored. Input i predicts token i of the text."""

    start: int
    stop: int
    scored: int


@dataclass(frozen=True, slots=True)
class Scored:
    """What one window adds. logits: one [tokens, vocab] float tensor for each model; targets: [tokens] int64."""

    document: int
    start: int  # of `targets` in the document's tokens
    targets: Tensor
    logits: tuple[Tensor, ...]


def windows(tokens: int, window: int = WINDOW) -> list[Window]:
    """The windows of a document of so many tokens; none for an empty one."""
    if not isinstance(window, int) or window < 2 or window % 2:
        raise ValueError(f"window is {window!r}; use an even number of at least 2, such as {WINDOW}")
    if tokens < 1:
        return []
    found = [Window(0, min(window, tokens), 0)]
    while found[-1].stop < tokens:
        start, stop = found[-1].start + window // 2, found[-1].stop
        found.append(Window(start, min(start + window, tokens), stop))
    return found


def scored_windows(
    models: Sequence[nn.Module], documents: Sequence[Sequence[int]], *, mark: int, window: int = WINDOW
) -> Iterator[Scored]:
    """Every window of every document through all models. documents: token ids without the mark.

    Windows go in batches, longest first; shorter ones are filled up at the end, where a causal model cannot see it.
    """
    device = device_of(models[0])
    marked = [[mark, *ids] for ids in documents]
    _refuse_strange_tokens(models, marked)
    work = [(number, one) for number, ids in enumerate(documents) for one in windows(len(ids), window)]
    work.sort(key=lambda entry: entry[1].start - entry[1].stop)  # stable, so the order is the same every time
    limit = as_many_logits(BATCH_TOKENS if device.type == "cpu" else GPU_BATCH_TOKENS, max(map(vocab_of, models)))
    while work:
        longest = work[0][1].stop - work[0][1].start
        batch, work = work[: max(1, limit // longest)], work[max(1, limit // longest) :]
        inputs = torch.full((len(batch), longest), mark, dtype=torch.int64)
        for row, (number, one) in enumerate(batch):
            inputs[row, : one.stop - one.start] = torch.tensor(marked[number][one.start : one.stop])
        logits = [_logits(model, inputs.to(device)) for model in models]
        for row, (number, one) in enumerate(batch):
            kept = slice(one.scored - one.start, one.stop - one.start)
            targets = torch.tensor(documents[number][one.scored : one.stop], dtype=torch.int64, device=device)
            yield Scored(number, one.scored, targets, tuple(out[row, kept] for out in logits))


def as_many_logits(rows: int, vocab: int) -> int:
    """How many rows of a vocabulary have the size that `rows` have of the course's; 8192 rows of 4096 are 261 of 128256."""
    return rows if vocab <= USUAL_VOCAB else max(1, rows * USUAL_VOCAB // vocab)


def vocab_of(model: nn.Module) -> int:
    """A decoder's vocabulary; the course's for a model that does not say."""
    config = getattr(model, "config", None)
    return getattr(config, "vocab", USUAL_VOCAB)


def mark_of(tokenizer) -> int:
    """What stands before a document: the mark that begins a text where the tokenizer has one (Llama, Mistral), else its END."""
    start = getattr(tokenizer, "start", ())
    mark = start[-1] if start else tokenizer.END
    if mark is None:
        raise ValueError("the tokenizer knows no mark that begins or ends a text; give its model's config.json an eos_token_id")
    return mark


def device_of(model: nn.Module) -> torch.device:
    """Where a model's first parameter lies; a model without parameters is on the CPU."""
    return next((weight.device for weight in model.parameters()), torch.device("cpu"))


def encoded(tokenizer, texts: Texts) -> tuple[list[list[int]], list[int]]:
    """(token ids of each text, bytes of each text). One text is a list of one. ValueError where there is nothing to score.

    A text is str, bytes, or what has `__bytes__`, as held_out.read() gives. Token ids are none: evaluate_tokens takes those.
    """
    if isinstance(texts, str | bytes | bytearray | memoryview):
        texts = [texts]
    contents = [_bytes_of(text) for text in texts]
    if not any(contents):
        raise ValueError("no text to score; give at least one byte, or held_out.read() for the course's held-out modules")
    # a mark that a tokenizer puts before a text is mark_of's, and no token of the text
    options = {"start": False} if getattr(tokenizer, "start", ()) else {}
    return [list(tokenizer.encode(content, **options)) for content in contents], [len(content) for content in contents]


def _bytes_of(text: object) -> bytes:
    if isinstance(text, str):
        return text.encode("utf-8")
    if not isinstance(text, bytes | bytearray | memoryview) and not hasattr(type(text), "__bytes__"):
        raise ValueError(f"a text is str or bytes, got {text!r}; evaluate_tokens takes token ids")  # bytes(5) would be five NULs
    return bytes(text)


def _refuse_strange_tokens(models: Sequence[nn.Module], marked: Sequence[Sequence[int]]) -> None:
    """ValueError for a token that a model does not have, before a GPU stops at it for good."""
    largest = max(map(max, marked), default=0)
    for model in models:
        if (config := getattr(model, "config", None)) is not None and largest >= config.vocab:
            known = f"{config.name} has 0 to {config.vocab - 1}"
            raise ValueError(f"the text has token {largest}, and {known}; use the model's own tokenizer")


@torch.no_grad()
def _logits(model: nn.Module, inputs: Tensor) -> Tensor:
    """One forward pass in eval mode; the model is afterwards as it was."""
    was = model.training
    try:
        return model.eval()(inputs)
    finally:
        model.train(was)
