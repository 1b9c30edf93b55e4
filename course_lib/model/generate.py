"""Generation: a prompt goes through the model once, then each new token goes through it alone, over the KV cache.

The generator yields every token as it is made, with what a reader wants to know about it: its text, its probability and its
rivals', and what the step cost in bytes and seconds. A batch may have prompts of different lengths; a row that has ended keeps
its place in the batch until all have.
"""

import codecs
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from .decoder import Decoder
from .parts import KeyValues
from .sampling import GREEDY, Sampling, choose, generators, token_probs


class BytesOf(Protocol):
    """What generation asks of a tokenizer."""

    def encode(self, text: str, /) -> list[int]: ...
    def decode(self, ids: Sequence[int], /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class NewToken:
    """One token of one row.

    text         what it adds to the row's text: "" while a character is not complete, for a stop token, and without a tokenizer
    probability  the model's own, before temperature and limits; `top` likewise: (token, probability), the likeliest first
    ended        "stop" (a stop token), "length" (max_new_tokens), or "" when the row goes on
    seconds      of the step that made it, the same for all rows; the first step reads the whole prompt
    weight_bytes, kv_bytes   what that step had to read at least: the weights once, and the cache of all rows
    """

    row: int
    index: int
    token: int
    text: str
    probability: float
    top: tuple[tuple[int, float], ...]
    ended: str
    seconds: float
    weight_bytes: int
    kv_bytes: int


def generate(
    model: Decoder,
    prompts: Sequence[int] | Sequence[Sequence[int]],
    *,
    max_new_tokens: int = 64,
    sampling: Sampling = GREEDY,
    stop: Collection[int] = (),
    tokenizer: BytesOf | None = None,
    top: int = 5,
) -> Iterator[NewToken]:
    """Tokens one after the other; for a batch, row by row within each step.

    prompts: token ids, or a list of such. ValueError at once for an empty prompt, an id that the model does not have, or a text
    longer than the model's context.
    """  # fmt: skip
    rows = [list(prompts)] if not prompts or isinstance(prompts[0], int) else [list(row) for row in prompts]  # type: ignore[arg-type, list-item]
    _refuse(model, rows, max_new_tokens, top)
    return _generate(model, rows, max_new_tokens, sampling, set(stop), tokenizer, top)


def complete(model: Decoder, prompt: str, *, tokenizer: BytesOf | None = None, **options: Any) -> str:
    """The text that the model goes on with. options: those of `generate`."""
    tokenizer = tokenizer or model.tokenizer()
    return "".join(new.text for new in generate(model, tokenizer.encode(prompt), tokenizer=tokenizer, **options))


def _generate(
    model: Decoder, rows: list[list[int]], max_new_tokens: int, sampling: Sampling, stop: set[int],
    tokenizer: BytesOf | None, top: int,
) -> Iterator[NewToken]:  # fmt: skip
    cache = model.new_cache(len(rows), max(map(len, rows)) + max_new_tokens)
    streams, texts = generators(sampling, len(rows)), [_Text(tokenizer) for _ in rows]
    live, tokens, positions = set(range(len(rows))), *_prompt_batch(rows, model.device)
    for index in range(max_new_tokens):
        start = time.perf_counter()
        chosen, chances, rivals = _step(model, tokens, cache, positions, sampling, streams, top)
        seconds, kv_bytes = time.perf_counter() - start, cache.held_bytes
        for row in sorted(live):
            token = chosen[row]
            ended = "stop" if token in stop else "length" if index + 1 == max_new_tokens else ""
            text = texts[row].add(token if ended != "stop" else None, last=bool(ended))
            if ended:
                live.discard(row)
            yield NewToken(
                row, index, token, text, chances[row], rivals[row], ended, seconds, model.weight_bytes_per_step, kv_bytes
            )
        if not live:
            return
        tokens = torch.tensor(chosen, device=model.device)[:, None]
        positions = None
        if len(live) < len(rows):
            places = [held if row in live else -1 for row, held in enumerate(cache.lengths)]
            positions = torch.tensor(places, device=model.device)[:, None]


@torch.inference_mode()
def _step(
    model: Decoder, tokens: Tensor, cache: KeyValues, positions: Tensor | None, sampling: Sampling,
    streams: Sequence[torch.Generator], top: int,
) -> tuple[list[int], list[float], list[tuple[tuple[int, float], ...]]]:  # fmt: skip
    """One pass: a token for each row, its probability, and the likeliest ones."""
    logits = model(tokens, cache, positions, last=True)[:, -1]
    if sampling.temperature == 0:
        chosen = token_probs(logits, sampling).argmax(-1)
    else:
        chosen = choose(token_probs(logits, sampling), streams).to(logits.device)
    probs = logits.softmax(-1)
    values, ids = probs.topk(min(top, probs.shape[-1]), dim=-1)
    chances = probs.gather(-1, chosen[:, None]).squeeze(-1)
    rivals = [tuple(zip(*row, strict=True)) for row in zip(ids.tolist(), values.tolist(), strict=True)]
    return chosen.tolist(), chances.tolist(), rivals


def _prompt_batch(rows: list[list[int]], device: torch.device) -> tuple[Tensor, Tensor | None]:
    """Prompts padded on the right -> (tokens, positions with -1 for padding; None where all are as long)."""
    longest = max(map(len, rows))
    tokens = torch.tensor([row + [0] * (longest - len(row)) for row in rows], device=device)
    if all(len(row) == longest for row in rows):
        return tokens, None
    places = [[*range(len(row)), *[-1] * (longest - len(row))] for row in rows]
    return tokens, torch.tensor(places, device=device)


def _refuse(model: Decoder, rows: list[list[int]], max_new_tokens: int, top: int) -> None:
    config = model.config
    if max_new_tokens < 1:
        raise ValueError(f"max_new_tokens is {max_new_tokens}; use at least 1")
    if top < 1:
        raise ValueError(f"top is {top}; use at least 1")
    for row, ids in enumerate(rows):
        if not ids:
            raise ValueError(f"prompt {row} is empty; begin with one token, the tokenizer's END for a new document")
        if wrong := [token for token in ids if not 0 <= token < config.vocab]:
            raise ValueError(f"prompt {row} has token {wrong[0]}; {config.name} has 0 to {config.vocab - 1}")
        if config.context is not None and len(ids) + max_new_tokens > config.context:
            room = config.context - len(ids)
            cure = f"ask for at most {room}" if room > 0 else f"keep at most the last {config.context - 1} tokens of the prompt"
            raise ValueError(
                f"prompt {row} has {len(ids)} tokens and {max_new_tokens} more are asked for; {config.name} was trained on texts "
                f"of {config.context}: {cure}"
            )


class _Text:
    """The text of one row as it grows: bytes of a token may end in the middle of a character."""

    def __init__(self, tokenizer: BytesOf | None) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def add(self, token: int | None, *, last: bool) -> str:
        """Text that can be shown now; token None adds nothing."""
        if self._tokenizer is None:
            return ""
        return self._decoder.decode(b"" if token is None else self._tokenizer.decode([token]), final=last)
