"""What simpler means reach on the held-out text: xz -9, and byte n-grams that count the training text.

They stand beside the models' bits per byte (benchmarks/held_out_baselines.py writes them down): a model of some million weights
that does not beat a table of counts has learned nothing that is worth its name.
"""

import lzma
from collections.abc import Iterable, Sequence
from pathlib import Path

from .kneser_ney import KneserNey
from .prepare import Document, contents
from .train_tokenizer import sample

PART = b"\0" * 8  # between documents: longer than any context


def xz_bits_per_byte(texts: Sequence[bytes], *, one_stream: bool) -> float:
    """Preset 9, each text by itself or all in one stream; the container's bytes count, as they do for whoever stores it."""
    parts = [b"".join(texts)] if one_stream else texts
    return 8 * sum(len(lzma.compress(part, preset=9)) for part in parts) / sum(map(len, texts))


def training_text(build: Path, chosen: list[Document], size: int) -> bytes:
    """About `size` bytes of random documents, NULs between and around them."""
    return PART + PART.join(contents(build, sample(chosen, size))) + PART


def kneser_ney_bits_per_byte(model: KneserNey, texts: Iterable[bytes]) -> float:
    """Mean -log2 p over all bytes of the texts, each text by itself."""
    import numpy as np

    bits = size = 0
    for text in texts:
        bits -= np.log2(model.probabilities(text)).sum()
        size += len(text)
    return float(bits / size)
