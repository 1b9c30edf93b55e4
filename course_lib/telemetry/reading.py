"""One reading of everything that NVML tells about a device, each value under a name that says what it is.

What NVML calls utilization.gpu is `busy_time_percent` here: the share of the last sample period, 1/6 s to 1 s, in which at least
one kernel ran (NVML API reference, nvmlUtilization_t). It says nothing about how much of the chip that kernel used.
utilization.memory is the share of time in which memory was read or written, not a share of the bandwidth.
"""

import time
from dataclasses import dataclass, field
from typing import Any

from .nvml import ask
from .reasons import reason_names


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Values at one time; None where the device does not give it, and then `missing` says why."""

    host_seconds: float  # time.perf_counter()
    joules_since_driver_load: float | None = None
    watts: float | None = None  # averaged by the driver over up to a second
    sm_mhz: int | None = None
    memory_mhz: int | None = None
    temperature_c: int | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    busy_time_percent: int | None = None
    memory_busy_time_percent: int | None = None
    reasons_mask: int | None = None
    pcie_tx_kb_per_s: int | None = None  # over the last 20 ms
    pcie_rx_kb_per_s: int | None = None
    fan_percent: int | None = None  # a passive board has no fan
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def reasons(self) -> tuple[str, ...] | None:
        """Why the clocks are what they are, in words."""
        return None if self.reasons_mask is None else reason_names(self.reasons_mask)


def read(nvml: Any, handle: Any, *, pcie: bool = True) -> Reading:
    """Read a device now. The time stands beside the energy counter, which is read first.

    pcie  ask for PCIe traffic too; the driver counts for 20 ms in each direction before it answers
    """
    missing: dict[str, str] = {}

    def get(name: str, call: Any, *arguments: Any) -> Any:
        value, why_not = ask(nvml, call, handle, *arguments)
        if why_not:
            missing[name] = why_not
        return value

    energy_mj = get("joules_since_driver_load", nvml.nvmlDeviceGetTotalEnergyConsumption)
    host_seconds = time.perf_counter()
    power_mw = get("watts", nvml.nvmlDeviceGetPowerUsage)
    rates = get("busy_time_percent", nvml.nvmlDeviceGetUtilizationRates)
    memory = get("memory_used_bytes", nvml.nvmlDeviceGetMemoryInfo)
    values = {
        "sm_mhz": get("sm_mhz", nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_SM),
        "memory_mhz": get("memory_mhz", nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_MEM),
        "temperature_c": get("temperature_c", nvml.nvmlDeviceGetTemperature, nvml.NVML_TEMPERATURE_GPU),
        "reasons_mask": get("reasons_mask", _reasons_call(nvml)),
        "fan_percent": get("fan_percent", nvml.nvmlDeviceGetFanSpeed),
    }
    if pcie:
        values["pcie_tx_kb_per_s"] = get("pcie_tx_kb_per_s", nvml.nvmlDeviceGetPcieThroughput, nvml.NVML_PCIE_UTIL_TX_BYTES)
        values["pcie_rx_kb_per_s"] = get("pcie_rx_kb_per_s", nvml.nvmlDeviceGetPcieThroughput, nvml.NVML_PCIE_UTIL_RX_BYTES)
    return Reading(
        host_seconds=host_seconds,
        joules_since_driver_load=None if energy_mj is None else energy_mj / 1e3,
        watts=None if power_mw is None else power_mw / 1e3,
        busy_time_percent=None if rates is None else rates.gpu,
        memory_busy_time_percent=None if rates is None else rates.memory,
        memory_used_bytes=None if memory is None else memory.used,
        memory_total_bytes=None if memory is None else memory.total,
        missing=missing,
        **values,
    )


def _reasons_call(nvml: Any) -> Any:
    """The call had another name before the driver's version 535."""
    newer = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
    older = getattr(nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", None)
    if newer is None or older is None:
        return newer or older

    def either(handle: Any) -> int:
        try:
            return newer(handle)
        except nvml.NVMLError:
            return older(handle)

    return either
