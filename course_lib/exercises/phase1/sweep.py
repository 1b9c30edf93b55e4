"""Exercise 1.5, batch sweep: what is asked, and how an answer is judged. Its cases are in sweep_cases.py."""

from collections.abc import Iterator
from typing import Any

from ...grading.criteria import Case, Correct, Timed
from ...grading.exercise import Exercise
from ...grading.outcome import Mistake
from .sweep_cases import curve_cases, device_cases, limit_cases, step_cases, token_cases, total_cases

# logarithms and powers of numbers from 1e-6 to 1e10 round at some 1e-15; an answer in float32 is off by 1e-7 and must not pass
RTOL = 1e-9
PARTS = "step_seconds, floor_seconds, gap, tokens_per_second, tokens_per_second_per_user and context_limit"
BAR = 0.85  # every step within 15% of its prediction; measured on an H200: benchmarks/results/nvidia-h200/batch_sweep.json


def _expected(case: Case) -> dict[str, Any]:
    from ...roofline.sweep import predict_sweep

    return predict_sweep(case["kernels"], case["curve"], case["peak_tflops"], case["limits"])


def _part(output: Any, name: str) -> Any:
    """output[name], or a Mistake when there is none."""
    from ...grading.compare import describe

    if not isinstance(output, dict):
        return Mistake(f"expected a dict with {PARTS}, got {describe(output)}")
    if name not in output:
        return Mistake(f"the result has no {name!r}; it has {sorted(output)}"[:300])
    return output[name]


def _compare(output: Any, name: str, expected: Any) -> Mistake | None:
    from ...grading.compare import compare_tensor

    got = _part(output, name)
    if isinstance(got, Mistake):
        return got
    mistake = compare_tensor(got, expected, rtol=RTOL)
    return mistake and Mistake(f"{name}: {mistake.reason}", mistake.hint)


def _check_step(case: Case, output: Any) -> Mistake | None:
    mistake = _compare(output, "step_seconds", _expected(case)["step_seconds"])
    return mistake and Mistake(mistake.reason, _known_slip(_step_slips(case), output, "step_seconds") or mistake.hint)


def _known_slip(slips: Iterator[tuple[str, Any]], output: Any, name: str) -> str:
    """The hint for the slip that explains every value of an answer, or ""."""
    return next((hint for hint, value in slips if _compare(output, name, value) is None), "")


def _step_slips(case: Case) -> Iterator[tuple[str, Any]]:
    """(hint, the step seconds that this slip leads to)"""
    import torch

    from ...roofline.sweep import curve_seconds

    kernels, curve = case["kernels"], case["curve"]
    flops, moved, count = (kernels[name] for name in ("flops", "bytes", "count"))
    compute, memory = flops / (case["peak_tflops"] * 1e12), curve_seconds(curve, moved)
    each = torch.maximum(compute, memory)
    rate = curve["bytes"] / curve["seconds"]
    start = float(curve["seconds"][0])
    plain = moved / rate[-1]
    total = (count * compute).sum(1), (count * memory).sum(1)
    yield "How many times does a step call each kernel?", each.sum(1)
    yield "A kernel cannot borrow time from another one: where is the maximum taken, and where the sum?", torch.maximum(*total)
    yield "Arithmetic and memory of one kernel go on at once. Which of the two decides?", total[0] + total[1]
    yield "Does no kernel wait for its arithmetic?", total[1]
    yield "In which unit does the peak come?", (count * torch.maximum(compute * 1e12, memory)).sum(1)
    yield (
        "Every kernel has a size of its own. What does the curve say at that size?",
        (count * curve_seconds(curve, (count * moved).sum(1, keepdim=True) / count.sum(1, keepdim=True)).expand_as(moved)).sum(1),
    )
    yield (
        "A kernel that is called often is read as if it were a large one.",
        torch.maximum(count * compute, curve_seconds(curve, count * moved)).sum(1),
    )
    yield (
        "These are seconds at one bandwidth. What do the smaller points of the curve say?",
        (count * torch.maximum(compute, plain)).sum(1),
    )
    yield (
        "What is the least that a kernel takes, however small it is?",
        (count * torch.maximum(compute, torch.where(moved < curve["bytes"][0], moved / rate[0], memory))).sum(1),
    )
    yield (
        "What is the least that a kernel takes, however small it is?",
        (count * torch.maximum(compute, torch.where(moved < curve["bytes"][0], 0.0, memory))).sum(1),
    )
    for axes, value in (
        ("the bandwidth, over bytes", moved / _line(curve["bytes"], rate, moved)),
        ("the seconds, over bytes", _line(curve["bytes"], curve["seconds"], moved)),
        ("the bandwidth, over log bytes", moved / _line(curve["bytes"].log(), rate, moved.log())),
    ):
        inside = torch.where(moved > curve["bytes"][-1], memory, torch.where(moved < curve["bytes"][0], start, value))
        hint = f"Between two points this is a straight line of {axes}. Along which axes is it to be one?"
        yield hint, (count * torch.maximum(compute, inside)).sum(1)
    if len(rate) > 1:
        beyond, below = moved > curve["bytes"][-1], moved < curve["bytes"][0]
        power = curve["seconds"].log().diff() / curve["bytes"].log().diff()
        first = start * (moved.clamp(min=1) / curve["bytes"][0]) ** power[0]
        last = curve["seconds"][-1] * (moved / curve["bytes"][-1]) ** power[-1]
        low, high = "What is the least that a kernel takes, however small it is?", "What stays as it is beyond the last point?"
        ends = [(low, below, first), (high, beyond, last), (high, beyond, curve["seconds"][-1].expand(moved.shape))]
        for hint, where, value in ends:
            yield hint, (count * torch.maximum(compute, torch.where(where, value, memory))).sum(1)


def _line(x: Any, y: Any, at: Any) -> Any:
    """Straight lines between the points (x, y), at `at`; the first and last value outside."""
    import torch

    if len(x) == 1:
        return y.expand(at.shape)
    right = torch.searchsorted(x, at.contiguous()).clamp(1, len(x) - 1)
    share = ((at - x[right - 1]) / (x[right] - x[right - 1])).clamp(0, 1)
    return y[right - 1] + share * (y[right] - y[right - 1])


def _own_steps(output: Any, expected: Any) -> Any:
    """The answer's own step seconds, where they are times at all, so that one slip there costs no points elsewhere."""
    import torch

    steps = output.get("step_seconds") if isinstance(output, dict) else None
    usable = isinstance(steps, torch.Tensor) and steps.shape == expected.shape and steps.dtype == torch.float64
    return steps if usable and bool((steps.isfinite() & (steps > 0)).all()) else expected


def _check_floor(case: Case, output: Any) -> Mistake | None:
    expected = _expected(case)
    floor = expected["floor_seconds"]
    if mistake := _compare(output, "floor_seconds", floor):
        return Mistake(mistake.reason, _known_slip(_floor_slips(case), output, "floor_seconds") or mistake.hint)
    mistake = _compare(output, "gap", expected["gap"])
    return mistake and _compare(output, "gap", _own_steps(output, expected["step_seconds"]) / floor)


def _floor_slips(case: Case) -> Iterator[tuple[str, Any]]:
    import torch

    kernels, curve = case["kernels"], case["curve"]
    peak, rates = case["peak_tflops"] * 1e12, curve["bytes"] / curve["seconds"]
    compute = (kernels["count"] * kernels["flops"]).sum(1) / peak
    moved = (kernels["count"] * kernels["bytes"]).sum(1)
    yield (
        "How many times does a step call each kernel?",
        torch.maximum(kernels["flops"].sum(1) / peak, kernels["bytes"].sum(1) / rates[-1]),
    )
    yield (
        "The floor knows totals only: first the sums, then one maximum.",
        (kernels["count"] * torch.maximum(kernels["flops"] / peak, kernels["bytes"] / rates[-1])).sum(1),
    )
    yield "Arithmetic and memory go on at once. Which of the two times decides?", compute + moved / rates[-1]
    yield "Which point of the curve gives the rate?", torch.maximum(compute, moved / rates[0])
    yield "Which point of the curve gives the rate?", torch.maximum(compute, moved / rates.max())
    yield "In which unit does the peak come?", torch.maximum(compute * 1e12, moved / rates[-1])
    yield "Does no step wait for its arithmetic?", moved / rates[-1]


def _check_tokens(case: Case, output: Any) -> Mistake | None:
    expected = _expected(case)
    own, batch = _own_steps(output, expected["step_seconds"]), case["kernels"]["batch"]
    for name, made in (("tokens_per_second", batch), ("tokens_per_second_per_user", batch / batch)):
        mistake = _compare(output, name, expected[name])
        if mistake and _compare(output, name, made / own):
            hint = "How many tokens does one step make, and how many of them are for one user?"
            return Mistake(mistake.reason, mistake.hint if "times the right one" in mistake.hint else hint)
    return None


def _check_limit(case: Case, output: Any) -> Mistake | None:
    mistake = _compare(output, "context_limit", _expected(case)["context_limit"])
    return mistake and Mistake(mistake.reason, _known_slip(_limit_slips(case), output, "context_limit") or mistake.hint)


def _limit_slips(case: Case) -> Iterator[tuple[str, Any]]:
    limits = case["limits"]
    weights, kv_bytes, group, ridge = (limits[name] for name in ("weights", "kv_bytes", "group", "ridge"))
    right = 2 * weights / (kv_bytes * (ridge - group))
    never = float("inf")
    yield "What does attention itself reach, with a KV head read once for several query heads?", 2 * weights / (kv_bytes * ridge)
    yield (
        "A weight takes part in a multiplication and an addition, and is 2 bytes long. Which 2 is it?",
        (right / 2).where(ridge > group, never),
    )
    yield "For which rows does no context at all keep batching from the ridge?", right
    yield "For which rows does no context at all keep batching from the ridge?", right.where(ridge > group, 0.0)
    yield "For which rows does no context at all keep batching from the ridge?", right.where(ridge > group, float("nan"))
    yield "Solve for the context again: what stands under the bar?", kv_bytes * (ridge - group) / (2 * weights)
    yield "Does the group help a batch to reach the ridge, or hinder it?", 2 * weights / (kv_bytes * (ridge + group))


def _confirm_device(case: Case, evidence: Any) -> Mistake | None:
    """The prediction is the one that the measured curve and product lead to. Whether it came true is the ratio's part."""
    import torch

    kernels = next(stack["kernels"] for stack in case["stacks"] if stack["layers"] == evidence["layers"])
    curve = {name: torch.tensor(evidence[f"curve_{name}"], dtype=torch.float64) for name in ("bytes", "seconds")}
    here = {"kernels": kernels, "curve": curve, "peak_tflops": evidence["peak_tflops"], "limits": case["limits"]}
    if mistake := _check_step(here, evidence["output"]):
        return Mistake(f"on the curve measured here, {mistake.reason}", mistake.hint)
    return None


def _correct(name: str, claim: str, points: float, cases: Any, check: Any) -> Correct:
    return Correct(name=name, claim=claim, points=points, cases=cases, check=check, run="predict_sweep")


BATCH_SWEEP = Exercise(
    id="1.5",
    title="Batch sweep: predict, measure, explain",
    entry="predict_sweep",
    params=("kernels", "curve", "peak_tflops", "limits"),
    returns=f"dict: {PARTS}, float64",
    runner="phase1_sweep",
    seconds=240.0,  # the stack is built and measured four times
    criteria=(
        _correct(
            "curve", "each kernel looked up at its own size: between, below and beyond the points", 2.0, curve_cases, _check_step
        ),
        _correct(
            "step", "a step is the sum over its kernels, each limited by arithmetic or by memory", 2.0, step_cases, _check_step
        ),
        _correct(
            "floor", "the plain floor of the whole step, and how far the prediction lies above it", 1.0, total_cases, _check_floor
        ),
        _correct("tokens", "tokens per second of the GPU, and of one user", 1.0, token_cases, _check_tokens),
        _correct("context limit", "the context beyond which no batch reaches the ridge", 2.0, limit_cases, _check_limit),
        Timed(
            name="this device",
            claim="decode steps of an 8B model's layers, predicted from this device's curve to within 15%",
            points=2.0,
            cases=device_cases,
            check=_check_step,
            run="predict_sweep",
            observe="sweep_of_this_device",
            confirm=_confirm_device,
            bar=BAR,
            devices=("NVIDIA H200",),
        ),
    ),
)
