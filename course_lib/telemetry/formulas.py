"""The metrics that are computed from times and counts, a line or two each. Definitions: metrics.py."""

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise


def per_token(joules: float, tokens: int) -> float | None:
    """None when no token was made."""
    return joules / tokens if tokens else None


def rate_gb_per_s(bytes_before: int, bytes_after: int, seconds: float) -> float:
    """From a byte counter read twice; 1 GB = 1e9 bytes."""
    if bytes_after < bytes_before:
        raise ValueError(f"the counter went from {bytes_before} to {bytes_after}: it was reset; read it again")
    return (bytes_after - bytes_before) / seconds / 1e9


def arithmetic_intensity(flops: float, bytes_moved: float) -> float:
    return flops / bytes_moved


def ttft_seconds(arrival: float, token_times: Sequence[float]) -> float:
    return token_times[0] - arrival


def itl_seconds(token_times: Sequence[float]) -> list[float]:
    """n tokens have n - 1 gaps."""
    return [later - earlier for earlier, later in pairwise(token_times)]


def tpot_seconds(token_times: Sequence[float]) -> float | None:
    """Seconds per token after the first; None for a single token."""
    return (token_times[-1] - token_times[0]) / (len(token_times) - 1) if len(token_times) > 1 else None


def tokens_per_second(tokens: int, seconds: float) -> float:
    return tokens / seconds


def mean(values: Sequence[float]) -> float:
    return statistics.fmean(values)


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def p99(values: Sequence[float]) -> float:
    """Nearest rank: of 100 values the 99th, of 50 the largest."""
    ordered = sorted(values)
    return ordered[math.ceil(0.99 * len(ordered)) - 1]


def share(part: float, whole: float) -> float | None:
    """None when there was nothing to share: 0 of 0 is no hit rate."""
    return part / whole if whole else None


def kv_fragmentation(tokens: Sequence[int], block_size: int) -> float | None:
    """Empty slots of the last blocks over all slots held. 17 tokens in blocks of 16 hold 32 slots, 15 of them empty: 0.469."""
    slots = sum(-(-count // block_size) * block_size for count in tokens)
    return (slots - sum(tokens)) / slots if slots else None


def breach_share(latencies: Sequence[float], target: float) -> float | None:
    """Equality keeps the target: 40.0 against 40.0 is no breach."""
    return sum(value > target for value in latencies) / len(latencies) if latencies else None
