"""From logits to the next token: temperature, top-k, top-p, a seed.

Order    temperature first, then top-k, then top-p over what top-k left, as common servers do it. Ties go to the lower id.
Edges    temperature 0 is greedy and divides nothing; any other is applied to logits minus their maximum in float64, so that 1e-6
         neither overflows nor leaves nothing. top_k 0 is off, and more than the vocabulary is the vocabulary. top_p keeps the
         fewest tokens whose probabilities reach p, the one that crosses it included, so that p = 0 keeps one; p = 1 keeps all.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real

import torch
from torch import Tensor

SEEDS = 2**32  # how many differ: torch's generator on the CPU, a Mersenne twister, is seeded by 32 bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How the next token is chosen; without arguments the likeliest one. Row r of a batch draws from seed + r.

    A seed has 32 bits: more would be taken by torch and not be read, so that two seeds drew the same.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not (isinstance(self.temperature, Real) and 0 <= self.temperature < math.inf):
            raise ValueError(f"temperature is {self.temperature!r}; use a number from 0 (greedy) up")
        if not (isinstance(self.top_k, Integral) and self.top_k >= 0):
            raise ValueError(f"top_k is {self.top_k!r}; use a whole number from 1 up, or 0 for no limit")
        if not (isinstance(self.top_p, Real) and 0 <= self.top_p <= 1):
            raise ValueError(f"top_p is {self.top_p!r}; use 0 (the likeliest token) to 1 (all tokens)")
        if not (isinstance(self.seed, Integral) and 0 <= self.seed < SEEDS):
            raise ValueError(f"seed is {self.seed!r}; use a whole number from 0 to {SEEDS - 1}")


GREEDY = Sampling()


def token_probs(logits: Tensor, sampling: Sampling = GREEDY) -> Tensor:
    """Probabilities with which each token is drawn. logits: [rows, vocab] -> float64 [rows, vocab], each row sums to 1.

    ValueError for a row with a NaN or +inf, or with no finite logit; -inf is a token that cannot be drawn.
    """
    largest = logits.amax(-1, keepdim=True)  # NaN where the row has one
    bad = (~largest.isfinite()).nonzero()
    if bad.numel():
        row = int(bad[0, 0])
        raise ValueError(f"row {row} of the logits has the maximum {float(largest[row])}; a row needs a finite one and no NaN")
    if sampling.temperature == 0:
        return torch.zeros_like(logits, dtype=torch.float64).scatter_(-1, _first_of_largest(logits, largest), 1.0)
    probs = torch.softmax((logits.double() - largest.double()) / sampling.temperature, dim=-1)
    vocab = logits.shape[-1]
    limited = 0 < sampling.top_k < vocab
    if not limited and sampling.top_p == 1:
        return probs
    ordered, order = probs.sort(dim=-1, descending=True, stable=True)
    if limited:
        ordered[:, sampling.top_k :] = 0
        ordered /= ordered.sum(-1, keepdim=True)
    if sampling.top_p < 1:
        before = ordered.cumsum(-1) - ordered  # what the likelier tokens have together
        dropped = before >= sampling.top_p
        dropped[:, 0] = False
        ordered = ordered.masked_fill(dropped, 0)
        ordered = ordered / ordered.sum(-1, keepdim=True)
    return torch.zeros_like(probs).scatter_(-1, order, ordered)


def generators(sampling: Sampling, rows: int) -> list[torch.Generator]:
    """One stream of random numbers for each row, so that a row draws the same whatever its neighbours do."""
    return [torch.Generator().manual_seed((int(sampling.seed) + row) % SEEDS) for row in range(rows)]


def choose(probs: Tensor, streams: Sequence[torch.Generator]) -> Tensor:
    """Draw one token a row: the first whose running sum passes a uniform number. probs [rows, vocab] -> int64 [rows] on the host.

    A token of probability 0 is never drawn.
    """
    running = probs.double().cumsum(-1).cpu()
    uniform = torch.stack([torch.rand(1, generator=stream, dtype=torch.float64) for stream in streams])
    place = torch.searchsorted(running, uniform * running[:, -1:], right=True).squeeze(-1)
    last = torch.searchsorted(running, running[:, -1:].contiguous()).squeeze(-1)  # the last one with a probability
    return torch.minimum(place, last)


def _first_of_largest(logits: Tensor, largest: Tensor) -> Tensor:
    """[rows, 1]: argmax, and among equals the lowest id, which torch.argmax does not promise."""
    ids = torch.arange(logits.shape[-1], device=logits.device)
    return ids.where(logits == largest, logits.shape[-1]).amin(-1, keepdim=True)
