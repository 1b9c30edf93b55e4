"""Record a device while a `with` block runs: a thread takes readings, and a summary says what the block cost.

It prints nothing, and no failure of a counter ends the block: what could not be read is None in the summary, and a sentence says
why.
"""

import threading
import time
from typing import Any

from .gpm import Gpm, GpmMetrics, GpmUnavailableError
from .nvml import NvmlUnavailableError, handle_of, sentence, session
from .reading import Reading, read
from .summary import Summary, summarise

NO_DEVICE = "there are no counters here; run it on a machine with an NVIDIA GPU, or look at recorded('telemetry_loops')"


class Recorder:
    """with Recorder() as recorder: work(); torch.cuda.synchronize()  ->  recorder.summary()

    interval_seconds  between readings; GPM asks for 0.1 s at least, and the driver renews its power and energy hardly more often
    device            as in nvml.handle_of
    readings, gpm     what was read; gpm[i] are the means between readings i-1 and i (gpm[0] is None)
    why_not           why nothing is recorded, or no more than was; "" when all is. gpm_why_not the same for GPM
    """

    def __init__(self, interval_seconds: float = 0.1, device: int | str | None = None) -> None:
        if not 0.01 <= interval_seconds <= 3600:
            allowed = "at least 0.01 (readings take milliseconds) and at most 3600"
            raise ValueError(f"interval_seconds is {interval_seconds}; give {allowed}")
        self.interval_seconds, self.device = interval_seconds, device
        self.readings: list[Reading] = []
        self.gpm: list[GpmMetrics | None] = []
        self.why_not = self.gpm_why_not = ""
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._session: Any = None
        self._gpm: Gpm | None = None

    def __enter__(self) -> "Recorder":
        try:
            self._open()
        except NvmlUnavailableError as error:
            self._close()
            self.why_not = f"{error}; {NO_DEVICE}"
            self.gpm_why_not = self.why_not
            return self
        if not self._took():
            self._close()
            return self
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        if self._thread is None:
            return
        try:
            self._stop.set()
            self._thread.join()
            if not self.why_not:
                self._took()
        finally:
            self._thread = None
            self._close()

    def summary(self) -> Summary:
        """What was recorded so far, from the first reading to the last."""
        return summarise(self.readings, self.gpm, self.why_not, self.gpm_why_not)

    def samples(self) -> list[dict[str, Any]]:
        """The readings as plain raw samples, as exercise 1.7 takes them: millijoules, percent, a bit mask."""
        return [_raw(reading, gpm) for reading, gpm in zip(self.readings, self.gpm, strict=True)]

    def _open(self) -> None:
        opened = session()
        self._nvml = opened.__enter__()
        self._session = opened
        self._handle = handle_of(self._nvml, self.device)
        try:
            self._gpm = Gpm(self._nvml, self._handle)
        except GpmUnavailableError as error:
            self.gpm_why_not = str(error)

    def _close(self) -> None:
        if self._gpm is not None:
            self._gpm.close()
            self._gpm = None
        if self._session is not None:
            self._session.__exit__(None, None, None)
            self._session = None

    def _run(self) -> None:
        due = time.perf_counter() + self.interval_seconds
        while not self._stop.wait(max(0.0, due - time.perf_counter())):
            if not self._took():
                return
            due = max(due, time.perf_counter() - self.interval_seconds) + self.interval_seconds

    def _took(self) -> bool:
        """One more reading, or why there will be none: whatever a driver answers, the block goes on."""
        try:
            self._take()
        except Exception as error:
            self.why_not = f"the readings stopped: {sentence(error)}"
            return False
        return True

    def _take(self) -> None:
        """One reading; where GPM works, the means since the one before, which hold PCIe too."""
        metrics = None
        reading = read(self._nvml, self._handle, pcie=self._gpm is None)
        if self._gpm is not None:
            try:
                metrics = self._gpm.since_last()
            except self._nvml.NVMLError as error:
                self.gpm_why_not = self.gpm_why_not or f"GPM stopped: {sentence(error)}"
        self.gpm.append(metrics if self.readings else None)
        self.readings.append(reading)


def _raw(reading: Reading, gpm: GpmMetrics | None) -> dict[str, Any]:
    joules, watts = reading.joules_since_driver_load, reading.watts
    given = gpm is not None and gpm.tensor_percent is not None and gpm.dram_percent is not None
    return {
        "seconds": reading.host_seconds,
        "energy_mj": None if joules is None else round(joules * 1e3),
        "power_mw": None if watts is None else round(watts * 1e3),
        "busy_percent": reading.busy_time_percent,
        "memory_busy_percent": reading.memory_busy_time_percent,
        "sm_mhz": reading.sm_mhz,
        "reasons": reading.reasons_mask,
        "gpm": {"tensor_percent": gpm.tensor_percent, "dram_percent": gpm.dram_percent} if given else None,
    }
