"""What a launch costs, and what that makes of a decode step at batch 1: the same step launched kernel by kernel, compiled, and
replayed from a CUDA graph, for a model of 8 billion parameters and one of 0.6.

Rows   launch: host time of a launch, and device time of the same kernel as a node of a graph
       step: milliseconds by the host's clock, many steps between two synchronisations; roof_share is the floor (weights and KV
       once, at the measured read rate) over the time, the peer is plain torch launched one by one
       kernel: where the time of one step of the stack goes, and how long the device waits before each kernel
       A variant that fails is a row too, with ours 0 and the reason in `why`.
"""

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from course_lib.roofline import LLAMA_3_8B, ModelShape, decode_step
from course_lib.roofline.launches import QWEN3_0_6B, hiding_bytes
from course_lib.workloads.captured import captured
from course_lib.workloads.decode_stack import DecodeStack
from course_lib.workloads.graph_seconds import graph_seconds
from course_lib.workloads.kernel_trace import breakdown, decode_stack_names, kernel_trace
from course_lib.workloads.plain_step import PlainStep, plain_layer
from course_lib.workloads.read_curve import measure_read_curve

from ._result import write_result

SOURCES = (
    "benchmarks/launch_overhead.py", "course_lib/roofline/launches.py", "course_lib/workloads/decode_stack.py",
    "course_lib/workloads/decode_stack_kernels.py", "course_lib/workloads/graph_seconds.py",
    "course_lib/workloads/kernel_trace.py", "course_lib/workloads/plain_step.py", "course_lib/workloads/read_curve.py",
    "course_lib/workloads/read_curve_kernel.py", "course_lib/workloads/captured.py", "course_lib/workloads/event_seconds.py",
)  # fmt: skip
MODELS, CONTEXT = (QWEN3_0_6B, LLAMA_3_8B), 1024
LAUNCHES, NODES, ROUNDS = 200, 200, 21  # a queue holds about a thousand launches; past that the host waits for the device
STEPS, STEP_ROUNDS = 10, 9
PLAIN = "plain torch"


def main() -> int:
    if not torch.cuda.is_available():
        print("blocked: needs a CUDA device")
        return 1
    rows = [*_launch_rows()]
    read_gb_per_s = measure_read_curve([2**30])["gb_per_s"][-1]
    rows.append(_row("read of 1 GiB", "GB/s", read_gb_per_s) | {"part": "read"})
    if launch_us := next(row["ours"] for row in rows if row["case"] == "launch: torch.add, one value"):
        hidden = hiding_bytes(launch_us * 1e-6, read_gb_per_s) / 1e6
        rows.append(_row("bytes that hide the launch of torch.add", "MB", hidden) | {"part": "hiding"})
    for model in MODELS:
        rows += _model_rows(model, read_gb_per_s)
        torch._dynamo.reset()
        torch.cuda.empty_cache()
    for row in rows:
        print(f"{row['case']:<58}{row['ours']:>10.4g} {row['unit']:<5}", row.get("why") or _words(row))
    print(write_result("launch_overhead", rows, SOURCES))
    return 0


def _words(row: dict) -> str:
    share = f"{row['roof_share']:.2f} of the floor" if row["roof_share"] else ""
    count = f"{row['kernels']} kernels" if row.get("kernels") else f"{row['count']} of them" if row.get("count") else ""
    return ", ".join(filter(None, (share, count)))


def _launch_rows() -> list[dict]:
    """Host microseconds of one launch, and device microseconds of the same kernel as a node of a graph."""
    from course_lib.workloads.decode_stack_kernels import silu_product_kernel

    one, two = torch.ones(1, device="cuda"), torch.ones(2, device="cuda")
    a, b = (torch.randn(16, 16, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    sum_of_one, product = torch.empty_like(one), torch.empty_like(a)
    calls: dict[str, Callable[[], Any]] = {
        "Triton kernel, one value": lambda: silu_product_kernel[(1, 1)](two, sum_of_one, 1, BLOCK=32, num_warps=1),
        "torch.add, one value": lambda: torch.add(one, one, out=sum_of_one),
        "torch.mm, 16 x 16 bf16": lambda: torch.mm(a, b, out=product),
    }
    rows = []
    for name, call in calls.items():
        rows.append(_tried(f"launch: {name}", "us", lambda call=call: _host_us(call), {"part": "launch"}))
        rows.append(_tried(f"node of a graph: {name}", "us", lambda call=call: [s * 1e6 for s in graph_seconds([call] * NODES)],
                           {"part": "node"}))  # fmt: skip
    rows.append(
        _tried(f"launch: graph of {NODES} nodes", "us", lambda: _replay_us(calls["torch.add, one value"]), {"part": "graph"})
    )
    return rows


def _host_us(call: Callable[[], Any], launches: int = LAUNCHES) -> list[float]:
    """Host microseconds of a launch, for each round: the host does not wait, and the queue never fills."""
    found = []
    for turn in range(ROUNDS + 3):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(launches):
            call()
        spent = time.perf_counter() - start
        if turn >= 3:
            found.append(spent / launches * 1e6)
    torch.cuda.synchronize()
    return found


def _replay_us(call: Callable[[], Any]) -> list[float]:
    """Host microseconds to hand over one graph of many nodes to an idle device."""

    def calls() -> None:
        for _ in range(NODES):
            call()

    return _host_us(captured(calls), launches=1)


def _model_rows(model: ModelShape, read_gb_per_s: float) -> list[dict]:
    floor_ms = decode_step(model, 1, CONTEXT).bytes_moved / read_gb_per_s / 1e6
    numbers = model.numbers()
    stack = DecodeStack(numbers, model.layers, 1, CONTEXT)
    compiled = torch.compile(plain_layer, dynamic=False)
    plain, fast = PlainStep(stack), PlainStep(stack, compiled)
    compile_seconds: list[float] = []

    def first_compiled() -> Callable[[], Any]:
        start = time.perf_counter()
        fast.step()
        torch.cuda.synchronize()
        compile_seconds.append(time.perf_counter() - start)
        return fast.step

    variants: dict[str, Callable[[], Callable[[], Any]]] = {
        PLAIN: lambda: plain.step,
        "torch.compile, layer by layer": first_compiled,
        "plain torch in a graph": lambda: captured(plain.step),
        "torch.compile in a graph": lambda: captured(fast.step),
        "the course's stack": lambda: stack.step,
        "the course's stack in a graph": stack.graph,
    }
    rows: list[dict] = []
    for name, make in variants.items():
        case = {"part": "step", "model": model.name, "variant": name, "in_graph": "graph" in name, "floor_ms": floor_ms}
        made: list[Callable[[], Any]] = []

        def measure(make: Callable = make, made: list = made) -> list[float]:
            made.append(make())
            return _step_ms(made[0])

        row = _tried(f"{model.name}: {name}", "ms", measure, case)
        if made and not row["why"]:
            row |= {"roof_share": floor_ms / row["ours"], **_traced(made[0])}
        rows.append(row)
    base = rows[0]["ours"]
    for row in rows:
        if base and row["ours"]:
            row |= {"peer": base, "peer_name": PLAIN, "ratio": row["ours"] / base}
    if compile_seconds:
        rows.append(_row(f"{model.name}: torch.compile, first step", "s", compile_seconds[0]) | {"part": "compile"})
    rows += _kernel_rows(model, "one by one", stack.step) + _kernel_rows(model, "graph", stack.graph())
    return rows


def _step_ms(step: Callable[[], Any]) -> list[float]:
    """Milliseconds of a step, for each round."""
    found = []
    for turn in range(STEP_ROUNDS + 2):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(STEPS):
            step()
        torch.cuda.synchronize()
        if turn >= 2:
            found.append((time.perf_counter() - start) / STEPS * 1e3)
    return found


def _traced(step: Callable[[], Any]) -> dict[str, Any]:
    """How many kernels a step has, and how long the device works and waits in it."""
    try:
        runs = kernel_trace(step)
    except RuntimeError as error:
        return {"kernels": None, "trace_why": str(error)}
    busy = sum(run.end_us - run.start_us for run in runs)
    span = max(run.end_us for run in runs)
    return {"kernels": len(runs), "busy_ms": busy / 1e3, "span_ms": span / 1e3}


def _kernel_rows(model: ModelShape, how: str, step: Callable[[], Any]) -> list[dict]:
    """The stack's step, kernel by kernel."""
    try:
        step()
        runs = kernel_trace(step)
        names = decode_stack_names(runs, model.layers)
        groups = breakdown(runs, lambda place, _: names[place])
    except Exception as error:  # reported, so that the other rows are kept
        return [_failed(f"{model.name}, {how}: kernels", "us", error) | {"part": "kernel", "model": model.name, "how": how}]
    return [
        _row(f"{model.name}, {how}: {group.name}", "us", group.total_us)
        | {"part": "kernel", "model": model.name, "how": how, "kernel": group.name, "count": group.count,
           "mean_us": group.mean_us, "gap_us": group.gap_us}
        for group in groups
    ]  # fmt: skip


def _tried(case: str, unit: str, measure: Callable[[], list[float]], more: dict[str, Any]) -> dict[str, Any]:
    try:
        return _row(case, unit, statistics.median(found := measure()), [min(found), max(found)]) | more
    except Exception as error:  # reported, so that the other rows are kept
        return _failed(case, unit, error) | more


def _failed(case: str, unit: str, error: Exception) -> dict[str, Any]:
    first = next(iter(str(error).splitlines()), "")
    return _row(case, unit, 0.0) | {"why": f"{type(error).__name__}: {first[:300]}"}


def _row(case: str, unit: str, ours: float, spread: list[float] | None = None) -> dict[str, Any]:
    return {"case": case, "unit": unit, "ours": ours, "peer": None, "peer_name": "", "ratio": None, "roof_share": None,
            "spread": spread, "why": ""}  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
