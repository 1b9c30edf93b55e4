"""Two ways of doing the same work, timed in turns in one run: the ratio that survives a change of clocks."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .events import require_whole, time_calls
from .flush import l2_flusher
from .interval import bootstrap_interval


@dataclass(frozen=True, slots=True)
class Ratio:
    """How fast ours is against the peer: peer's seconds over ours, so 1.1 is 10% faster. One ratio for each round."""

    ratios: tuple[float, ...]
    ours_seconds: float  # medians over the rounds
    peer_seconds: float

    @property
    def median(self) -> float:
        return statistics.median(self.ratios)

    @property
    def low(self) -> float:
        return bootstrap_interval(self.ratios)[0]

    @property
    def high(self) -> float:
        return bootstrap_interval(self.ratios)[1]


def paired_ratio(
    ours: Callable[[], Any],
    peer: Callable[[], Any],
    *,
    rounds: int = 9,
    measure: Callable[[Callable[[], Any]], float] | None = None,
) -> Ratio:
    """Time both once a round, the other one first in every second round: what the first does to the second weighs on both alike.

    measure  seconds of a call; by default the median of five, L2 flushed before each
    """
    require_whole(rounds=(rounds, 2))  # each of the two comes first once
    measure = measure or _cold_median()
    ours_seconds, peer_seconds = [], []
    for number in range(rounds):
        turns = [(ours, ours_seconds), (peer, peer_seconds)]
        for call, seconds in turns if number % 2 == 0 else reversed(turns):
            seconds.append(measure(call))
            if not seconds[-1] > 0:
                raise ValueError(f"a call took {seconds[-1]} s, of which no ratio can be made; does it launch anything?")
    ratios = tuple(theirs / mine for mine, theirs in zip(ours_seconds, peer_seconds, strict=True))
    return Ratio(ratios, statistics.median(ours_seconds), statistics.median(peer_seconds))


def _cold_median() -> Callable[[Callable[[], Any]], float]:
    flush = l2_flusher()
    return lambda call: time_calls(call, repeats=5, warmup=1, before=flush).median_seconds
