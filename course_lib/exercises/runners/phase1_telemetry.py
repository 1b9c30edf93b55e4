"""Exercise 1.7: calls of the learner's function, and samples of this device while one block spins and while it multiplies."""

import copy
import statistics
import time
from typing import Any

import torch

__course_runner__ = True  # messages name the learner's line, not one of this file

SETTLE_SECONDS = 1.3  # what NVML calls utilization is a mean over up to a second
WINDOW_SECONDS = 1.5
REST_SECONDS = 0.4
PRODUCT_ROWS = 4096


def honest_figures(entry: Any, case: dict) -> Any:
    """The learner's figures for one recording."""
    return entry(case["samples"], case["window"], case["tokens"], case["peaks"])


def figures_of_this_device(entry: Any, case: dict) -> dict:
    """Record this device while one block spins and while matrices are multiplied, and let the learner's function judge both."""
    if not torch.cuda.is_available():
        return {"blocked": "needs a CUDA device, and this machine shows none"}
    device = torch.cuda.get_device_name()
    row = next((row for row in case["sheet"] if device.removeprefix("NVIDIA ").strip() in row["names"]), None)
    if row is None:
        return {"blocked": f"gpus.toml has no row for {device}; add one, with its source, to have its peak bandwidth"}
    from course_lib.workloads.device_counters import CountersUnavailableError, DeviceCounters

    peaks = {"hbm_gb_per_s": row["hbm_gb_per_s"], "hbm_gb": row["hbm_gb"]}
    uuid = str(torch.cuda.get_device_properties(torch.cuda.current_device()).uuid)
    try:
        with DeviceCounters(uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}") as counters:
            limit = counters.power_limit_watts()
            recordings = {"spin": _spinning(counters), "product": _multiplying(counters)}
    except CountersUnavailableError as error:
        return {"blocked": f"{error}"}
    for recording in recordings.values():
        recording["peaks"] = peaks
    if why_not := _unfit(recordings):
        return {"blocked": why_not}
    powers = {name: _two_powers(recording) for name, recording in recordings.items()}
    kept = copy.deepcopy(recordings)
    figures = {name: honest_figures(entry, recording) for name, recording in recordings.items()}
    return {
        "device": device,
        "peer": "the power readings, by the energy counter (spin, product),",
        "ratios": [counted / read for counted, read in powers.values()],
        "roof_share": max(counted for counted, _ in powers.values()) / limit,
        "power_limit_watts": limit,
        "recordings": kept,
        "figures": figures,
    }


def _spinning(counters: Any) -> dict:
    from course_lib.workloads.spin import spin

    spin(0.001)  # compiled before it is recorded
    torch.cuda.synchronize()
    counters.start()
    time.sleep(REST_SECONDS)
    turns = spin(SETTLE_SECONDS + WINDOW_SECONDS + REST_SECONDS)
    time.sleep(SETTLE_SECONDS)
    start = time.perf_counter()
    time.sleep(WINDOW_SECONDS)
    window = [start, time.perf_counter()]
    torch.cuda.synchronize()
    time.sleep(REST_SECONDS)  # the counter is to be renewed once more behind the window
    assert turns.item() > 0
    return {"samples": counters.stop(), "window": window, "tokens": 0}


def _multiplying(counters: Any) -> dict:
    from course_lib.workloads.loop_for import loop_for

    a, b = (torch.randn(PRODUCT_ROWS, PRODUCT_ROWS, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    out = torch.mm(a, b)

    def multiply() -> None:
        torch.mm(a, b, out=out)

    counters.start()
    time.sleep(REST_SECONDS)
    loop_for(SETTLE_SECONDS, multiply)
    start = time.perf_counter()
    done = loop_for(WINDOW_SECONDS, multiply)
    window = [start, time.perf_counter()]
    loop_for(REST_SECONDS, multiply)
    time.sleep(REST_SECONDS)
    return {"samples": counters.stop(), "window": window, "tokens": done * PRODUCT_ROWS}


def _inside(recording: dict) -> list[dict]:
    start, end = recording["window"]
    return [sample for sample in recording["samples"] if start <= sample["seconds"] <= end]


def _unfit(recordings: dict) -> str:
    """Why these recordings show nothing, or "": on a GPU that is shared, the spin kernel is not alone."""
    spin, product = _inside(recordings["spin"]), _inside(recordings["product"])
    if min(len(spin), len(product)) < 3:
        return f"the driver gave {len(spin)} and {len(product)} samples in {WINDOW_SECONDS} s, which are too few"
    tensor = max(sample["gpm"]["tensor_percent"] for sample in spin[1:])
    if tensor > 1.0:
        return f"tensor activity reads {tensor:.1f}% while one block spins, so somebody else uses this GPU; try when it is free"
    busy = statistics.mean(sample["busy_percent"] for sample in spin)
    if busy < 90:
        return f"NVML reads {busy:.0f}% while a kernel runs all the time: its sample period is longer than {SETTLE_SECONDS} s"
    return ""


def _two_powers(recording: dict) -> tuple[float, float]:
    """(watts by the energy counter, watts by the power readings) over the samples in the window."""
    inside = _inside(recording)
    seconds = inside[-1]["seconds"] - inside[0]["seconds"]
    counted = (inside[-1]["energy_mj"] - inside[0]["energy_mj"]) / 1e3 / seconds
    return counted, statistics.mean(sample["power_mw"] for sample in inside) / 1e3
