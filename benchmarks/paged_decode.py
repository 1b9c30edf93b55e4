"""Paged decode attention against the memory's rate, torch's attention on contiguous KV, and our own kernel without a block table.

32 query heads over 8 KV heads of 128, bf16, random data, cold L2. Rates count the bytes of K and V only; the roof is a read of
1 GiB in the same run. paged_variants.py tries other tiles, and other ways of cutting the work.
"""

import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import replace

import torch

from ._paged_setup import BARS, BUDGET, HEAD_DIM, KV_HEADS, Q_HEADS, SHAPES, Case, case, read_roof
from ._paged_setup import SOURCES as SETUP_SOURCES
from ._peers import SDPA, Row, alone, check_alike, first_result, in_turns, rows_beside, run

SOURCES = (
    "benchmarks/paged_decode.py", *SETUP_SOURCES, "course_lib/attention/cascade.py", "course_lib/attention/paged_checks.py",
)  # fmt: skip
PREFIX, SUFFIX, CASCADE_ROWS, CASCADE_BAR = 16384, 256, 64, 5
ROUNDS, REPEATS = 9, 5


def measure() -> Iterator[Row]:
    roof = read_roof()
    yield alone("read of 1 GiB", "GB/s", roof)
    for shape in SHAPES:
        for block in (16, 64):
            yield from shape_rows(case(*shape, block), roof, peers=block == 16)
            torch.cuda.empty_cache()
    yield from cascade_rows()
    yield from host_rows()


def shape_rows(made: Case, roof: float, peers: bool) -> list[Row]:
    """Ours against cuDNN and flash (once a shape) and against our kernel without a table, in turns."""
    ours, plan = made.ours()
    calls = {"ours": ours, "own kernel, contiguous": made.contiguous()}
    for name, backend in SDPA.items() if peers else ():
        call = made.sdpa(backend)
        if first_result(f"{made.words}: {name}", call) is not None:
            calls[name] = call
    return rows_beside(
        made.words, "GB/s", made.kv_bytes / 1e9, in_turns(calls, ROUNDS, REPEATS), roof=roof,
        roof_bar=BARS[made.rows, made.tokens], cut=plan.list.describe() if plan.list else "",
    )  # fmt: skip


def cascade_rows() -> list[Row]:
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

    check_alike("cascade and flat decode", cascade(), flat_call(), BUDGET)
    calls = {"ours": cascade, "flat decode, shared blocks": flat_call, "flat decode, own copies": copies}
    words = f"cascade, {CASCADE_ROWS} rows, {PREFIX} shared and {SUFFIX} own"
    return rows_beside(words, "steps/s", 1, in_turns(calls, ROUNDS, REPEATS), bars=dict.fromkeys(calls, CASCADE_BAR))


def host_rows(repeats: int = 200) -> Iterator[Row]:
    """Host microseconds of plan.update, which runs once a step for all layers."""
    from course_lib.attention.decode_plan import DecodePlan

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
        yield alone(f"plan.update on the host, {rows} rows", "us", statistics.median(times), [times[5], times[-6]])


if __name__ == "__main__":
    sys.exit(run("paged_decode", SOURCES, measure))
