"""Choose the documents that fit the carrying limit, and encode them: tokens.bin and tokens.json, which shards.py mixes and packs.

tokens.bin   little-endian uint16, the chosen documents one after the other, the mark after each; tokens.json: each one's length.
"""

import hashlib
import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from course_lib.model.tokenizer import Tokenizer

from .prepare import Document, contents, documents

BUDGET_BYTES = 303_000_000  # of text: what packs into 45 MiB, measured (shards.py refuses more than that)
DTYPE = "<u2"
TOKENS, LENGTHS = "tokens.bin", "tokens.json"
BATCH = 200


def chosen(every: list[Document], budget: int = BUDGET_BYTES) -> list[Document]:
    """All prose, and code in the order of a hash until the budget is used: no package is left out, each loses the same share."""
    order = sorted(every, key=lambda d: (d.kind != "prose", hashlib.sha256(b"budget" + d.sha256.encode()).digest()))
    taken, total = [], 0
    for document in order:
        if total + document.bytes > budget:
            break
        taken.append(document)
        total += document.bytes
    return sorted(taken, key=lambda document: document.start)


def run(build: Path) -> None:
    tokenizer = Tokenizer.load(build / "shards" / "tokenizer.json")
    some = chosen(documents(build))
    lengths, done, shown, start = [], 0, 0, time.monotonic()
    size = sum(d.bytes for d in some)
    with (build / TOKENS).open("wb") as file:
        for batch in _batches(contents(build, some)):
            for array in encode(tokenizer, batch):
                file.write(array.tobytes())
                lengths.append(len(array))
            done += sum(map(len, batch))
            if done - shown > 50_000_000:
                shown = done
                print(f"encode: {done / 1e6:.0f} of {size / 1e6:.0f} MB, {time.monotonic() - start:.0f} s", flush=True)
    (build / LENGTHS).write_text(json.dumps(lengths), encoding="utf-8")


def encode(tokenizer: Tokenizer, batch: list[bytes]) -> list:
    """A uint16 array for each text, the mark at its end; every 50th is decoded again and compared."""
    import numpy as np

    ids = tokenizer.encode_many([text.decode() for text in batch])
    if any(tokenizer.decode(some) != text for some, text in zip(ids[::50], batch[::50], strict=True)):
        raise AssertionError("a document did not come back from its tokens; the tokenizer is broken")
    return [np.array([*some, Tokenizer.END], dtype=DTYPE) for some in ids]


def encoded(build: Path) -> list:
    """What run() wrote: one array for each chosen document, in their order."""
    import numpy as np

    tokens = np.fromfile(build / TOKENS, dtype=DTYPE)
    lengths = json.loads((build / LENGTHS).read_text(encoding="utf-8"))
    if sum(lengths) != len(tokens):
        raise AssertionError(f"{build / TOKENS} has {len(tokens)} tokens, {LENGTHS} says {sum(lengths)}; encode again")
    return np.split(tokens, np.cumsum(lengths)[:-1])


def _batches(texts: Iterable[bytes]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    for text in texts:
        batch.append(text)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch
