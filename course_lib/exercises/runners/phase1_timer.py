"""Exercise 1.3: calls of the learner's timer, on a simulated device whose delays are known and on the device that is here.

The judge replays the operations on the simulated one outside, and believes no time that comes out of the process of the answer.
"""

import statistics
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

__course_runner__ = True  # messages name the learner's line, not one of this file


def time_kernel(entry: Any, case: dict) -> dict:
    """The learner's seconds on a simulated device, and what they did with it, in order."""
    from course_lib.workloads.simulated_gpu import simulated_gpu

    gpu, launch, machine = simulated_gpu(case["device"])
    seconds = plain(entry(gpu, launch, case["repeats"]))
    return {"seconds": seconds, "operations": "\n".join(machine.operations)}


def plain(seconds: Any) -> Any:
    """A float of a subclass, as numpy's median is one, as a float; anything else as it is."""
    return float.__float__(seconds) if issubclass(type(seconds), float) else seconds


def real_gpu() -> Any:
    """The same four names on CUDA. The flush writes four times the L2, then reads, so that nothing is left to be written back."""
    l2_bytes = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
    scratch = torch.empty(max(l2_bytes, 16 * 2**20), dtype=torch.float32, device="cuda")
    half, largest = scratch[: len(scratch) // 2], torch.empty((), device="cuda")

    def flush_l2() -> None:
        scratch.zero_()
        torch.amax(half, 0, out=largest)

    return SimpleNamespace(
        Event=torch.cuda.Event, synchronize=torch.cuda.synchronize, flush_l2=flush_l2, perf_counter=time.perf_counter
    )


def timer_on_this_device(entry: Any, case: dict) -> dict:
    """The learner's timer and ours on three kernels, in turns. ratios: our seconds / the learner's."""
    if not torch.cuda.is_available():
        return {"blocked": "needs a CUDA device, and this machine shows none"}
    gpu, repeats = real_gpu(), case["repeats"]
    ratios, seconds = [], {}
    kernels = _kernels()
    for name, launch in kernels.items():
        pairs = []
        for turn in range(case["rounds"]):
            first_ours = turn % 2 == 0
            ours = _reference(gpu, launch, repeats) if first_ours else None
            theirs = plain(entry(gpu, launch, repeats))
            gpu.synchronize()
            ours = _reference(gpu, launch, repeats) if ours is None else ours
            if type(theirs) is not float:  # the simulated cases tell what is wrong with it
                raise TypeError(f"expected a float, got {type(theirs).__name__}")
            pairs.append([theirs, ours])
        seconds[name] = pairs
        ratios += [ours / max(theirs, 1e-12) for theirs, ours in pairs]
    copy_us = statistics.median(ours for _, ours in seconds["copy"]) * 1e6
    return {
        "device": torch.cuda.get_device_name(),
        "peer": "the course's own timer",
        "ratios": ratios,
        "roof_share": _back_to_back_us(kernels["copy"]) / copy_us,
        "seconds": seconds,
    }


def _kernels() -> dict[str, Callable[[], Any]]:
    """A copy of a gigabyte, a matrix product, and an addition that takes less time than it takes to launch."""
    source = torch.randint(0, 2**31 - 1, (2**28,), device="cuda", dtype=torch.int32)
    target = torch.empty_like(source)
    half = torch.bfloat16 if torch.cuda.get_device_capability() >= (8, 0) else torch.float16
    a, b = (torch.randn(4096, 4096, device="cuda", dtype=half) for _ in range(2))
    out = torch.empty_like(a)
    few = torch.randn(4096, device="cuda")
    return {"copy": lambda: target.copy_(source), "product": lambda: torch.matmul(a, b, out=out), "short": lambda: few.add_(1.0)}


def _reference(gpu: Any, launch: Callable[[], Any], repeats: int) -> float:
    for _ in range(3):
        launch()
    marks = [(gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)) for _ in range(repeats)]
    for start, end in marks:
        gpu.flush_l2()
        start.record()
        launch()
        end.record()
    gpu.synchronize()
    return statistics.median(start.elapsed_time(end) for start, end in marks) / 1e3


def _back_to_back_us(launch: Callable[[], Any], count: int = 20) -> float:
    """Microseconds of one launch of many with nothing between them: what the device does at its best."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    launch()
    start.record()
    for _ in range(count):
        launch()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) * 1e3 / count
