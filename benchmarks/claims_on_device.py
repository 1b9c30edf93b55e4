"""What the roadmap claims about a GPU, asked of this one: capability, shared memory, L2, temperature, bare NVML, where tiles lie.

course_lib/claims/measured.toml names the rows. A property that the device does not give has no row.
"""

import subprocess
import sys
from typing import Any

from course_lib.hardware import find_spec
from course_lib.telemetry.nvml import NvmlUnavailableError, ask, handle_of, session

from ._result import write_result

SOURCES = ("benchmarks/claims_on_device.py", "course_lib/hardware/gpus.toml")
ASK_NVML_AT_ONCE = """
import pynvml
try:
    pynvml.nvmlDeviceGetUtilizationRates(pynvml.nvmlDeviceGetHandleByIndex(0))
    print(0)
except pynvml.NVMLError as error:
    print(error.value)
"""
SLOWDOWN = "slowdown temperature"


def main() -> int:
    import torch

    if not torch.cuda.is_available():
        print("blocked: needs a CUDA device")
        return 1
    properties = torch.cuda.get_device_properties(0)
    rows = property_rows(properties, find_spec(properties.name))
    rows.append(_row("NVML asked before nvmlInit", "return code", nvml_code_without_init()))
    rows += slowdown_rows()
    rows.append(_row("tile of torch.empty in the allocator's device memory", "", float(lies_in(*allocated_tile()))))
    for row in rows:
        print(f"{row['case']:<54}{row['ours']:>10g} {row['unit']}")
    print(write_result("claims_on_device", rows, SOURCES))
    return 0


def property_rows(properties: Any, sheet: Any) -> list[dict[str, Any]]:
    """properties: of torch.cuda.get_device_properties; sheet: GpuSpec or None. Sizes in KB of 2**10 and MB of 2**20 bytes."""
    l2_mb = properties.L2_cache_size / 2**20
    block_kb = properties.shared_memory_per_block_optin / 2**10
    sm_kb = properties.shared_memory_per_multiprocessor / 2**10
    sms = properties.multi_processor_count
    return [
        _row("compute capability", "", float(f"{properties.major}.{properties.minor}")),
        _row("shared memory of a block, opt-in", "KB", block_kb, getattr(sheet, "smem_per_block_kb", None)),
        _row("shared memory of an SM", "KB", sm_kb, getattr(sheet, "smem_per_sm_kb", None)),
        _row("L2 of the chip", "MB", l2_mb, getattr(sheet, "l2_mb", None)),
        _row("L2 over SMs", "MB", l2_mb / sms),
        _row("SMs", "", float(sms), getattr(sheet, "sms", None)),
    ]


def nvml_code_without_init() -> int:
    """NVML's return code for a query in a process that never called nvmlInit: 1 is "uninitialised", 0 would be an answer."""
    run = subprocess.run([sys.executable, "-c", ASK_NVML_AT_ONCE], capture_output=True, text=True, check=True, timeout=60)
    return int(run.stdout)


def allocated_tile() -> tuple[int, int, list[dict[str, Any]]]:
    """The roadmap's tile buffer, from the framework's allocator -> (address, bytes, segments of device memory it has)."""
    import torch

    tile = torch.empty(2, 64, 128, dtype=torch.float16, device="cuda")
    return tile.data_ptr(), tile.nbytes, torch.cuda.memory_snapshot()


def lies_in(address: int, size: int, segments: list[dict[str, Any]]) -> bool:
    """Whether all of it lies in one of the segments."""
    return any(one["address"] <= address and address + size <= one["address"] + one["total_size"] for one in segments)


def slowdown_rows() -> list[dict[str, Any]]:
    """The temperature at which the driver slows this device down, in degrees Celsius, where NVML gives it."""
    try:
        with session() as nvml:
            degrees, why_not = ask(
                nvml, nvml.nvmlDeviceGetTemperatureThreshold, handle_of(nvml), nvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
            )
    except NvmlUnavailableError as error:
        degrees, why_not = None, str(error)
    if degrees is None:
        print(f"no {SLOWDOWN}: {why_not}")
        return []
    return [_row(SLOWDOWN, "C", float(degrees))]


def _row(case: str, unit: str, ours: float, peer: float | None = None) -> dict[str, Any]:
    return {"case": case, "unit": unit, "ours": ours, "peer": peer, "peer_name": "data sheet" if peer else None,
            "ratio": ours / peer if peer else None, "roof_share": None, "spread": None}  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
