"""How long a product of one token with a weight takes, for weights of 1 MiB to 1 GiB: what a decode step makes of the bandwidth.

A plain read of the same bytes is faster: a product also has to bring its token along, and to add up along the rows. The two
curves side by side say how much of a step's distance to the floor is the size of its kernels, and how much their kind.

Result   {"bytes": [...], "seconds": [...], "spread": [[low, high], ...], "gb_per_s": [...]}, as measure_read_curve gives it;
         bytes are those of the weight.
"""

import statistics
from typing import Any

from .decode_stack import product
from .graph_seconds import graph_seconds

INNER = 4096
SMALLEST_BYTES, LARGEST_BYTES = 2**20, 2**30
POOL_BYTES = 2**31  # weights of one graph together: many times any L2


def measure_product_curve(tokens: int = 1, *, repeats: int = 9) -> dict[str, Any]:
    """Measure bf16 products [tokens, 4096] x [4096, width] on the CUDA device in use, about two seconds.

    Weights that do not fit three times into a third of the free memory are left out. Raises RuntimeError without a CUDA device.
    """
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError("a product curve is measured on a CUDA device, and this machine shows none")
    room = min(POOL_BYTES, torch.cuda.mem_get_info()[0] // 3)
    pool = torch.randn(room // (2 * INNER), INNER, device="cuda", dtype=torch.bfloat16)
    x = torch.randn(tokens, INNER, device="cuda", dtype=torch.bfloat16)
    points = []
    size = SMALLEST_BYTES
    while size <= min(LARGEST_BYTES, room // 2):
        width = size // (2 * INNER)
        weights = pool[: len(pool) // width * width].view(-1, width, INNER)[:300]
        out = torch.empty(tokens, width, device="cuda", dtype=torch.bfloat16)
        calls = [lambda weight=weight, out=out: product(x, weight, out) for weight in weights]
        times = graph_seconds(calls, repeats=repeats)
        points.append((float(size), statistics.median(times), [min(times), max(times)]))
        size *= 2
    return {
        "bytes": [size for size, _, _ in points],
        "seconds": [seconds for _, seconds, _ in points],
        "spread": [spread for _, _, spread in points],
        "gb_per_s": [size / seconds / 1e9 for size, seconds, _ in points],
    }
