"""Mix the encoded documents and pack them small enough to carry: at most 45 MiB in all.

Layout   train-NN.xz: little-endian uint16 tokens, document after document, the mark Tokenizer.END after each.
         held_out.xz: the same for the held-out modules, in the list's order. shards.json: counts, sizes, hashes.
Order    which shard a document is in and where follows from a hash of its content, so it is random and the same every time.
         Prose is there twice, both copies in one shard: in reach of the packer's dictionary the second costs almost nothing.
Packing  LZMA2 with lp=1, pb=1 (the data come in pairs of bytes); Python's `lzma.open` reads it with no options.
"""

import hashlib
import json
import lzma
from collections.abc import Iterable
from pathlib import Path

from course_lib.model.held_out import HeldOutText, digest
from course_lib.model.tokenizer import Tokenizer

from .encode import DTYPE, chosen, encoded
from .prepare import Document, documents

LIMIT_BYTES = 45 * 2**20
SHARD_TOKENS = 32_000_000  # 64 MB: as far as the packer's dictionary reaches
PROSE_COPIES = 2
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9, "lp": 1, "pb": 1}]


def run(build: Path, held_out: Iterable[HeldOutText]) -> None:
    folder = build / "shards"
    tokenizer = Tokenizer.load(folder / "tokenizer.json")
    some = chosen(documents(build))
    tokens = encoded(build)
    total = sum(map(len, tokens))
    parts = layout(some, -(-total // SHARD_TOKENS))
    for old in folder.glob("*.xz"):
        old.unlink()
    rows = []
    for number, part in enumerate(parts):
        rows.append(_pack(folder / f"train-{number:02}.xz", [tokens[index] for index in part]))
        # a second copy costs nothing to pack, so each document counts once
        share = sum(len(tokens[index]) for done in parts[: number + 1] for index in set(done)) / total
        packed = sum(row["packed_bytes"] for row in rows)
        print(f"shards: {number + 1}/{len(parts)}, {packed / 2**20:.1f} MiB so far", flush=True)
        if packed / share > 1.02 * LIMIT_BYTES:  # the shards are alike, so the first already tells; check() is exact
            mib = packed / share / 2**20
            raise RuntimeError(
                f"the shards will be about {mib:.1f} MiB, the limit is {LIMIT_BYTES / 2**20:.0f}: lower BUDGET_BYTES in encode.py"
            )
    held = list(held_out)
    aside = encode_all(tokenizer, [text.content for text in held])
    pairs = zip(held, aside, strict=True)
    modules = [{"module": text.module, "bytes": len(text.content), "tokens": len(ids) - 1} for text, ids in pairs]
    description = {
        "dtype": "uint16 little-endian", "end": Tokenizer.END, "vocab": tokenizer.vocab,
        "tokenizer_sha256": hashlib.sha256((folder / "tokenizer.json").read_bytes()).hexdigest(),
        "text": {"documents": len(some), "bytes": sum(d.bytes for d in some), "tokens": total, "prose_copies": PROSE_COPIES},
        "shards": rows,
        "held_out": {**_pack(folder / "held_out.xz", aside), "text_sha256": digest(tuple(held)), "modules": modules},
    }  # fmt: skip
    (folder / "shards.json").write_text(json.dumps(description, indent=1) + "\n", encoding="utf-8")
    check(folder)


def encode_all(tokenizer: Tokenizer, texts: list[bytes]) -> list:
    """The same for a few texts of any bytes."""
    import numpy as np

    return [np.array([*tokenizer.encode(text), Tokenizer.END], dtype=DTYPE) for text in texts]


def layout(some: list[Document], shards: int) -> list[list[int]]:
    """Indices of documents for each shard, in their order there; prose comes PROSE_COPIES times, at unrelated places."""
    keyed: list[list[tuple[bytes, int]]] = [[] for _ in range(shards)]
    for index, document in enumerate(some):
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
