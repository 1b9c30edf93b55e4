"""The third regime: a step that waits for its launches, neither for memory nor for arithmetic.

A kernel runs when the host has launched it and the kernel before it has ended. The host is busy for a few microseconds with each
launch, whatever the kernel does. Kernels longer than a launch hide the launches behind them: the host runs ahead. Kernels shorter
than a launch leave the device idle between them, and the step takes as long as the host needs.

When a graph helps      many kernels, each shorter than its launch: small models, small batches, fused kernels that got fast
When it does not        kernels longer than their launches: the device is busy already, and a graph cannot make it faster
"""

from collections.abc import Sequence
from dataclasses import dataclass

from .models import ModelShape

QWEN3_0_6B = ModelShape(  # arXiv 2505.09388, table 1, and the config.json of the released weights
    name="Qwen3-0.6B", layers=28, hidden=1024, mlp_hidden=3072, heads=16, kv_heads=8, head_dim=128, vocab=151936, tied_head=True
)


@dataclass(frozen=True, slots=True)
class Launched:
    """One kernel in time: when the host was done with its launch, and when it ran. Seconds from the start of the step."""

    launched: float
    start: float
    end: float


def queue(kernel_seconds: Sequence[float], launch_seconds: float) -> list[Launched]:
    """Kernels that follow each other in one stream: start[i] = max((i + 1) * launch_seconds, end[i - 1]).

    Launches of 5, kernels of 2 and 9: the first runs from 5 to 7, the second from 10 to 19.
    """
    done, rows = 0.0, []
    for place, seconds in enumerate(kernel_seconds):
        launched = (place + 1) * launch_seconds
        start = max(launched, done)
        done = start + seconds
        rows.append(Launched(launched, start, done))
    return rows


def eager_seconds(kernel_seconds: Sequence[float], launch_seconds: float) -> float:
    """From the first launch to the end of the last kernel, exactly: the end of the queue. 0 for no kernels."""
    return queue(kernel_seconds, launch_seconds)[-1].end if kernel_seconds else 0.0


def eager_limit_seconds(kernel_seconds: Sequence[float], launch_seconds: float) -> float:
    """The simple form: the longer of all kernels and all launches. Never above `eager_seconds`.

    For n equal kernels the exact time is longer by one launch (the device waits for the first) or one kernel (the last one is
    still running when the host is done), whichever is shorter: with hundreds of kernels, nothing.
    """
    return max(sum(kernel_seconds), len(kernel_seconds) * launch_seconds)


def graph_seconds(kernel_seconds: Sequence[float], replay_seconds: float, gap_seconds: float = 0.0) -> float:
    """All kernels handed over at once: one launch of the graph, then kernel after kernel with a gap between two of them."""
    return replay_seconds + sum(kernel_seconds) + max(0, len(kernel_seconds) - 1) * gap_seconds


def launch_bound(kernel_seconds: Sequence[float], launch_seconds: float) -> bool:
    """True when the launches take longer than the kernels: the mean kernel is shorter than a launch.

    100 kernels of 3 us and launches of 4 us: True. Of 5 us: False.
    """
    return sum(kernel_seconds) < len(kernel_seconds) * launch_seconds


def hiding_bytes(launch_seconds: float, gb_per_s: float) -> float:
    """Bytes that a kernel has to move to last as long as a launch. 5 us at 3350 GB/s: 16.75 MB; 1 GB = 1e9 bytes."""
    return launch_seconds * gb_per_s * 1e9


def tokens_per_second_lost(batch: int, eager: float, graph: float) -> float:
    """What eager launches cost a batch, from the seconds of a step either way. Negative if eager is the faster one."""
    return batch / graph - batch / eager
