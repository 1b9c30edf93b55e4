"""A text and how a model goes on with it: plain data for the views, and the run that fills it token by token.

Torch and the model are met only when a run begins.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median
from typing import Any

MOST_TOKENS = 512  # of one run: the KV cache is allocated for them


@dataclass(frozen=True, slots=True)
class Shown:
    """One token that the model added. `rivals`: (token, probability), the likeliest first; this one may be among them."""

    text: str
    piece: str  # the token by itself; `text` may be "" while a character is not complete
    probability: float
    rivals: tuple[tuple[str, float], ...]
    seconds: float
    weight_bytes: int
    kv_bytes: int

    @property
    def gb_per_s(self) -> float:
        return (self.weight_bytes + self.kv_bytes) / self.seconds / 1e9


@dataclass(slots=True)
class Continuation:
    """What the views show. prompt_tokens: the first step reads so many at once (the document mark included), later ones one."""

    model: str
    device: str
    prefix: str
    prompt_tokens: int = 0
    tokens: list[Shown] = field(default_factory=list)
    ended: str = ""

    @property
    def text(self) -> str:
        return "".join(token.text for token in self.tokens)

    @property
    def token_seconds(self) -> float | None:
        """Median of the steps that read one token; None before there is one."""
        steps = [token.seconds for token in self.tokens[1:]]
        return median(steps) if steps else None


class Run:
    """A model that goes on with one text. `advance()` adds a token and says whether it could."""

    def __init__(self, model: Any, tokenizer: Any, prefix: str, temperature: float = 0.0, seed: int = 0, top: int = 5) -> None:
        """tokenizer: `encode(text) -> ids`, `decode(ids) -> bytes`, and END, where it has one, before and after a document. A
        released checkpoint's puts its own mark before a text (`start`), and has several that end one (`ends`).

        Blanks and line breaks at the end of the prefix are left to the model: a tokenizer has one token for a line break and the
        indentation after it, so a line break by itself would say that the next line is not indented.
        ValueError where the text leaves no room for one more token, or a setting is out of range.
        """
        from ..model import Sampling, generate

        prefix = prefix.rstrip()
        end = getattr(tokenizer, "END", None)
        marked = end is None or bool(getattr(tokenizer, "start", ()))  # by encode, or not at all
        ids = ([] if marked else [end]) + list(tokenizer.encode(prefix))
        context = model.config.context
        if context is not None and len(ids) >= context:
            keep = len(prefix) * (context - 1) // len(ids)
            raise ValueError(
                f"this text has {len(ids):,} tokens, and {model.config.name} reads {context:,}, the one that it adds included; "
                f"keep about the last {keep:,} characters"
            )
        room = MOST_TOKENS if context is None else min(MOST_TOKENS, context - len(ids))
        self.continuation = Continuation(model.config.name, _device(model), prefix, len(ids))
        self._tokenizer = tokenizer
        self._tokens: Iterator[Any] = generate(
            model, ids, max_new_tokens=room, sampling=Sampling(temperature=temperature, seed=seed),
            stop=getattr(tokenizer, "ends", () if end is None else (end,)), tokenizer=tokenizer, top=top,
        )  # fmt: skip

    def advance(self) -> bool:
        new = next(self._tokens, None)
        if new is None:
            return False
        c = self.continuation
        rivals = tuple((self._piece(token), probability) for token, probability in new.top)
        c.tokens.append(Shown(
            new.text, self._piece(new.token), new.probability, rivals, new.seconds, new.weight_bytes, new.kv_bytes
        ))  # fmt: skip
        c.ended = new.ended
        return not new.ended

    def _piece(self, token: int) -> str:
        if token == getattr(self._tokenizer, "END", None):
            return "end of text"
        return readable(self._tokenizer.decode([token]))


def readable(piece: bytes) -> str:
    r"""A token by itself, on one line: " if" as ␣if, 12 blanks as ␣×12, a line break as ⏎; \xc3 or \r for what has no look."""
    text = re.sub(" {4,}", lambda blanks: f"␣×{len(blanks.group())}", piece.decode("utf-8", errors="backslashreplace"))
    text = text.replace(" ", "␣").replace("\n", "⏎").replace("\t", "⇥")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _device(model: Any) -> str:
    dtype = str(model.dtype).removeprefix("torch.")
    return f"{dtype} weights on {'a CPU' if model.device.type == 'cpu' else model.device.type.upper()}"
