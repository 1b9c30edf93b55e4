"""One 4096 by 4096 product in bf16 with more and more tokens: where time stops being that of the weights.

Cold     each call takes the next weight of a pool that is larger than any L2, as the layers of a model do: they come from memory
Warm     one weight for every call: it stays in L2, and a careless benchmark measures this
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch

SIZE = 4096
TOKENS = (1, 2, 4, 8, 16, 32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 512, 768, 1024, 2048)
POOL_WEIGHTS = 16  # of 33.5 MB: 537 MB


class Products:
    """A call multiplies [tokens, SIZE] by the next weight of the pool; random data, since zeros draw less power."""

    def __init__(self, tokens: int, weights: torch.Tensor) -> None:
        self.x = torch.randn(tokens, SIZE, dtype=weights.dtype, device=weights.device)
        self.out = torch.empty_like(self.x)
        self._next = itertools.cycle(weights.unbind())

    def __call__(self) -> torch.Tensor:
        return torch.matmul(self.x, next(self._next), out=self.out)


def pool(weights: int = POOL_WEIGHTS, device: str = "cuda", dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """[weights, SIZE, SIZE], random."""
    return torch.randn(weights, SIZE, SIZE, dtype=dtype, device=device)


def token_sweep(
    time: Callable[..., Any], weights: torch.Tensor, tokens: Sequence[int] = TOKENS
) -> list[tuple[int, float, float, float]]:
    """[(tokens, median seconds, low, high), ...] of a product, with weights taken in turns.

    time   course_lib.timing.time_in_graph: (call, calls_per_graph=) -> .median_seconds and .seconds
    """
    rows = []
    for count in tokens:
        timing = time(Products(count, weights), calls_per_graph=2 * POOL_WEIGHTS)
        rows.append((count, timing.median_seconds, min(timing.seconds), max(timing.seconds)))
    return rows
