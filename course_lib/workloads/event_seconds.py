"""Device seconds of repeated calls, by marks in the device's queue, for runners and workloads; course_lib.timing says why so."""

from collections.abc import Callable
from typing import Any


def event_seconds(call: Callable[[], Any], *, repeats: int = 20, warmup: int = 3) -> list[float]:
    """Seconds of each of `repeats` calls, queued one behind the other after `warmup` that are not counted.

    A call is to take the device longer than the host needs to queue it, or the wait for the host is counted. Raises RuntimeError
    without a CUDA device.
    """
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError("device seconds are measured on a CUDA device, and this machine shows none; see `labs doctor`")
    for _ in range(warmup):
        call()
    torch.cuda.synchronize()
    marks = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(repeats)]
    for start, end in marks:
        start.record()
        call()
        end.record()
    torch.cuda.synchronize()
    return [start.elapsed_time(end) / 1e3 for start, end in marks]
