"""Keep a device busy with the same call for some time, while its counters are read."""

import time
from collections.abc import Callable
from typing import Any


def loop_for(seconds: float, call: Callable[[], Any], calls_per_wait: int = 50) -> int:
    """Repeat `call` until `seconds` have passed -> how many calls were finished; the host waits after every `calls_per_wait`."""
    import torch

    until, done = time.perf_counter() + seconds, 0
    while time.perf_counter() < until:
        for _ in range(calls_per_wait):
            call()
        torch.cuda.synchronize()
        done += calls_per_wait
    return done
