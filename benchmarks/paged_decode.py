"""Paged decode attention against the memory's rate, torch's attention on contiguous KV, and our own kernel without a block table.

32 query heads over 8 KV heads of 128, bf16, random data, cold L2. Rates count the bytes of K and V only; the roof is a read of
1 GiB in the same run. `python -m benchmarks.paged_decode --variants` prints what tiles and programs do, and records nothing.
"""

import statistics
import sys
import time
from dataclasses import replace
from typing import Any

import torch

from ._paged_setup import BARS, HEAD_DIM, KV_HEADS, Q_HEADS, SHAPES, Case, case, in_turns, rates, read_roof
from ._result import write_result

SOURCES = (
    "benchmarks/paged_decode.py", "benchmarks/_paged_setup.py", "course_lib/attention/decode_plan.py",
    "course_lib/attention/decode_tile.py",
    "course_lib/attention/decode_kernel.py", "course_lib/attention/merge_kernel.py", "course_lib/attention/splits.py",
    "course_lib/attention/cascade.py", "course_lib/timing/events.py", "course_lib/timing/flush.py",
)  # fmt: skip
PREFIX, SUFFIX, CASCADE_ROWS = 16384, 256, 64


def main() -> int:
    if not torch.cuda.is_available():
        print("blocked: needs a CUDA device")
        return 1
    if "--variants" in sys.argv:
        from ._paged_variants import sweep

        sweep()
        return 0
    roof = read_roof()
    rows = [
        {"case": "read of 1 GiB", "unit": "GB/s", "ours": roof, "peer": None, "peer_name": None, "ratio": None,
         "roof_share": None, "spread": None}
    ]  # fmt: skip
    for shape in SHAPES:
        for block in (16, 64):
            rows += _told(shape_rows(case(*shape, block), roof, peers=block == 16))
            torch.cuda.empty_cache()
    rows += _told([*cascade_rows(), *host_rows()])
    print(write_result("paged_decode", rows, SOURCES))
    return 0


def _told(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for row in rows:
        share = "" if row["roof_share"] is None else f", {row['roof_share']:.3f} of the roof"
        peer = "" if row["peer"] is None else f", {row['ratio']:.3f} of {row['peer_name']} ({row['peer']:.1f})"
        bar = f", bar {row['bar']}" if "bar" in row else ""
        print(f"{row['case']}: {row['ours']:.1f} {row['unit']}{share}{peer}{bar}", flush=True)
    return rows


def shape_rows(made: Case, roof: float, peers: bool) -> list[dict[str, Any]]:
    """Ours against cuDNN and flash (once a shape) and against our kernel without a table, in turns."""
    from torch.nn.attention import SDPBackend

    ours, plan = made.ours()
    calls = {"ours": ours, "own kernel, contiguous": made.contiguous()}
    if peers:
        for name, backend in (("SDPA cuDNN", SDPBackend.CUDNN_ATTENTION), ("SDPA flash", SDPBackend.FLASH_ATTENTION)):
            call = made.sdpa(backend)
            try:
                call()
            except RuntimeError as error:  # no such kernel for this shape here: there is nothing to compare with
                print(f"{name} does not run: {str(error).splitlines()[0]}")
            else:
                calls[name] = call
    seconds = in_turns(calls)
    rate, low, high = rates(seconds["ours"], made.kv_bytes)
    words = f"{made.rows} x {made.tokens}, block {made.block_size}"
    found = []
    for name in list(calls)[1:]:
        peer = rates(seconds[name], made.kv_bytes)[0]
        found.append(
            {"case": f"{words}, against {name}", "unit": "GB/s", "ours": rate, "peer": peer, "peer_name": name,
             "ratio": rate / peer, "roof_share": rate / roof, "spread": [low, high], "bar": BARS[made.rows, made.tokens],
             "microseconds": made.kv_bytes / rate / 1e3, "work": plan.list.describe() if plan.list else ""}
        )  # fmt: skip
    return found


def cascade_rows() -> list[dict[str, Any]]:
    """64 rows that share 16384 tokens and have 256 of their own, block 16: against flat decode of the same tables, whose prefix
    stays partly in L2, and of tables where every row has a copy of its own."""
    from course_lib.attention.cascade import cascade_plan_for

    flat = case(CASCADE_ROWS, PREFIX + SUFFIX, 16)
    copies, _ = flat.ours()
    shared = replace(flat, tables=flat.tables.clone())
    shared.tables[:, : PREFIX // 16] = flat.tables[:1, : PREFIX // 16]
    flat_call, _ = shared.ours()
    plan = cascade_plan_for(flat.q, flat.k, shared.tables, [PREFIX + SUFFIX] * CASCADE_ROWS, PREFIX)
    out = torch.empty_like(flat.q)

    def cascade() -> torch.Tensor:
        return plan.run(flat.q, flat.k, flat.v, shared.tables, out=out)[0]

    difference = (cascade().float() - flat_call().float()).abs().max().item()
    assert difference < 0.02, f"cascade and flat decode differ by {difference}"
    seconds = in_turns({"ours": cascade, "flat decode, shared blocks": flat_call, "flat decode, own copies": copies})
    ours = 1 / statistics.median(seconds["ours"])
    found = []
    for name in list(seconds)[1:]:
        peer = 1 / statistics.median(seconds[name])
        found.append(
            {"case": f"cascade, {CASCADE_ROWS} rows, {PREFIX} shared and {SUFFIX} own, against {name}", "unit": "steps/s",
             "ours": ours, "peer": peer, "peer_name": name, "ratio": ours / peer, "roof_share": None,
             "spread": [1 / max(seconds["ours"]), 1 / min(seconds["ours"])], "bar": 5}
        )  # fmt: skip
    return found


def host_rows(repeats: int = 200) -> list[dict[str, Any]]:
    """Host microseconds of plan.update, which runs once a step for all layers."""
    from course_lib.attention.decode_plan import DecodePlan

    found = []
    for rows in (1, 64, 256):
        plan = DecodePlan.plan(
            [4096] * rows, q_heads=Q_HEADS, kv_heads=KV_HEADS, head_dim=HEAD_DIM, block_size=16, max_len=8192,
            dtype=torch.bfloat16, device="cuda",
        )  # fmt: skip
        times = []
        for number in range(repeats):
            lengths = [4096 + (number + row) % 4096 for row in range(rows)]
            start = time.perf_counter()
            plan.update(lengths)
            times.append((time.perf_counter() - start) * 1e6)
            torch.cuda.synchronize()
        times.sort()
        found.append(
            {"case": f"plan.update on the host, {rows} rows", "unit": "us", "ours": statistics.median(times), "peer": None,
             "peer_name": None, "ratio": None, "roof_share": None, "spread": [times[5], times[-6]]}
        )  # fmt: skip
    return found


if __name__ == "__main__":
    raise SystemExit(main())
