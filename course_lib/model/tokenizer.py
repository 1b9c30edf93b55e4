"""Text to token ids and back: byte-level BPE with 4096 entries, so that any byte string has a code and gets its bytes back.

Ids      0 is the document mark, which no text encodes to; 1..256 are the single bytes; from 257 on each merges two earlier ones.
Invalid UTF-8 is no error: its bytes become single-byte tokens. A token may end in the middle of a character, so text that arrives
token by token goes through `stream()`, which waits for the rest of a character.
Trained by tools/corpus/train_tokenizer.py.
"""

import codecs
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Self

DEFAULT = Path(__file__).parent / "weights" / "tokenizer.json"
MARK = "<|end|>"
VOCAB = 4096
_ESCAPED = {chr(0xDC00 + byte) for byte in range(0x80, 0x100)}


class Tokenizer:
    """The course's tokenizer. `pieces[i]` is the byte string that token i stands for; the mark's is empty."""

    END: ClassVar[int] = 0  # between documents; a model that produces it has finished

    def __init__(self, library_tokenizer) -> None:
        """`library_tokenizer`: a `tokenizers.Tokenizer` of a byte-level BPE whose id 0 is the document mark."""
        self._library = library_tokenizer
        self._library.encode_special_tokens = True  # "<|end|>" inside a text is seven characters, not the end of it
        if self._library.token_to_id(MARK) != self.END:
            found = self._library.token_to_id(MARK)
            raise ValueError(f"this tokenizer has {MARK} at id {found}, and the course's models expect it at {self.END}")

    @classmethod
    def load(cls, path: str | Path = DEFAULT) -> Self:
        """From a tokenizer.json."""
        from tokenizers import Tokenizer as LibraryTokenizer

        if not Path(path).is_file():
            raise FileNotFoundError(f"no tokenizer at {path}; the course's own is {DEFAULT}")
        return cls(LibraryTokenizer.from_file(str(path)))

    @property
    def vocab(self) -> int:
        """How many ids there are; a model's embedding has as many rows."""
        return len(self.pieces)

    @cached_property
    def pieces(self) -> tuple[bytes, ...]:
        byte_of = {character: byte for byte, character in enumerate(byte_alphabet())}
        entries = sorted(self._library.get_vocab().items(), key=lambda entry: entry[1])
        return tuple(b"" if token == MARK else bytes(byte_of[character] for character in token) for token, _ in entries)

    def encode(self, text: str | bytes) -> list[int]:
        """Ids of a text, or of any bytes. Never contains END: whoever joins documents adds it."""
        if not isinstance(text, str | bytes | bytearray | memoryview):  # bytes(5) would be five NULs
            raise ValueError(f"a text is str or bytes, got {text!r}; ids become bytes by decode")
        try:
            content = text.encode("utf-8") if isinstance(text, str) else bytes(text)
        except UnicodeEncodeError as error:
            half = f"character {error.start} is half of a surrogate pair ({text[error.start]!r})"
            raise ValueError(f"{half}: no UTF-8 text has it; pass bytes, or replace it") from None
        ids: list[int] = []
        for part in _valid_parts(content):
            if isinstance(part, str):
                ids += self._library.encode(part, add_special_tokens=False).ids
            else:
                ids += (self._byte_ids[byte] for byte in part)
        return ids

    def encode_many(self, texts: list[str]) -> list[list[int]]:
        """The same for many texts at once, on all cores; for preparing data, since forking after it makes the library warn."""
        return [encoding.ids for encoding in self._library.encode_batch_fast(texts, add_special_tokens=False)]

    def decode(self, ids: Iterable[int]) -> bytes:
        """The bytes that the ids stand for; END stands for none."""
        return b"".join(self.piece(i) for i in ids)

    def text(self, ids: Iterable[int]) -> str:
        """The ids as text; bytes that are no UTF-8 show as U+FFFD."""
        return self.decode(ids).decode("utf-8", errors="replace")

    def stream(self, ids: Iterable[int]) -> Iterator[str]:
        """One piece of text for each id, as soon as it arrives, and one for what is left at the end.

        A piece is "" while a character is incomplete; the pieces together are `text(ids)`.
        """
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        for i in ids:
            yield decoder.decode(self.piece(i))
        if rest := decoder.decode(b"", final=True):
            yield rest

    def piece(self, i: int) -> bytes:
        """The bytes of one token."""
        if not 0 <= i < self.vocab:  # a negative index would quietly mean the last tokens
            raise ValueError(f"token {i} is not in the vocabulary; ids go from 0 to {self.vocab - 1}")
        return self.pieces[i]

    @cached_property
    def _byte_ids(self) -> list[int]:
        ids = {piece: i for i, piece in enumerate(self.pieces)}
        return [ids[bytes([byte])] for byte in range(256)]


def _valid_parts(content: bytes) -> Iterator[str | bytes]:
    """The content cut into text and the bytes between that no UTF-8 text has."""
    # surrogateescape turns byte 0xNN that does not fit into U+DCNN, which no valid UTF-8 decodes to
    for part in re.split("([\udc80-\udcff]+)", content.decode("utf-8", errors="surrogateescape")):
        if part:
            yield part if part[0] not in _ESCAPED else part.encode("utf-8", errors="surrogateescape")


def byte_alphabet() -> list[str]:
    """The character that stands for each byte in tokenizer.json, as GPT-2 defined it: itself, or one from U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]
