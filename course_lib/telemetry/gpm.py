"""GPM, the GPU performance monitor of Hopper and newer: which units of the chip really worked, between two samples.

These are the counters that "utilisation" is mistaken for: the share of time in which tensor instructions ran, and the share of
the memory's bandwidth in use (NVML API reference, nvmlGpmMetricId_t). Where driver, MIG or permission do not give them, a
sentence says so.
"""

import math
from dataclasses import dataclass, fields
from typing import Any

from .nvml import ask, sentence

METRIC_IDS = {  # field of GpmMetrics -> nvmlGpmMetricId_t
    "sm_percent": 2,
    "occupancy_percent": 3,
    "tensor_percent": 5,
    "hmma_percent": 7,
    "dram_percent": 10,
    "fp32_percent": 12,
    "pcie_tx_mib_per_s": 20,
    "pcie_rx_mib_per_s": 21,
}
_INSTEAD = "DCGM or Nsight Compute may show tensor and memory activity"


class GpmUnavailableError(RuntimeError):
    """GPM gives nothing here; the message says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpmMetrics:
    """Means over the time between two samples; None for a metric that this device lacks.

    sm_percent        SMs that had a warp              occupancy_percent  warps against the most there can be
    tensor_percent    any tensor instruction           hmma_percent       fp16, bf16 and (on Hopper) fp8 ones
    dram_percent      of the memory's peak bandwidth   fp32_percent       fp32 outside the tensor cores
    """

    sm_percent: float | None = None
    occupancy_percent: float | None = None
    tensor_percent: float | None = None
    hmma_percent: float | None = None
    dram_percent: float | None = None
    fp32_percent: float | None = None
    pcie_tx_mib_per_s: float | None = None
    pcie_rx_mib_per_s: float | None = None


class Gpm:
    """Samples of one device. Two buffers are used in turn; `since_last()` gives the means since the call before.

    Raises GpmUnavailableError. Close it before the NVML session that it was made in.
    """

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml, self._handle = nvml, handle
        self._refuse_what_cannot_work()
        try:
            self._samples: list[Any] = []
            for _ in range(2):
                self._samples.append(nvml.nvmlGpmSampleAlloc())
            nvml.nvmlGpmSampleGet(handle, self._samples[0])
        except nvml.NVMLError as error:
            self.close()
            raise GpmUnavailableError(f"GPM cannot be sampled: {sentence(error)}") from error

    def since_last(self) -> GpmMetrics:
        """Means from the last call, or from the beginning, until now. Leave 0.1 s between two calls."""
        nvml = self._nvml
        self._samples.reverse()
        nvml.nvmlGpmSampleGet(self._handle, self._samples[0])
        request = nvml.c_nvmlGpmMetricsGet_t()
        request.version = nvml.NVML_GPM_METRICS_GET_VERSION
        request.numMetrics = len(METRIC_IDS)
        request.sample1, request.sample2 = self._samples[1], self._samples[0]
        for place, number in enumerate(METRIC_IDS.values()):
            request.metrics[place].metricId = number
        nvml.nvmlGpmMetricsGet(request)
        given = [request.metrics[place] for place in range(len(METRIC_IDS))]
        return GpmMetrics(**{name: _value(metric) for name, metric in zip(METRIC_IDS, given, strict=True)})

    def close(self) -> None:
        for sample in self._samples:
            ask(self._nvml, self._nvml.nvmlGpmSampleFree, sample)
        self._samples = []

    def _refuse_what_cannot_work(self) -> None:
        nvml = self._nvml
        support, why_not = ask(nvml, nvml.nvmlGpmQueryDeviceSupport, self._handle)
        if support is None:
            raise GpmUnavailableError(f"GPM is not to be had: {why_not}; {_INSTEAD}")
        if not support.isSupportedDevice:
            raise GpmUnavailableError(f"this GPU has no GPM, which came with Hopper; {_INSTEAD}")
        mode, _ = ask(nvml, nvml.nvmlDeviceGetMigMode, self._handle)
        if mode is not None and mode[0]:
            raise GpmUnavailableError("MIG is on, and GPM of the whole GPU is then closed; DCGM reads it for each MIG instance")


def _value(metric: Any) -> float | None:
    return float(metric.value) if metric.nvmlReturn == 0 and math.isfinite(metric.value) else None


assert METRIC_IDS.keys() == {field.name for field in fields(GpmMetrics)}
