"""A number with its uncertainty: the share of two sums over documents, and where it would lie with other documents of the kind.

Documents are drawn and not tokens: tokens of one module are alike, and counting them as independent makes intervals too narrow.
"""

from collections.abc import Sequence
from dataclasses import dataclass

RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Estimate:
    """value with the interval low ... high (95%, bootstrap over documents); count: tokens behind it."""

    value: float
    low: float
    high: float
    count: int

    def __str__(self) -> str:
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}] over {self.count:,} tokens"


def ratio_interval(
    parts: Sequence[float], wholes: Sequence[float], *, level: float = 0.95, seed: int = 0
) -> tuple[float, float]:
    """(low, high) of sum(parts) / sum(wholes) when the documents are drawn again with replacement. One document gives (it, it).

    Source   the percentile bootstrap: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 13.
    """
    import numpy as np

    if not 0 < level < 1:
        raise ValueError(f"level is a share between 0 and 1, such as 0.95; got {level}")
    if len(parts) != len(wholes) or not len(parts):
        raise ValueError(f"{len(parts)} parts for {len(wholes)} wholes; give one of each for every document, at least one")
    drawn = np.random.default_rng(seed).integers(len(parts), size=(RESAMPLES, len(parts)))
    ratios = np.asarray(parts, dtype=np.float64)[drawn].sum(1) / np.asarray(wholes, dtype=np.float64)[drawn].sum(1)
    low, high = np.quantile(ratios, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def share(parts: Sequence[float], tokens: Sequence[int]) -> Estimate:
    """sum(parts) / sum(tokens) with its interval; documents without tokens say nothing and are left out."""
    kept = [(part, count) for part, count in zip(parts, tokens, strict=True) if count]
    parts, tokens = [part for part, _ in kept], [count for _, count in kept]
    low, high = ratio_interval(parts, tokens)
    return Estimate(sum(parts) / sum(tokens), low, high, sum(tokens))
