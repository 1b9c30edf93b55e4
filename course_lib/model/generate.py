"""Generation: a prompt goes through the model once, then each new token goes through it alone, over the KV cache.

The generator yields every token as it is made, with what a reader wants to know about it: its text, its probability and its
rivals', and what the step cost in bytes and seconds. A batch may have prompts of different lengths; a row that has ended keeps
its place in the batch until all have.
"""

import codecs
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral
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

    prompts   token ids, or a list of such; also as a tensor
    stop      ids that end a row, such as {tokenizer.END}
    ValueError at once for an empty prompt, an id that the model does not have, or a text longer than the model's context.
    """  # fmt: skip
    rows = _rows(prompts)
    if not isinstance(sampling, Sampling):
        raise ValueError(f"sampling is {sampling!r}; use Sampling(temperature=..., top_k=..., top_p=..., seed=...), or GREEDY")
    if isinstance(stop, str | bytes) or not isinstance(stop, Collection):
        raise ValueError(f"stop is {stop!r}; use a collection of token ids, such as {{tokenizer.END}}")
    if wrong := [token for token in stop if not _is_token(token, model)]:
        raise ValueError(f"stop has {wrong[0]!r}, which never comes; {model.config.name} has 0 to {model.config.vocab - 1}")
    _refuse(model, rows, max_new_tokens, top)
    return _generate(model, rows, max_new_tokens, sampling, set(stop), tokenizer, top)


def complete(model: Decoder, prompt: str, *, tokenizer: BytesOf | None = None, **options: Any) -> str:
    """The text that the model goes on with. options: those of `generate`."""
    if not isinstance(prompt, str | bytes):
        raise ValueError(f"prompt is {prompt!r}; complete goes on with one text, generate with token ids and batches of them")
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
    tokens = torch.tensor([row + [0] * (longest - len(row)) for row in rows], dtype=torch.int64, device=device)
    if all(len(row) == longest for row in rows):
        return tokens, None
    places = [[*range(len(row)), *[-1] * (longest - len(row))] for row in rows]
    return tokens, torch.tensor(places, device=device)


def _rows(prompts: Any) -> list[list[int]]:
    """One list of ids for each row."""
    if isinstance(prompts, str | bytes):
        raise ValueError(f"the prompt is text, {prompts[:40]!r}; use complete(model, text), or tokenizer.encode(text)")
    prompts = prompts.tolist() if hasattr(prompts, "tolist") else prompts  # a tensor, an array
    if not isinstance(prompts, Sequence):
        raise ValueError(f"prompts are {prompts!r}; use a list of token ids, or a list of such lists")
    rows = [row.tolist() if hasattr(row, "tolist") else row for row in prompts]
    many = [isinstance(row, Sequence) and not isinstance(row, str | bytes) for row in rows]
    if any(many) and not all(many):
        raise ValueError(f"prompts hold ids and lists, {prompts!r}; use a list of token ids, or a list of such lists")
    return [list(row) for row in rows] if rows and all(many) else [rows]


def _is_token(token: Any, model: Decoder) -> bool:
    return isinstance(token, Integral) and 0 <= token < model.config.vocab


def _refuse(model: Decoder, rows: list[list[int]], max_new_tokens: int, top: int) -> None:
    config = model.config
    for name, count in (("max_new_tokens", max_new_tokens), ("top", top)):
        if not isinstance(count, Integral) or count < 1:
            raise ValueError(f"{name} is {count!r}; use at least 1, a whole number")
    for row, ids in enumerate(rows):
        if not ids:
            raise ValueError(f"prompt {row} is empty; begin with one token, the tokenizer's END for a new document")
        if wrong := [token for token in ids if not _is_token(token, model)]:
            raise ValueError(f"prompt {row} has token {wrong[0]!r}; {config.name} has 0 to {config.vocab - 1}")
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
