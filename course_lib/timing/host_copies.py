"""Copies between the host's memory and the device's: both directions, from pinned and from pageable memory."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from .events import require_whole

SIZES_BYTES = tuple(2**power for power in range(12, 31, 2))  # 4 KiB to 1 GiB


@dataclass(frozen=True, slots=True)
class HostCopy:
    """One kind of copy. `seconds`, one for each repetition, are the host's, up to the return from a wait for the device."""

    direction: str  # "to the device", "to the host"
    memory: str  # "pinned", "pageable"
    num_bytes: int
    seconds: tuple[float, ...]

    @property
    def gb_per_s(self) -> float:
        return self.num_bytes / statistics.median(self.seconds) / 1e9


def measure_host_copies(sizes_bytes: Sequence[int] = SIZES_BYTES, repeats: int = 9) -> list[HostCopy]:
    """Every size, direction and kind of memory, a few seconds in all. Raises RuntimeError where there is no CUDA device.

    The host's clock is the right one here: the host takes part in a copy from pageable memory, and waits for it.
    """
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError("a copy to a device needs one, and this machine shows none; see `labs doctor`")
    require_whole(repeats=(repeats, 1))
    found = []
    for num_bytes in sizes_bytes:
        device = torch.zeros(num_bytes, dtype=torch.uint8, device="cuda")
        for memory, direction in product(("pinned", "pageable"), ("to the device", "to the host")):
            host = torch.ones(num_bytes, dtype=torch.uint8, pin_memory=memory == "pinned")  # written, so that every page exists
            target, source = (device, host) if direction == "to the device" else (host, device)
            seconds = _waited(lambda to=target, of=source: to.copy_(of, non_blocking=True), torch.cuda.synchronize, repeats)
            found.append(HostCopy(direction, memory, num_bytes, seconds))
    return found


def _waited(call: Callable[[], Any], wait: Callable[[], None], repeats: int) -> tuple[float, ...]:
    out = []
    for _ in range(repeats + 2):  # two to warm up
        wait()
        before = time.perf_counter()
        call()
        wait()
        out.append(time.perf_counter() - before)
    return tuple(out[2:])


def as_rows(copies: Sequence[HostCopy]) -> list[dict[str, Any]]:
    """Rows of a result file: pinned beside pageable, in GB/s, for each direction and size."""
    found = {(copy.direction, copy.memory, copy.num_bytes): copy for copy in copies}
    rows = []
    for (direction, memory, num_bytes), pinned in found.items():
        if memory == "pinned":
            pageable = found[direction, "pageable", num_bytes]
            spread = [num_bytes / seconds / 1e9 for seconds in (max(pinned.seconds), min(pinned.seconds))]
            rows.append({"case": f"{direction}, {num_bytes} bytes", "unit": "GB/s", "ours": pinned.gb_per_s,
                         "peer": pageable.gb_per_s, "peer_name": "pageable memory", "ratio": pinned.gb_per_s / pageable.gb_per_s,
                         "roof_share": None, "spread": spread, "direction": direction, "bytes": num_bytes})  # fmt: skip
    return rows
