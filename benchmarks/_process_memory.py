"""The most memory that a process and everything it started held at one moment.

Two sums over the processes: *proportional* (PSS) divides a page that several processes share among them, so it counts each page
once, as a container's limit does; *resident* (RSS) counts it in each, and is never less.
"""

import threading
from types import TracebackType

import psutil

SECONDS_BETWEEN = 0.1


class PeakMemory:
    """Watches the family of process `pid` while the block runs; afterwards the peaks in GB (1e9 bytes) are there."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.proportional_gb = self.resident_gb = 0.0
        self.processes = 0  # at the moment of the proportional peak

    def __enter__(self) -> "PeakMemory":
        self._thread.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while True:
            proportional, resident, processes = family_gb(self._pid)
            if proportional > self.proportional_gb:
                self.proportional_gb, self.processes = proportional, processes
            self.resident_gb = max(self.resident_gb, resident)
            if self._done.wait(SECONDS_BETWEEN):
                return


def family_gb(pid: int) -> tuple[float, float, int]:
    """-> (proportional GB, resident GB, number of processes) of a process and its descendants now; zeros when it has ended."""
    try:
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0.0, 0.0, 0
    proportional = resident = processes = 0
    for member in family:
        try:
            memory = member.memory_full_info()
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue  # it ended while we looked
        proportional, resident, processes = proportional + memory.pss, resident + memory.rss, processes + 1
    return proportional / 1e9, resident / 1e9, processes
