"""One kernel, several clocks: what each way to time a kernel says about it, on the device that is here.

A benchmark keeps the results of an H200, and a notebook on a GPU measures its own, so that a reader sees how wrong each is.
Not here  the right way itself: time_calls in events.py.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .events import time_calls
from .flush import l2_flusher

PRODUCT, COPY, SHORT = "product 8192 x 8192 x 8192", "copy of 16 MiB", "addition of 4096 numbers"
RIGHT = "events, cold L2, warmed up, median"
LOOP = 20  # launches between two events of a loop average
LOAD = 200  # products before a timed one, some tenths of a second: clocks follow power, and power follows the load


@dataclass(frozen=True, slots=True)
class Clock:
    """What one clock says about one kernel; `seconds` in the order in which they were measured."""

    kernel: str
    name: str
    seconds: tuple[float, ...]

    @property
    def median_seconds(self) -> float:
        return statistics.median(self.seconds)

    @property
    def spread_seconds(self) -> tuple[float, float]:
        """The smallest and the largest once a tenth at either end is left out."""
        ordered, cut = sorted(self.seconds), len(self.seconds) // 10
        return ordered[cut], ordered[-1 - cut]


def measure_clocks(samples: int = 60) -> list[Clock]:
    """All clocks on all three kernels; the right one of each kernel is named RIGHT and comes first. A few seconds on an H200.

    Raises RuntimeError where there is no CUDA device.
    """
    import torch

    flush = l2_flusher()
    half = torch.bfloat16 if torch.cuda.get_device_capability() >= (8, 0) else torch.float16
    a, b, zero = (make(8192, 8192, device="cuda", dtype=half) for make in (torch.randn, torch.randn, torch.zeros))
    out = torch.empty_like(a)

    def product() -> None:
        torch.matmul(a, b, out=out)

    def product_of_zeros() -> None:
        torch.matmul(zero, zero, out=out)

    first = host_seconds(product, 1, wait=True)
    random_data, zeros = [], []
    for _ in range(2):  # in turns: the clock that one leaves behind is the clock that the other finds
        random_data += time_calls(product, repeats=samples // 2, warmup=LOAD, before=flush).seconds
        zeros += time_calls(product_of_zeros, repeats=samples // 2, warmup=LOAD, before=flush).seconds
    found = [
        Clock(PRODUCT, RIGHT, tuple(random_data)),
        Clock(PRODUCT, "the first call", first),
        Clock(PRODUCT, "host clock, no wait", host_seconds(product, samples, wait=False)),
        Clock(PRODUCT, "all values zero", tuple(zeros)),
    ]

    source = torch.randint(0, 2**31 - 1, (2**22,), device="cuda", dtype=torch.int32)
    target = torch.empty_like(source)

    def copy() -> None:
        target.copy_(source)

    def flush_and_copy() -> None:
        flush()
        copy()

    found += [
        Clock(COPY, RIGHT, time_calls(copy, repeats=samples, before=flush).seconds),
        Clock(COPY, "warm L2", time_calls(copy, repeats=samples).seconds),
        Clock(COPY, "flush between the events", time_calls(flush_and_copy, repeats=samples).seconds),
    ]

    few = torch.randn(4096, device="cuda")

    def add() -> None:
        few.add_(1.0)

    return [
        *found,
        Clock(SHORT, RIGHT, time_calls(add, repeats=samples, before=flush).seconds),
        Clock(SHORT, "host clock, waits", host_seconds(add, samples, wait=True)),
        Clock(SHORT, "events on an idle device", seconds_on_idle_device(add, samples)),
        Clock(SHORT, f"{LOOP} launches between two events", loop_averages(add, samples)),
    ]


def host_seconds(call: Callable[[], Any], samples: int, *, wait: bool) -> tuple[float, ...]:
    """The host's clock around a call, the device idle before it; `wait`: until the device is done."""
    import torch

    out = []
    for _ in range(samples):
        torch.cuda.synchronize()
        before = time.perf_counter()
        call()
        if wait:
            torch.cuda.synchronize()
        out.append(time.perf_counter() - before)
    torch.cuda.synchronize()
    return tuple(out)


def seconds_on_idle_device(call: Callable[[], Any], samples: int) -> tuple[float, ...]:
    """Two events around a call that the device has to wait for."""
    import torch

    out = []
    for _ in range(samples):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        out.append(start.elapsed_time(end) / 1e3)
    return tuple(out)


def loop_averages(call: Callable[[], Any], samples: int) -> tuple[float, ...]:
    """Two events around LOOP calls, divided."""

    def loop() -> None:
        for _ in range(LOOP):
            call()

    return tuple(seconds / LOOP for seconds in seconds_on_idle_device(loop, samples))


def as_rows(clocks: Sequence[Clock]) -> list[dict[str, Any]]:
    """Rows of a result file, in microseconds, each beside the right clock of its kernel."""
    right = {clock.kernel: clock.median_seconds for clock in clocks if clock.name == RIGHT}
    return [
        {"case": f"{clock.kernel}: {clock.name}", "unit": "us", "ours": clock.median_seconds * 1e6,
         "peer": right[clock.kernel] * 1e6, "peer_name": RIGHT, "ratio": clock.median_seconds / right[clock.kernel],
         "roof_share": None, "spread": [seconds * 1e6 for seconds in clock.spread_seconds], "kernel": clock.kernel,
         "clock": clock.name, "samples_us": [round(seconds * 1e6, 3) for seconds in clock.seconds]}
        for clock in clocks
    ]  # fmt: skip
