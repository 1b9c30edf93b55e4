"""Exercise 1.5: calls of the learner's function, and a decode stack whose steps are measured on the device."""

import statistics
from typing import Any

import torch

__course_runner__ = True  # messages name the learner's line, not one of this file


def predict_sweep(entry: Any, case: dict) -> Any:
    """The learner's predictions for a sweep, and their context limits."""
    return entry(case["kernels"], case["curves"], case["peak_tflops"], case["limits"])


def sweep_of_this_device(entry: Any, case: dict) -> dict:
    """Measure both curves and the peak, let the learner's function predict a decode stack's steps, then measure those."""
    if not torch.cuda.is_available():
        return {"blocked": "needs a CUDA device, and this machine shows none"}
    if torch.cuda.get_device_capability() < (8, 0):
        return {"blocked": f"the stack computes in bf16, which {torch.cuda.get_device_name()} lacks"}
    torch.cuda.empty_cache()
    free = torch.cuda.mem_get_info()[0]
    stack = next((stack for stack in case["stacks"] if stack["needs_bytes"] <= 0.9 * free), None)
    if stack is None:
        least = min(stack["needs_bytes"] for stack in case["stacks"])
        return {"blocked": f"{free / 1e9:.1f} GB of GPU memory are free; the smallest stack needs {least / 0.9e9:.1f}"}
    curves, peak_tflops = _curves(), _measure_product()
    # what the answer does to its tables stays with it
    given = [_own_copy(table) for table in (stack["kernels"], curves, case["limits"])]
    predicted = entry(given[0], given[1], peak_tflops, given[2])  # before any step has run
    batches = [int(batch) for batch in case["batches"]]
    steps = _measure_steps(case["model"], stack["layers"], batches, case["context"])
    measured = [statistics.median(seconds) for seconds in steps]
    said = _seconds_said(predicted, len(batches))
    errors = [abs(p / m - 1) for p, m in zip(said, measured, strict=True)]
    floors = _floors(stack["kernels"], curves["read"], peak_tflops)
    return {
        "device": torch.cuda.get_device_name(),
        "peer": f"a perfect prediction ({_in_words(batches, said, measured, floors)})",
        "ratios": [max(1e-9, 1 - max(errors))],
        "roof_share": max(f / m for f, m in zip(floors, measured, strict=True)),
        "layers": stack["layers"],
        "batches": batches,
        "predicted_seconds": said,
        "measured_seconds": measured,
        "measured_spread": [[min(seconds), max(seconds)] for seconds in steps],
        "floor_seconds": floors,
        "curves": {kind: {name: values.tolist() for name, values in curve.items()} for kind, curve in curves.items()},
        "peak_tflops": peak_tflops,
        "output": predicted,
    }


def _own_copy(table: dict) -> dict:
    return {name: _own_copy(value) if isinstance(value, dict) else value.clone() for name, value in table.items()}


def _seconds_said(predicted: Any, count: int) -> list[float]:
    """What the learner predicts, as numbers; infinity for what is no number."""
    said = predicted.get("step_seconds") if isinstance(predicted, dict) else None
    if not isinstance(said, torch.Tensor) or said.shape != (count,) or said.is_complex():
        return [float("inf")] * count
    return [float(seconds) for seconds in said.double().nan_to_num(float("inf"))]


def _in_words(batches: list[int], said: list[float], measured: list[float], floors: list[float]) -> str:
    rows = zip(batches, said, measured, floors, strict=True)
    return "; ".join(
        f"batch {b}: predicted {p * 1e3:.2f} ms, measured {m * 1e3:.2f}, {m / f:.2f} times the floor" for b, p, m, f in rows
    )


def _floors(kernels: dict, curve: dict, peak_tflops: float) -> list[float]:
    """Seconds that no step of the stack beats: all its FLOPs at the peak, or all its bytes at the rate of the largest read."""
    rate = curve["bytes"][-1] / curve["seconds"][-1]
    flops, moved = ((kernels["count"] * kernels[name]).sum(1) for name in ("flops", "bytes"))
    return torch.maximum(flops / (peak_tflops * 1e12), moved / rate).tolist()


def _curves() -> dict:
    from course_lib.workloads.product_curve import measure_product_curve
    from course_lib.workloads.read_curve import measure_read_curve

    measured = {"read": measure_read_curve(), "product": measure_product_curve()}
    names = ("bytes", "seconds")
    return {kind: {name: torch.tensor(curve[name], dtype=torch.float64) for name in names} for kind, curve in measured.items()}


def _measure_product() -> float:
    """TFLOP/s of a large bf16 product."""
    from course_lib.workloads.large_product import large_product_tflops

    return statistics.median(large_product_tflops())


def _measure_steps(model: dict, layers: int, batches: list[int], context: int) -> list[list[float]]:
    """Seconds of each of some replays of one decode step, for every batch."""
    from course_lib.workloads.decode_stack import DecodeStack, StackWeights
    from course_lib.workloads.event_seconds import event_seconds

    weights, steps = StackWeights.random(model, layers), []
    for batch in batches:
        stack = DecodeStack(model, layers, batch, context, weights=weights)  # held while its graph runs: the buffers are its own
        steps.append(event_seconds(stack.graph()))
        del stack
        torch.cuda.empty_cache()
    return steps
