"""Products of one layer's weight, 4096 x 4096 in bf16, with 1 to 4096 tokens: points on a roofline from its slope to its roof.

Each call of a graph multiplies another of 16 weights, half a gigabyte in all, so that no weight is found in L2.
"""

import statistics
from dataclasses import dataclass

from .decode_stack import product
from .graph_seconds import graph_seconds

WIDTH, WEIGHTS = 4096, 16
TOKENS = (1, 8, 64, 256, 1024, 4096)


@dataclass(frozen=True, slots=True)
class LayerProduct:
    """One point: seconds of [tokens, 4096] x [4096, 4096], with the shortest and the longest of some repeats."""

    tokens: int
    seconds: float
    shortest: float
    longest: float

    @property
    def flops(self) -> int:
        return 2 * self.tokens * WIDTH**2

    @property
    def flops_per_byte(self) -> float:
        """Weight, input and output moved once each, 2 bytes a value."""
        return self.flops / (2 * (WIDTH**2 + 2 * self.tokens * WIDTH))

    @property
    def tflops(self) -> float:
        return self.flops / self.seconds / 1e12


def measure_layer_products(repeats: int = 15) -> list[LayerProduct]:
    """Measure on the CUDA device in use, about a second. Raises RuntimeError without one."""
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError("layer products are measured on a CUDA device, and this machine shows none")
    weights = [torch.randn(WIDTH, WIDTH, device="cuda", dtype=torch.bfloat16) for _ in range(WEIGHTS)]
    points = []
    for tokens in TOKENS:
        x, out = (torch.randn(tokens, WIDTH, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        calls = [lambda weight=weight, x=x, out=out: product(x, weight, out) for weight in weights]
        times = graph_seconds(calls, repeats=repeats)
        points.append(LayerProduct(tokens, statistics.median(times), min(times), max(times)))
    return points
