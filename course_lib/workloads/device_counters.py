"""The driver's counters as plain numbers, through NVML's C library: for runners, which carry no package into the sandbox.

Nothing is computed here. The course's own telemetry (course_lib.telemetry) reads the same counters and more through nvidia-ml-py.
Signatures and structures: nvml.h of CUDA 12 and later.
"""

import ctypes
import threading
import time
from typing import Any

TENSOR, DRAM = 5, 10  # nvmlGpmMetricId_t: ANY_TENSOR_UTIL, DRAM_BW_UTIL
_WORDS = {3: "not supported", 4: "no permission", 6: "not found", 9: "driver not loaded", 13: "unknown to this driver"}


class CountersUnavailableError(RuntimeError):
    """A counter cannot be read here; the message says which and why."""


class Rates(ctypes.Structure):
    """nvmlUtilization_t"""

    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class GpmMetric(ctypes.Structure):
    """nvmlGpmMetric_t"""

    _fields_ = (
        ("metricId", ctypes.c_uint), ("nvmlReturn", ctypes.c_uint), ("value", ctypes.c_double),
        ("shortName", ctypes.c_char_p), ("longName", ctypes.c_char_p), ("unit", ctypes.c_char_p),
    )  # fmt: skip


class GpmMetricsGet(ctypes.Structure):
    """nvmlGpmMetricsGet_t; the driver fills the first numMetrics of the metrics"""

    _fields_ = (
        ("version", ctypes.c_uint), ("numMetrics", ctypes.c_uint), ("sample1", ctypes.c_void_p), ("sample2", ctypes.c_void_p),
        ("metrics", GpmMetric * 512),
    )  # fmt: skip


class DeviceCounters:
    """with DeviceCounters(uuid) as counters: counters.start(); work; samples = counters.stop()

    uuid     "GPU-..." of the device; library: stands in for NVML's, for tests
    samples  dicts: seconds (time.perf_counter), energy_mj, power_mw, busy_percent, memory_busy_percent, sm_mhz, reasons, and gpm
             {"tensor_percent", "dram_percent"} since the sample before, None in the first
    Raises CountersUnavailableError, naming the call, where any of them cannot be had.
    """

    def __init__(self, uuid: str, library: Any = None) -> None:
        try:
            self._nvml = library or ctypes.CDLL("libnvidia-ml.so.1")
        except OSError as error:
            raise CountersUnavailableError(f"NVML's library cannot be loaded ({error}); it comes with the driver") from error
        self._uuid, self._device = uuid, ctypes.c_void_p()
        self._gpm: list[ctypes.c_void_p] = []
        self._samples: list[dict[str, Any]] = []
        self._stop, self._thread = threading.Event(), None
        self._failed: CountersUnavailableError | None = None

    def __enter__(self) -> "DeviceCounters":
        self._call("nvmlInit_v2")
        try:
            self._call("nvmlDeviceGetHandleByUUID", self._uuid.encode(), ctypes.byref(self._device))
            for _ in range(2):
                sample = ctypes.c_void_p()
                self._call("nvmlGpmSampleAlloc", ctypes.byref(sample))
                self._gpm.append(sample)
            self._call("nvmlGpmSampleGet", self._device, self._gpm[0])
        except CountersUnavailableError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: Any) -> None:
        self._end_thread()
        for sample in self._gpm:
            self._nvml.nvmlGpmSampleFree(sample)
        self._gpm = []
        self._nvml.nvmlShutdown()

    def start(self, interval_seconds: float = 0.1) -> None:
        """Take samples in a thread until stop(); the first one is taken now."""
        self._samples, self._failed = [], None
        self._stop.clear()
        self._take()
        self._thread = threading.Thread(target=self._run, args=(interval_seconds,), daemon=True)
        self._thread.start()

    def stop(self) -> list[dict[str, Any]]:
        self._end_thread()
        if self._failed:
            raise self._failed
        self._take()
        return self._samples

    def power_limit_watts(self) -> float:
        return self._number("nvmlDeviceGetEnforcedPowerLimit", ctypes.c_uint) / 1e3

    def _run(self, interval_seconds: float) -> None:
        while not self._stop.wait(interval_seconds):
            try:
                self._take()
            except CountersUnavailableError as error:
                self._failed = error
                return

    def _end_thread(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _take(self) -> None:
        energy_mj = self._number("nvmlDeviceGetTotalEnergyConsumption", ctypes.c_ulonglong)
        seconds, gpm, rates = time.perf_counter(), self._since_last(), Rates()
        self._call("nvmlDeviceGetUtilizationRates", self._device, ctypes.byref(rates))
        self._samples.append({
            "seconds": seconds,
            "energy_mj": energy_mj,
            "power_mw": self._number("nvmlDeviceGetPowerUsage", ctypes.c_uint),
            "busy_percent": rates.gpu,
            "memory_busy_percent": rates.memory,
            "sm_mhz": self._number("nvmlDeviceGetClockInfo", ctypes.c_uint, 1),
            "reasons": self._number("nvmlDeviceGetCurrentClocksThrottleReasons", ctypes.c_ulonglong),
            "gpm": gpm if self._samples else None,
        })  # fmt: skip

    def _since_last(self) -> dict[str, float]:
        self._gpm.reverse()
        self._call("nvmlGpmSampleGet", self._device, self._gpm[0])
        request = GpmMetricsGet(version=1, numMetrics=2, sample1=self._gpm[1].value, sample2=self._gpm[0].value)
        request.metrics[0].metricId, request.metrics[1].metricId = TENSOR, DRAM
        self._call("nvmlGpmMetricsGet", ctypes.byref(request))
        tensor, dram = request.metrics[0], request.metrics[1]
        if code := tensor.nvmlReturn or dram.nvmlReturn:
            raise CountersUnavailableError(f"GPM gives no tensor or memory activity here ({_in_words(code)})")
        return {"tensor_percent": tensor.value, "dram_percent": dram.value}

    def _number(self, name: str, kind: Any, *arguments: int) -> int:
        value = kind()
        self._call(name, self._device, *arguments, ctypes.byref(value))
        return value.value

    def _call(self, name: str, *arguments: Any) -> None:
        try:
            code = getattr(self._nvml, name)(*arguments)
        except AttributeError as error:
            raise CountersUnavailableError(f"this driver's NVML has no {name}; GPM needs Hopper and a newer driver") from error
        if code:
            raise CountersUnavailableError(f"{name} answers: {_in_words(code)}; these points need NVML's energy counter and GPM")


def _in_words(code: int) -> str:
    return f"{_WORDS.get(code, 'error')} (code {code})"
