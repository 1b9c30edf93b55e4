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

    return predict_sweep(case["kernels"], case["curves"], case["peak_tflops"], case["limits"])


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

    kernels, curves = case["kernels"], case["curves"]
    flops, moved, count = (kernels[name] for name in ("flops", "bytes", "count"))
    compute = flops / (case["peak_tflops"] * 1e12)

    def looked_up(look: Any, sizes: Any = moved) -> Any:
        """Seconds of memory: look(curve, sizes) on the curve of each kernel's kind."""
        return torch.where(kernels["is_product"], look(curves["product"], sizes), look(curves["read"], sizes))

    def step(memory: Any) -> Any:
        return (count * torch.maximum(compute, memory)).sum(1)

    memory = looked_up(curve_seconds)
    total = (count * compute).sum(1), (count * memory).sum(1)
    yield "How many times does a step call each kernel?", torch.maximum(compute, memory).sum(1)
    yield "A kernel cannot borrow time from another one: where is the maximum taken, and where the sum?", torch.maximum(*total)
    yield "Arithmetic and memory of one kernel go on at once. Which of the two decides?", total[0] + total[1]
    yield "Does no kernel wait for its arithmetic?", total[1]
    for factor in (1e12, 1e3):
        yield "In which unit does the peak come?", (count * torch.maximum(compute * factor, memory)).sum(1)
    for every in ("read", "product"):
        yield "There are two curves. Which kernels are read off which one?", step(curve_seconds(curves[every], moved))
    swapped = torch.where(kernels["is_product"], curve_seconds(curves["read"], moved), curve_seconds(curves["product"], moved))
    yield "There are two curves. Which kernels are read off which one?", step(swapped)
    large = looked_up(curve_seconds, count * moved)
    yield "A kernel that is called often is read as if it were a large one.", torch.maximum(count * compute, large).sum(1)
    for hint, look in _curve_slips():
        yield hint, step(looked_up(look))


def _curve_slips() -> Iterator[tuple[str, Any]]:
    """(hint, look(curve, sizes) as this slip has it)"""
    import torch

    from ...roofline.sweep import curve_seconds

    least, beyond = "What is the least that a kernel takes, however small it is?", "What stays as it is beyond the last point?"
    one_rate = "These are seconds at one bandwidth. What do the smaller points of the curve say?"
    yield one_rate, lambda c, b: b * c["seconds"][-1] / c["bytes"][-1]
    yield least, lambda c, b: curve_seconds(c, b) * (b / c["bytes"][0]).clamp(max=1.0)
    yield least, lambda c, b: torch.where(b < c["bytes"][0], 0.0, curve_seconds(c, b))
    for smallest in (1.0, 0.0):
        yield (
            least,
            lambda c, b, smallest=smallest: torch.where(
                b < c["bytes"][0], _power(c, b.clamp(min=smallest), 0), curve_seconds(c, b)
            ),
        )
    yield beyond, lambda c, b: torch.where(b > c["bytes"][-1], _power(c, b, -1), curve_seconds(c, b))
    yield beyond, lambda c, b: torch.where(b > c["bytes"][-1], c["seconds"][-1], curve_seconds(c, b))
    lines = {
        "the bandwidth, over bytes": lambda c, b: b / _line(c["bytes"], c["bytes"] / c["seconds"], b),
        "the seconds, over bytes": lambda c, b: _line(c["bytes"], c["seconds"], b),
        "the seconds, over log bytes": lambda c, b: _line(c["bytes"].log(), c["seconds"], b.log()),
        "the bandwidth, over log bytes": lambda c, b: b / _line(c["bytes"].log(), c["bytes"] / c["seconds"], b.log()),
    }
    for axes, line in lines.items():
        hint = f"Between two points this is a straight line of {axes}. Along which axes is it to be one?"
        yield (
            hint,
            lambda c, b, line=line: torch.where((b > c["bytes"][0]) & (b < c["bytes"][-1]), line(c, b), curve_seconds(c, b)),
        )


def _power(curve: dict[str, Any], sizes: Any, end: int) -> Any:
    """The line through the first (end 0) or last (end -1) two points on log axes, gone on."""
    if len(curve["bytes"]) == 1:
        return curve["seconds"].expand(sizes.shape)
    power = (curve["seconds"].log().diff() / curve["bytes"].log().diff())[end]
    return curve["seconds"][end] * (sizes / curve["bytes"][end]) ** power


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

    kernels, curve = case["kernels"], case["curves"]["read"]
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
    product = case["curves"]["product"]
    yield "Which of the two curves gives the rate?", torch.maximum(compute, moved * product["seconds"][-1] / product["bytes"][-1])
    yield "Which point of the curve gives the rate?", torch.maximum(compute, moved / rates[0])
    yield "Which point of the curve gives the rate?", torch.maximum(compute, moved / rates.max())
    for factor in (1e12, 1e3):
        yield "In which unit does the peak come?", torch.maximum(compute * factor, moved / rates[-1])
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
    for whole in (right.floor(), right.round(), right.ceil()):
        yield "Is a whole number asked for?", whole.where(ridge > group, never)
    yield "Solve for the context again: what stands under the bar?", kv_bytes * (ridge - group) / (2 * weights)
    yield "Does the group help a batch to reach the ridge, or hinder it?", 2 * weights / (kv_bytes * (ridge + group))


def _confirm_device(case: Case, evidence: Any) -> Mistake | None:
    """The prediction is the one that the measured curve and product lead to. Whether it came true is the ratio's part."""
    import torch

    kernels = next(stack["kernels"] for stack in case["stacks"] if stack["layers"] == evidence["layers"])
    curves = {
        kind: {name: torch.tensor(values, dtype=torch.float64) for name, values in evidence["curves"][kind].items()}
        for kind in ("read", "product")
    }
    here = {"kernels": kernels, "curves": curves, "peak_tflops": evidence["peak_tflops"], "limits": case["limits"]}
    if mistake := _check_step(here, evidence["output"]):
        return Mistake(f"on the curves measured here, {mistake.reason}", mistake.hint)
    return None


def _correct(name: str, claim: str, points: float, cases: Any, check: Any) -> Correct:
    return Correct(name=name, claim=claim, points=points, cases=cases, check=check, run="predict_sweep")


BATCH_SWEEP = Exercise(
    id="1.5",
    title="Batch sweep: predict, measure, explain",
    entry="predict_sweep",
    params=("kernels", "curves", "peak_tflops", "limits"),
    returns=f"dict: {PARTS}, float64",
    runner="phase1_sweep",
    seconds=240.0,  # the stack is built and measured four times
    criteria=(
        _correct(
            "curve",
            "each kernel looked up at its own size on its own curve: between, below and beyond the points",
            2.0,
            curve_cases,
            _check_step,
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
            claim="decode steps of an 8B model's layers, predicted from this device's curves to within 15%",
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
