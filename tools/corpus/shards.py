"""Encode the clean text, mix it, and pack it small enough to carry: at most 45 MiB in all.

Layout   train-NN.xz: little-endian uint16 tokens, document after document, the mark Tokenizer.END after each.
         held_out.xz: the same for the held-out modules, in the list's order. shards.json: counts, sizes, hashes.
Order    which shard a document is in and where follows from a hash of its content, so it is random and the same every time.
         Prose is there twice, both copies in one shard: in reach of the packer's dictionary the second costs almost nothing.
Packing  LZMA2 with lp=1, pb=1 (the data come in pairs of bytes); Python's `lzma.open` reads it with no options.
"""

import hashlib
import json
import lzma
import time
from collections.abc import Iterable
from pathlib import Path

from course_lib.model.held_out import HeldOutText, digest
from course_lib.model.tokenizer import Tokenizer

from .prepare import Document, contents, documents

LIMIT_BYTES = 45 * 2**20
SHARD_TOKENS = 32_000_000  # 64 MB: as far as the packer's dictionary reaches
PROSE_COPIES = 2
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9, "lp": 1, "pb": 1}]
DTYPE = "<u2"


def run(build: Path, held_out: Iterable[HeldOutText]) -> None:
    folder = build / "shards"
    tokenizer = Tokenizer.load(folder / "tokenizer.json")
    chosen = documents(build)
    tokens = encode(tokenizer, chosen, contents(build, chosen))
    total = sum(map(len, tokens))
    parts = layout(chosen, -(-total // SHARD_TOKENS))
    planned = sum(len(tokens[index]) for part in parts for index in part)
    for old in folder.glob("*.xz"):
        old.unlink()
    rows = []
    for number, part in enumerate(parts):
        rows.append(_pack(folder / f"train-{number:02}.xz", [tokens[index] for index in part]))
        share = sum(len(tokens[index]) for done in parts[: number + 1] for index in done) / planned
        packed = sum(row["packed_bytes"] for row in rows)
        print(f"shards: {number + 1}/{len(parts)}, {packed / 2**20:.1f} MiB so far", flush=True)
        if packed / share > 1.005 * LIMIT_BYTES:  # the shards are alike, so the first already tells
            mib = packed / share / 2**20
            raise RuntimeError(f"the shards will be about {mib:.1f} MiB, the limit is {LIMIT_BYTES / 2**20:.0f}: drop a source")
    held = list(held_out)
    aside = encode_all(tokenizer, [text.content for text in held])
    pairs = zip(held, aside, strict=True)
    modules = [{"module": text.module, "bytes": len(text.content), "tokens": len(ids) - 1} for text, ids in pairs]
    description = {
        "dtype": "uint16 little-endian", "end": Tokenizer.END, "vocab": tokenizer.vocab,
        "tokenizer_sha256": hashlib.sha256((folder / "tokenizer.json").read_bytes()).hexdigest(),
        "text": {"documents": len(chosen), "bytes": sum(d.bytes for d in chosen), "tokens": total, "prose_copies": PROSE_COPIES},
        "shards": rows,
        "held_out": {**_pack(folder / "held_out.xz", aside), "text_sha256": digest(tuple(held)), "modules": modules},
    }  # fmt: skip
    (folder / "shards.json").write_text(json.dumps(description, indent=1) + "\n", encoding="utf-8")
    check(folder)


def encode(tokenizer: Tokenizer, chosen: list[Document], texts: Iterable[bytes]) -> list:
    """A uint16 array for each document, the mark at its end; every 50th is decoded again and compared."""
    import numpy as np

    arrays, batch, start, size = [], [], time.monotonic(), sum(d.bytes for d in chosen)
    done = shown = 0
    for number, content in enumerate(texts, 1):
        batch.append(content)
        done += len(content)
        if len(batch) < 200 and number < len(chosen):
            continue
        ids = tokenizer.encode_many([text.decode() for text in batch])
        if any(tokenizer.decode(some) != text for some, text in zip(ids[::50], batch[::50], strict=True)):
            raise AssertionError("a document did not come back from its tokens; the tokenizer is broken")
        arrays += [np.array([*some, Tokenizer.END], dtype=DTYPE) for some in ids]
        batch = []
        if done - shown > 50_000_000:
            shown = done
            print(f"shards: encoded {done / 1e6:.0f} of {size / 1e6:.0f} MB, {time.monotonic() - start:.0f} s", flush=True)
    return arrays


def encode_all(tokenizer: Tokenizer, texts: list[bytes]) -> list:
    """The same for a few texts of any bytes."""
    import numpy as np

    return [np.array([*tokenizer.encode(text), Tokenizer.END], dtype=DTYPE) for text in texts]


def layout(chosen: list[Document], shards: int) -> list[list[int]]:
    """Indices of documents for each shard, in their order there; prose comes PROSE_COPIES times, at unrelated places."""
    keyed: list[list[tuple[bytes, int]]] = [[] for _ in range(shards)]
    for index, document in enumerate(chosen):
        where = int(document.sha256[:16], 16) % shards
        for copy in range(PROSE_COPIES if document.kind == "prose" else 1):
            keyed[where].append((hashlib.sha256(f"{document.sha256} {document.path} {copy}".encode()).digest(), index))
    return [[index for _, index in sorted(part)] for part in keyed]


def read_shard(path: Path):
    """The tokens of one shard as a uint16 array."""
    import numpy as np

    with lzma.open(path) as file:
        return np.frombuffer(file.read(), dtype=DTYPE)


def check(folder: Path) -> None:
    """Every shard unpacks to what shards.json says, and together they are within the limit."""
    description = json.loads((folder / "shards.json").read_text(encoding="utf-8"))
    for row in (*description["shards"], description["held_out"]):
        tokens = read_shard(folder / row["file"])
        facts = (len(tokens), int((tokens == description["end"]).sum()), hashlib.sha256(tokens.tobytes()).hexdigest())
        if facts != (row["tokens"], row["documents"], row["sha256"]):
            raise AssertionError(f"{row['file']} unpacks to {facts}, shards.json says otherwise; build the shards again")
    packed = sum(row["packed_bytes"] for row in (*description["shards"], description["held_out"]))
    if packed > LIMIT_BYTES:
        raise AssertionError(f"the shards take {packed / 2**20:.1f} MiB, the limit is {LIMIT_BYTES / 2**20:.0f}")


def _pack(path: Path, arrays: list) -> dict:
    """Write the arrays one after the other -> the row of shards.json."""
    data = b"".join(array.tobytes() for array in arrays)
    path.write_bytes(lzma.compress(data, format=lzma.FORMAT_XZ, filters=FILTERS))
    return {
        "file": path.name, "tokens": len(data) // 2, "documents": len(arrays),
        "packed_bytes": path.stat().st_size, "sha256": hashlib.sha256(data).hexdigest(),
    }  # fmt: skip
