"""Times of calls by marks in the device's queue (CUDA events)."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from .interval import bootstrap_interval

HOLD_CYCLES = 2_000_000  # about 1 ms: enough for the host to queue some hundred launches


class Mark(Protocol):
    """A place in the queue. It is passed when everything before it is done."""

    def record(self) -> None: ...

    def elapsed_time(self, end: Any, /) -> float:
        """Milliseconds of the device from this mark to that one."""


class Queue(Protocol):
    """What a timer needs of a device; tests give one that is simulated."""

    def mark(self) -> Mark: ...

    def hold(self) -> None:
        """Keep the device busy while the host fills the queue."""

    def wait(self) -> None:
        """Until the queue is empty."""


class CudaQueue:
    """The current CUDA stream. Raises RuntimeError where there is no CUDA device."""

    def __init__(self) -> None:
        import torch

        if not torch.cuda.is_available():
            raise RuntimeError("timing needs a CUDA device, and this machine shows none; see `labs doctor`")

    def mark(self) -> Mark:
        import torch

        return torch.cuda.Event(enable_timing=True)

    def hold(self) -> None:
        import torch

        torch.cuda._sleep(HOLD_CYCLES)

    def wait(self) -> None:
        import torch

        torch.cuda.synchronize()


def require_whole(**numbers: tuple[Any, int]) -> None:
    """name=(number, least): raises ValueError for what is no whole number, or a smaller one; NaN and 2.5 are none."""
    for name, (number, least) in numbers.items():
        if not isinstance(number, int) or number < least:
            raise ValueError(f"{name} must be a whole number, {least} or more; got {number!r}")


@dataclass(frozen=True, slots=True)
class Timing:
    """Device seconds of repeated calls, in the order in which they ran."""

    seconds: tuple[float, ...]

    @property
    def median_seconds(self) -> float:
        return statistics.median(self.seconds)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """(low, high) seconds around the median."""
        return bootstrap_interval(self.seconds, level)


def time_calls(
    call: Callable[[], Any],
    *,
    repeats: int = 20,
    warmup: int = 3,
    before: Callable[[], Any] | None = None,
    queue: Queue | None = None,
) -> Timing:
    """Device seconds of each of `repeats` calls, after `warmup` that are not counted.

    before  runs ahead of every call, warm-ups too, outside its time: `l2_flusher()`, to have data come from memory
    queue   the device; by default the current CUDA stream

    An event is exact to about 0.5 us (CUDA Runtime API, cudaEventElapsedTime), so a call of a few microseconds is better timed by
    time_in_graph, and so is one whose many launches take the host longer than the device.
    """
    require_whole(repeats=(repeats, 1), warmup=(warmup, 0))
    queue = queue or CudaQueue()
    for _ in range(warmup):
        if before:
            before()
        call()
    queue.wait()
    marks = [(queue.mark(), queue.mark()) for _ in range(repeats)]
    queue.hold()
    for start, end in marks:
        if before:
            before()
        start.record()
        call()
        end.record()
    queue.wait()
    return Timing(tuple(start.elapsed_time(end) / 1e3 for start, end in marks))
