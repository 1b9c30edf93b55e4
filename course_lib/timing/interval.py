"""How far a median can be trusted: the percentile bootstrap (Efron 1979), in plain Python and the same at every run.

Draw as many samples as there are, with replacement, many times; the middle 95% of the medians of these draws is the interval. It
speaks of noise between the samples. What shifts all of them alike (a clock, a flush left out) it cannot see.
"""

import math
import random
import statistics
from collections.abc import Callable, Sequence

RESAMPLES = 1000


def bootstrap_interval(
    samples: Sequence[float],
    level: float = 0.95,
    seed: int = 0,
    statistic: Callable[[Sequence[float]], float] = statistics.median,
) -> tuple[float, float]:
    """(low, high) around the samples' median, or another statistic. One sample gives (it, it).

    Raises ValueError without samples, or for a level that is not between 0 and 1.
    """
    if not samples:
        raise ValueError("no samples, so no interval; measure once at least, and five times or more to learn something")
    if not all(map(math.isfinite, samples)):
        raise ValueError(f"samples are finite numbers; got {list(samples)[:5]}")
    if not 0 < level < 1:
        raise ValueError(f"level is a share between 0 and 1, such as 0.95; got {level}")
    draw = random.Random(seed)
    found = sorted(statistic(draw.choices(samples, k=len(samples))) for _ in range(RESAMPLES))
    tail = round((1 - level) / 2 * (RESAMPLES - 1))
    return found[tail], found[-1 - tail]
