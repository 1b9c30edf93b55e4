"""One product after the other from 1 token to 4096: where does it stop waiting for memory?

Claims of the roadmap: one token uses 5% of the tensor cores (C002); prefill always waits for arithmetic (C003); 30% of the peak
is reached at an intensity of 0.2 (C064); the example of 256 tokens waits for arithmetic for sure (C040) and takes 8.3 ms (C041).

Cold   weights take turns in a pool of several times the L2, as they do in a model, so that each is read from memory.
"""

import itertools
import sys
from collections.abc import Callable, Sequence

import torch

from course_lib.hardware import find_spec
from course_lib.roofline import product_counts
from course_lib.timing import Timing, time_in_graph
from course_lib.workloads.read_curve import measure_read_curve

from ._points import product_tflops, rate_row, row
from ._result import write_result

SOURCES = ("benchmarks/knee.py", "benchmarks/_points.py", "course_lib/workloads/read_curve.py",
           "course_lib/workloads/read_curve_kernel.py", "course_lib/timing/graph.py", "course_lib/workloads/captured.py",
           "course_lib/workloads/event_seconds.py", "course_lib/workloads/large_product.py")  # fmt: skip
HIDDEN, MLP = 4096, 14336  # Llama-3-8B
TOKENS = (1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 320, 384, 512, 768, 1024, 2048, 4096)
POOL_BYTES = 512 * 2**20


def main() -> int:
    if not torch.cuda.is_available():
        print("blocked: needs a CUDA device")
        return 1
    roof = product_tflops()
    rows = [_one_token(roof), *_mlp(roof), *_example(roof)]
    print(write_result("knee", rows, SOURCES))
    return 0


def knee_tokens(tokens: Sequence[int], tflops: Sequence[float], few: int = 16) -> float:
    """Tokens at which the slope of the small batches meets the highest rate, both as measured.

    The slope is the rate for each token, in the middle of those up to `few` tokens. 2 TFLOP/s a token and 600 at most: 300.
    """
    slopes = sorted(rate / count for count, rate in zip(tokens, tflops, strict=True) if count <= few)
    return max(tflops) / slopes[len(slopes) // 2]


def tokens_at_share(tokens: Sequence[int], tflops: Sequence[float], share: float, roof: float) -> float:
    """Tokens at which the rate first reaches a share of the roof, on a straight line between two measured points."""
    wanted, before = share * roof, (0, 0.0)
    for count, rate in zip(tokens, tflops, strict=True):
        if rate >= wanted:
            return before[0] + (count - before[0]) * (wanted - before[1]) / (rate - before[1])
        before = (count, rate)
    raise ValueError(f"{share:.0%} of {roof:.0f} TFLOP/s was not reached with {tokens[-1]} tokens; measure more")


def _weights(out: int, inner: int) -> list[torch.Tensor]:
    """Enough of them that each is cold when its turn comes again."""
    count = max(2, -(-POOL_BYTES // (2 * out * inner)))
    return [torch.randn(out, inner, device="cuda", dtype=torch.bfloat16) for _ in range(count)]


def _product(tokens: int, weights: Sequence[torch.Tensor]) -> Callable[[], None]:
    """A call that multiplies by the next weight."""
    out, inner = weights[0].shape
    x = torch.randn(tokens, inner, device="cuda", dtype=torch.bfloat16)
    y = torch.empty(tokens, out, device="cuda", dtype=torch.bfloat16)
    turns = itertools.cycle(weights)
    return lambda: torch.mm(x, next(turns).T, out=y)


def _one_token(roof: float) -> dict:
    timing = time_in_graph(_product(1, _weights(MLP, HIDDEN)), calls_per_graph=40)
    return rate_row(f"1 token, {HIDDEN} x {MLP}", product_counts(1, HIDDEN, MLP)[0], timing, roof)


def _mlp(roof: float) -> list[dict]:
    """Gate and up, then down: the two products of one MLP layer."""
    first, second = _weights(2 * MLP, HIDDEN), _weights(HIDDEN, MLP)
    rows, rates = [], []
    for tokens in TOKENS:
        one, two = _product(tokens, first), _product(tokens, second)
        timing = time_in_graph(lambda one=one, two=two: (one(), two()), calls_per_graph=12)
        flops = product_counts(tokens, HIDDEN, 2 * MLP)[0] + product_counts(tokens, MLP, HIDDEN)[0]
        rows.append(rate_row(f"MLP layer, {tokens} tokens", flops, timing, roof))
        rates.append(rows[-1]["ours"])
    read = measure_read_curve([2**28])
    measured_ridge = roof * 1e12 / (read["bytes"][0] / read["seconds"][0])
    knee = row("knee of the MLP layer", "tokens", knee_tokens(TOKENS, rates), measured_ridge, "the measured ridge")
    at_30 = tokens_at_share(TOKENS, rates, 0.30, roof)
    return [*rows, knee, row("30% of the product's rate", "tokens", at_30, 0.30 * measured_ridge, "30% of the measured ridge")]


def _example(roof: float) -> list[dict]:
    """256 tokens times 4096 x 4096, with its weight in memory and with its weight in L2."""
    sheet = find_spec(torch.cuda.get_device_name())
    peak, rate = (sheet.bf16_tflops, sheet.hbm_gb_per_s) if sheet else (roof, measure_read_curve([2**28])["gb_per_s"][0])
    flops, moved = product_counts(256, HIDDEN, HIDDEN)
    floor_us = max(flops / peak / 1e6, moved / rate / 1e3)
    cold, warm = _weights(HIDDEN, HIDDEN), _weights(HIDDEN, HIDDEN)[:1]
    return [_micros(f"256 tokens, 4096 x 4096, {name}", time_in_graph(_product(256, weights), calls_per_graph=64), floor_us)
            for name, weights in (("cold", cold), ("warm L2", warm))]  # fmt: skip


def _micros(case: str, timing: Timing, floor_us: float) -> dict:
    spread = [min(timing.seconds) * 1e6, max(timing.seconds) * 1e6]
    ours = timing.median_seconds * 1e6
    return row(case, "us", ours, floor_us, "the floor on the data sheet", spread, floor_us / ours)


if __name__ == "__main__":
    sys.exit(main())
