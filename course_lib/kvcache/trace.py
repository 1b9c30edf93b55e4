"""Ragged requests to replay: how long prompts and answers are, drawn from a seed.

Lengths  log-normal, rounded up, cut to what fits: most are short, a few are very long, as in logs of chat services. The cut moves
         the mean, so the parameters were set such that the mean of what comes out is the one that is named.
`roadmap`   mean 1.7k, at most 4k tokens in all: the workload of the roadmap's claim on ragged batches (C097).
`sharegpt`  prompts of 161 and answers of 338 tokens in the mean, at most 2048 in all: the means that arXiv 2309.06180, figure 11,
            states for ShareGPT. The shape is our log-normal, not their data.
"""

from dataclasses import dataclass
from math import ceil
from random import Random

from .errors import KVCacheError


@dataclass(frozen=True, slots=True)
class Request:
    """The server knows prompt_tokens when it arrives, output_tokens only when it has ended."""

    prompt_tokens: int
    output_tokens: int

    def __post_init__(self) -> None:
        if min(self.prompt_tokens, self.output_tokens) < 1:
            raise KVCacheError(f"a request of {self.prompt_tokens} and {self.output_tokens} tokens; use at least 1 of both")

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.output_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """exp of a normal: median tokens, and sigma of the logarithm."""

    median: float
    sigma: float

    def draw(self, random: Random) -> int:
        return max(1, ceil(self.median * random.lognormvariate(0, self.sigma)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What requests look like. One that would be longer than max_tokens is cut: its prompt to half, its answer to the rest."""

    name: str
    prompt: Lengths
    output: Lengths
    max_tokens: int

    def requests(self, count: int, seed: int = 0) -> list[Request]:
        """The same requests for the same seed."""
        if count < 1:
            raise KVCacheError(f"{count} requests; use at least 1")
        random = Random(seed)
        return [self._request(random) for _ in range(count)]

    def _request(self, random: Random) -> Request:
        prompt, output = self.prompt.draw(random), self.output.draw(random)
        prompt = min(prompt, max(self.max_tokens // 2, self.max_tokens - output))
        return Request(prompt, min(output, self.max_tokens - prompt))


ROADMAP = Workload(name="roadmap", prompt=Lengths(median=605, sigma=0.9), output=Lengths(median=605, sigma=0.9), max_tokens=4096)
SHAREGPT = Workload(name="sharegpt", prompt=Lengths(median=98, sigma=1.0), output=Lengths(median=230, sigma=0.9), max_tokens=2048)
WORKLOADS: tuple[Workload, ...] = (ROADMAP, SHAREGPT)
