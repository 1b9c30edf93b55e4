"""What ran on the device during a call, kernel by kernel, with the times at which each began and ended.

The times are the device's own (torch.profiler reads them through CUPTI). A range that one marks on the host, with NVTX say, tells
when a kernel was launched, which is another time: the host is ahead of the device, or the device waits for it.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KernelRun:
    """One kernel, copy or fill on the device; microseconds from the first one's start."""

    name: str
    start_us: float
    end_us: float


def kernel_trace(call: Callable[[], object]) -> list[KernelRun]:
    """Run the call twice under the profiler -> what the second run did on the device, in order of start.

    A launch under the profiler takes longer than without it, so the waits between launches are upper limits; the times of the
    kernels are not touched.
    Raises RuntimeError without a CUDA device, and where the profiler sees no kernel (some containers do not let it).
    """
    import torch
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    if not torch.cuda.is_available():
        raise RuntimeError("a trace of kernels needs a CUDA device, and this machine shows none")
    call()
    torch.cuda.synchronize()
    with _quiet(), profile(activities=[ProfilerActivity.CUDA], acc_events=True) as seen:
        for _ in range(2):
            call()
            torch.cuda.synchronize()
    found = [(e.name, e.time_range.start, e.time_range.end) for e in seen.events() if e.device_type == DeviceType.CUDA]
    if not found:
        raise RuntimeError("torch.profiler saw no kernel; the driver or the container does not let CUPTI watch the device")
    found.sort(key=lambda each: each[1])
    return in_order(found[len(found) // 2 :])


def in_order(found: Sequence[tuple[str, float, float]]) -> list[KernelRun]:
    """(name, start, end) in any order, on any clock -> runs in order, from 0."""
    first = min(start for _, start, _ in found)
    return [KernelRun(name, start - first, end - first) for name, start, end in sorted(found, key=lambda each: each[1])]


@dataclass(frozen=True, slots=True)
class KernelGroup:
    """Runs of one kind in a trace. gap_us: mean time in which nothing ran before one of them."""

    name: str
    count: int
    mean_us: float
    gap_us: float

    @property
    def total_us(self) -> float:
        return self.count * self.mean_us


def host_operations(call: Callable[[], object]) -> list[KernelGroup]:
    """Run the call under the profiler -> torch's operations by their own time on the host, the longest total first; no gaps."""
    from torch.profiler import ProfilerActivity, profile

    call()
    with _quiet(), profile(activities=[ProfilerActivity.CPU], acc_events=True) as seen:
        call()
    found = [KernelGroup(e.key, e.count, e.self_cpu_time_total / e.count, 0.0) for e in seen.key_averages()]
    return sorted(found, key=lambda group: -group.total_us)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The profiler's library writes to the process's standard error when it starts and stops; a notebook would show it in red."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def breakdown(runs: Sequence[KernelRun], name_of: Callable[[int, str], str] | None = None) -> list[KernelGroup]:
    """Groups of a trace, the longest total first. name_of(place, kernel's name) names a run's group."""
    groups: dict[str, list[tuple[float, float]]] = {}
    done = runs[0].start_us if runs else 0.0
    for place, run in enumerate(runs):
        name = name_of(place, run.name) if name_of else run.name
        groups.setdefault(name, []).append((run.end_us - run.start_us, max(0.0, run.start_us - done)))
        done = max(done, run.end_us)
    found = [KernelGroup(name, len(rows), sum(r[0] for r in rows) / len(rows), sum(r[1] for r in rows) / len(rows))
             for name, rows in groups.items()]  # fmt: skip
    return sorted(found, key=lambda group: -group.total_us)


def decode_stack_names(runs: Sequence[KernelRun], layers: int) -> list[str]:
    """What each run of a DecodeStack's step at few tokens is, by its kernel's name and, for products, by its place.

    Products come in turns (q k v, output, gate and up, down); the last one is the head.
    """
    products, names = 0, []
    turns = ("q, k, v", "output", "gate and up", "down")
    for run in runs:
        if "skinny_product" in run.name:
            names.append("head" if products == len(turns) * layers else turns[products % len(turns)])
            products += 1
            continue
        known = {"add_rms_norm": "add and norm", "rope_append": "RoPE and append", "silu_product": "SwiGLU"}
        plain = next((words for part, words in known.items() if part in run.name), None)
        names.append(plain or ("attention" if products else "copy in"))
    return names
