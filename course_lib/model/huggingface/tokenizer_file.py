"""A checkpoint's tokenizer.json behind the same methods as the course's own Tokenizer: text to ids, ids to bytes, a stream.

Two kinds   byte-level BPE (Llama 3, Qwen, Mistral Nemo): an entry spells its bytes in GPT-2's alphabet;
            BPE with byte fallback (Mistral 7B): an entry is text with U+2581 for a blank, "<0x0A>" a byte, and encoding puts one
            blank in front of a text, which decoding takes away again behind the mark that begins a text.
"""

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from ..tokenizer import Tokenizer, byte_alphabet
from .folder import read_json

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


def end_ids(folder: Path) -> tuple[int, ...]:
    """Ids that end a text: eos_token_id (a number or a list) of config.json, then what generation_config.json adds."""
    ids: list[int] = []
    for name in ("config.json", "generation_config.json"):
        if (folder / name).is_file():
            found = read_json(folder / name).get("eos_token_id")
            ids += found if isinstance(found, list) else [found]
    if odd := [i for i in ids if i is not None and type(i) is not int]:
        raise ValueError(f"{folder} has eos_token_id {odd[0]!r}; it has to be a token id, or a list of such")
    return tuple(dict.fromkeys(i for i in ids if i is not None))


class CheckpointTokenizer(Tokenizer):
    """ends: every id that ends a text, for generate(stop=...); END: the first of them, or None.

    start: ids that tokenizer.json puts before a text (Llama and Mistral: one mark; Qwen: none).
    """

    END: int | None  # type: ignore[assignment, misc]

    def __init__(self, library_tokenizer: Any, ends: Iterable[int] = ()) -> None:
        self._library = library_tokenizer
        self._library.encode_special_tokens = True  # a mark inside a text is its characters, unless encode(marks=True)
        self._library.no_truncation()
        self._library.no_padding()
        self._byte_level = _is_byte_level(library_tokenizer)
        self.start = tuple(library_tokenizer.encode("", add_special_tokens=True).ids)
        self.ends = tuple(ends)
        self.END = self.ends[0] if self.ends else None
        if odd := [i for i in self.ends if not 0 <= i < self.vocab]:
            raise ValueError(f"eos_token_id {odd[0]} is not in the vocabulary (0 to {self.vocab - 1}); correct it in config.json")

    @classmethod
    def load(cls, path: str | Path, ends: Iterable[int] = (), *, vocab_limit: int | None = None) -> Self:  # type: ignore[override]
        """From a tokenizer.json. vocab_limit: rows of the model's embedding, which no id may reach."""
        from tokenizers import Tokenizer as LibraryTokenizer

        path = Path(path)
        read_json(path)
        try:
            library = LibraryTokenizer.from_file(str(path))
        except Exception as error:  # the library raises nothing narrower
            raise ValueError(f"{path} is no tokenizer that this version of tokenizers reads ({error}); fetch it again") from None
        try:
            made = cls(library, ends)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        if vocab_limit is not None and made.vocab > vocab_limit:
            raise ValueError(
                f"{path} has ids up to {made.vocab - 1}, and the model's embedding has rows for 0 to {vocab_limit - 1}; "
                "take tokenizer.json and weights of one release"
            )
        return made

    @cached_property
    def pieces(self) -> tuple[bytes, ...]:
        """Marks stand for no bytes; an id that nobody uses neither."""
        vocabulary, added = self._library.get_vocab(), self._library.get_added_tokens_decoder()
        pieces = [b""] * (1 + max(vocabulary.values(), default=-1))
        byte_of = {character: byte for byte, character in enumerate(byte_alphabet())}
        for token, i in vocabulary.items():
            if i in added:
                pieces[i] = b"" if added[i].special else added[i].content.encode()
            elif self._byte_level:
                pieces[i] = bytes(byte_of[character] for character in token)
            else:
                byte = _BYTE.fullmatch(token)
                pieces[i] = bytes([int(byte[1], 16)]) if byte else token.replace("\u2581", " ").encode()
        return tuple(pieces)

    def encode(self, text: str | bytes, *, start: bool = True, marks: bool = False) -> list[int]:
        """Ids of a text, after `start` ids where asked for.

        marks   "<|im_end|>" and the like inside the text mean the mark, as a chat prompt written by hand needs it; without it
                they are plain characters. ValueError for bytes that are no UTF-8 where the vocabulary falls back to bytes.
        """
        if not self._byte_level and isinstance(text, bytes):
            try:
                text = text.decode("utf-8")
            except UnicodeDecodeError as error:
                raise ValueError(f"byte {error.start} begins no UTF-8 character, and this tokenizer takes text; decode it first"
                                 ) from None  # fmt: skip
        if marks:
            ids = self._with_marks.encode(text if isinstance(text, str) else text.decode("utf-8"), add_special_tokens=False).ids
        else:
            ids = super().encode(text)
        return [*self.start, *ids] if start else ids

    def decode(self, ids: Iterable[int]) -> bytes:
        """The bytes that the ids stand for; marks stand for none."""
        return b"".join(self._bytes(ids))

    def stream(self, ids: Iterable[int]) -> Iterator[str]:
        """One piece of text for each id, "" while a character is incomplete; together they are `text(ids)`."""
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        for content in self._bytes(ids):
            yield decoder.decode(content)
        if rest := decoder.decode(b"", final=True):
            yield rest

    def _bytes(self, ids: Iterable[int]) -> Iterator[bytes]:
        begins = False  # the text begins here, so that its first blank is the one that encoding added
        for place, i in enumerate(ids):
            content = self.piece(i)
            yield content.removeprefix(b" ") if begins and not self._byte_level else content
            begins = (begins or place == 0) and i in self.start

    @cached_property
    def _with_marks(self) -> Any:
        copy = type(self._library).from_str(self._library.to_str())
        copy.encode_special_tokens = False
        return copy


def _is_byte_level(library_tokenizer: Any) -> bool:
    """By the decoder that tokenizer.json names. ValueError for a kind that we do not read."""
    decoder = json.loads(library_tokenizer.to_str()).get("decoder") or {}
    kinds = {part.get("type") for part in (decoder, *decoder.get("decoders", ()))}
    if "ByteLevel" in kinds:
        return True
    if "ByteFallback" in kinds:
        return False
    named = ", ".join(sorted(kind for kind in kinds if kind)) or "none"
    raise ValueError(f"its decoder ({named}) is not implemented; ByteLevel and ByteFallback are")
