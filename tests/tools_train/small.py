"""A corpus of the running Python's own sources, bytes as tokens, and a model small enough to train in seconds."""

import math
import sysconfig
from collections import Counter
from itertools import pairwise
from pathlib import Path

import torch

from course_lib.model.config import MlaConfig, ModelConfig

TINY = ModelConfig(name="tiny", vocab=257, hidden=64, layers=2, heads=2, kv_heads=1, head_dim=32, mlp_hidden=128)
TINY_MLA = ModelConfig(
    name="tiny-mla", vocab=257, hidden=64, layers=2, heads=2, kv_heads=2, head_dim=32, mlp_hidden=128,
    mla=MlaConfig(kv_rank=32, rope_dim=16, nope_dim=32, v_dim=32),
)  # fmt: skip


def text_bytes(count=200_000):
    """So many bytes of ordinary Python, in a fixed order."""
    folder = Path(sysconfig.get_path("stdlib"))
    names = ("argparse", "typing", "inspect", "tarfile", "zipfile", "ast", "socket", "threading", "subprocess", "tokenize")
    text = b"".join(path.read_bytes() for name in names if (path := folder / f"{name}.py").is_file())
    return text[:count]


def corpus(count=200_000):
    return torch.tensor(list(text_bytes(count)), dtype=torch.int16)


def bigram_nats(text):
    """The entropy of a byte given the byte before, counted on the text itself: no bigram model can do better on it."""
    pairs, firsts = Counter(pairwise(text)), Counter(text[:-1])
    return -sum(count * math.log(count / firsts[first]) for (first, _), count in pairs.items()) / (len(text) - 1)
