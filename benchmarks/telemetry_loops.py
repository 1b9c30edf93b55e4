"""What each counter says of an idle GPU, one block that spins, a prefill loop, decode loops and a copy of known rate (< 60 s).

A row is `loop: figure`, with the figures of course_lib.telemetry.Summary; energies come from the driver's counter. The copy is
held against two ways to a bandwidth: GPM's share of the peak, and utilization.memory times capacity (claim C060).
"""

import time
from collections.abc import Callable
from typing import Any

import torch

from course_lib.hardware import find_spec
from course_lib.telemetry import Recorder, Summary
from course_lib.workloads.decode_stack import LLAMA_3_8B_NUMBERS, DecodeStack, StackWeights
from course_lib.workloads.loop_for import loop_for
from course_lib.workloads.spin import spin

from ._result import write_result

SOURCES = (
    "benchmarks/telemetry_loops.py",
    "course_lib/telemetry/gpm.py",
    "course_lib/telemetry/reading.py",
    "course_lib/telemetry/recorder.py",
    "course_lib/telemetry/summary.py",
    "course_lib/workloads/spin.py",
    "course_lib/workloads/spin_kernel.py",
    "course_lib/workloads/loop_for.py",
)
SETTLE_SECONDS, SECONDS = 1.3, 3.0
BATCHES, CONTEXT, PREFILL_TOKENS = (1, 8, 64), 1024, 4096
COPY_BYTES = 2**32
FIGURES = {  # field of Summary -> unit
    "busy_time_percent": "%",
    "memory_busy_time_percent": "%",
    "sm_percent": "%",
    "occupancy_percent": "%",
    "tensor_percent": "%",
    "hmma_percent": "%",
    "fp32_percent": "%",
    "dram_percent": "%",
    "mean_watts": "W",
    "max_watts": "W",
    "joules": "J",
    "integrated_joules": "J",
    "seconds": "s",
    "sm_mhz_min": "MHz",
    "sm_mhz_median": "MHz",
    "memory_mhz_median": "MHz",
    "max_temperature_c": "°C",
    "pcie_tx_mb_per_s": "MB/s",
    "pcie_rx_mb_per_s": "MB/s",
}


def main() -> int:
    if not torch.cuda.is_available():
        print("blocked: needs a CUDA device")
        return 1
    with Recorder() as trial:
        time.sleep(0.25)
    if trial.why_not:
        print(f"blocked: {trial.why_not}")
        return 1
    if trial.gpm_why_not:
        print(f"without GPM: {trial.gpm_why_not}")
    torch.manual_seed(0)
    rows = _rows("idle", _idle()) + _rows("spin", _spinning())
    summary, _ = _looping(_prefill_call(), calls=4)
    rows += _rows("prefill", summary)
    weights = StackWeights.random(LLAMA_3_8B_NUMBERS, LLAMA_3_8B_NUMBERS["layers"])
    for batch in BATCHES:
        stack = DecodeStack(LLAMA_3_8B_NUMBERS, LLAMA_3_8B_NUMBERS["layers"], batch, CONTEXT, weights=weights)
        summary, steps = _looping(stack.graph(), calls=20)
        rows += _rows(f"decode {batch}", summary) + _token_rows(f"decode {batch}", summary, steps, batch)
        del stack
        torch.cuda.empty_cache()
    del weights
    torch.cuda.empty_cache()
    rows += _copy_rows()
    for row in rows:
        against = "" if row["peer"] is None else f"   {row['peer_name']}: {row['peer']:.1f}"
        print(f"{row['case']:<42}{row['ours']:>14.3f} {row['unit']}{against}")
    print(write_result("telemetry_loops", rows, SOURCES))
    return 0


def _idle() -> Summary:
    torch.cuda.synchronize()
    time.sleep(SETTLE_SECONDS)
    with Recorder() as recorder:
        time.sleep(SECONDS)
    return recorder.summary()


def _spinning() -> Summary:
    spin(0.001)
    torch.cuda.synchronize()
    spin(SETTLE_SECONDS + SECONDS + 1.0)
    time.sleep(SETTLE_SECONDS)
    with Recorder() as recorder:
        time.sleep(SECONDS)
    torch.cuda.synchronize()
    return recorder.summary()


def _looping(call: Callable[[], Any], calls: int) -> tuple[Summary, int]:
    """Record `call` in a loop -> (summary, calls that were made). The loop runs already when the recording begins."""
    loop_for(SETTLE_SECONDS, call, calls)
    with Recorder() as recorder:
        made = loop_for(SECONDS, call, calls)
    return recorder.summary(), made


def _prefill_call() -> Callable[[], Any]:
    """The products of one layer of Llama-3-8B for 4096 tokens, without attention."""
    hidden, mlp = LLAMA_3_8B_NUMBERS["hidden"], LLAMA_3_8B_NUMBERS["mlp_hidden"]
    shapes = ((hidden, 6144), (hidden, hidden), (hidden, 2 * mlp), (mlp, hidden))
    pairs = [
        (torch.randn(PREFILL_TOKENS, inner, device="cuda", dtype=torch.bfloat16),
         torch.randn(inner, out, device="cuda", dtype=torch.bfloat16) * inner**-0.5)
        for inner, out in shapes
    ]  # fmt: skip
    outs = [a @ b for a, b in pairs]

    def layer() -> None:
        for (a, b), out in zip(pairs, outs, strict=True):
            torch.mm(a, b, out=out)

    return layer


def _copy_rows() -> list[dict[str, Any]]:
    """A copy whose rate is known from its bytes and its time, against the rates that two counters suggest."""
    source = torch.randn(COPY_BYTES // 4, device="cuda")
    target = torch.empty_like(source)
    calls = 20
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    loop_for(SETTLE_SECONDS, lambda: target.copy_(source), calls)
    begin.record()
    with Recorder() as recorder:
        made = loop_for(SECONDS, lambda: target.copy_(source), calls)
        end.record()
    torch.cuda.synchronize()
    known = made * 2 * COPY_BYTES / (begin.elapsed_time(end) / 1e3) / 1e9
    summary, spec = recorder.summary(), find_spec(torch.cuda.get_device_name())
    rows = _rows("copy", summary)
    if spec is None:
        return rows
    name = "bytes of the copy / time"
    if summary.dram_percent is not None:
        rate = summary.dram_percent / 100 * spec.hbm_gb_per_s
        rows.append(_row("copy: dram share x peak bandwidth", "GB/s", rate, known, name))
    if summary.memory_busy_time_percent is not None:
        wrong = summary.memory_busy_time_percent / 100 * spec.hbm_gb
        rows.append(_row("copy: utilization.memory x capacity", "GB, no rate", wrong, known, name))
    return rows


def _token_rows(loop: str, summary: Summary, steps: int, batch: int) -> list[dict[str, Any]]:
    rows = [_row(f"{loop}: batch", "sequences", batch), _row(f"{loop}: step_ms", "ms", summary.seconds * 1e3 / steps)]
    rows.append(_row(f"{loop}: tokens_per_second", "1/s", steps * batch / summary.seconds))
    joules = summary.joules if summary.joules is not None else summary.integrated_joules
    if joules is not None:
        rows.append(_row(f"{loop}: joules_per_token", "J", joules / (steps * batch)))
    return rows


def _rows(loop: str, summary: Summary) -> list[dict[str, Any]]:
    """A row for each figure that the device gives, and one for each reason that was seen."""
    found = [(name, unit, getattr(summary, name)) for name, unit in FIGURES.items()]
    rows = [_row(f"{loop}: {name}", unit, value) for name, unit, value in found if value is not None]
    return rows + [_row(f"{loop}: reason {name}", "seen", 1.0) for name in summary.reasons or ()]


def _row(case: str, unit: str, ours: float, peer: float | None = None, peer_name: str | None = None) -> dict[str, Any]:
    ratio = None if peer is None else ours / peer
    return {"case": case, "unit": unit, "ours": float(ours), "peer": peer, "peer_name": peer_name, "ratio": ratio,
            "roof_share": None, "spread": None}  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
