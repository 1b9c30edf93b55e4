"""Train the byte-level BPE tokenizer on about 40 MB of random documents; the same text gives the same file, byte for byte.

Plain ByteLevel() pre-tokenizer (GPT-2's pattern): one of our own, with newline and indentation as one piece, was 2 % shorter on
mixed code and the same on the standard library, and costs a reader one more regular expression.
The document mark has id 0, so the merges start behind the 256 bytes at 257.
"""

import hashlib
import json
import sys
from collections.abc import Iterable
from pathlib import Path

from course_lib.model.tokenizer import MARK, VOCAB

from .prepare import Document, contents, documents

SAMPLE_BYTES = 40_000_000


def train(texts: Iterable[str], vocab: int = VOCAB):
    """A `tokenizers.Tokenizer` with `vocab` entries: the document mark, 256 bytes, and merges."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=vocab, special_tokens=[MARK], initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    if tokenizer.get_vocab_size() != vocab:
        raise ValueError(f"the text gave {tokenizer.get_vocab_size()} tokens, not {vocab}; train on more text")
    return tokenizer


def sample(chosen: list[Document], size: int = SAMPLE_BYTES) -> list[Document]:
    """Documents in the order of a hash of their own hash until `size` bytes are together: random, and the same every time."""
    order = sorted(chosen, key=lambda document: hashlib.sha256(b"tokenizer" + document.sha256.encode()).digest())
    taken, total = [], 0
    for document in order:
        if total >= size:
            break
        taken.append(document)
        total += document.bytes
    return taken


def run(build: Path) -> None:
    chosen = sample(documents(build))
    print(f"tokenizer: training on {len(chosen)} documents, {sum(d.bytes for d in chosen) / 1e6:.1f} MB", flush=True)
    tokenizer = train(content.decode() for content in contents(build, chosen))
    (build / "shards").mkdir(exist_ok=True)
    text = json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":"))
    (build / "shards" / "tokenizer.json").write_text(text + "\n", encoding="utf-8")
    from course_lib.model.tokenizer import DEFAULT

    if DEFAULT.exists() and DEFAULT.read_text(encoding="utf-8") != text + "\n":
        print(f"tokenizer: differs from {DEFAULT}, which the released weights were trained with; see README.md", flush=True)


if __name__ == "__main__":
    run(Path(sys.argv[1]))
