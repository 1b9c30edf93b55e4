"""Exercise 1.9, CUDA graphs: what is asked, fresh cases, and how an answer is judged by what the device saw of it."""

from typing import Any

from ...grading.criteria import Case, Correct, Timed
from ...grading.exercise import Exercise
from ...grading.outcome import Mistake

RTOL, ATOL = 1e-5, 1e-5  # float32 rounds at 6e-8 in each of a few layers; products of other sizes add up in another order
MOST_LAUNCHES = 5  # copy in, replay, copy out are three; two more are free, say to pad
BAR, DEVICES = 0.9, ("NVIDIA H200",)


def expected_result(case: Case, x: Any) -> Any:
    """The step on the host: rows go through its layers on their own."""
    import torch

    for weight in case["weights"]:
        x = torch.tanh(x @ weight)
    return x


def _case(name: str, buckets: list[int], batches: list[int], width: int, layers: int, draw: Any, dtype: Any = None) -> Case:
    import torch

    def normal(rows: int) -> Any:
        return torch.randn(rows, width, generator=draw, dtype=dtype)

    dtype = dtype or torch.float32
    return {
        "name": name, "buckets": buckets, "example": torch.zeros(1, width, dtype=dtype),
        "weights": [normal(width) / width**0.5 for _ in range(layers)], "inputs": [normal(batch) for batch in batches],
    }  # fmt: skip


def _draw(seed: int) -> Any:
    import torch

    return torch.Generator().manual_seed(seed)


def _exact_cases(seed: int) -> list[Case]:
    """Batches that are buckets, each more than once, so that a result that does not survive or a stale input shows."""
    draw = _draw(seed)
    return [_case("one bucket, four calls", [3], [3, 3, 3, 3], 8, 2, draw),
            _case("three buckets in turns", [1, 2, 4], [2, 4, 1, 2, 4, 1], 8, 3, draw)]  # fmt: skip


def _between_cases(seed: int) -> list[Case]:
    import torch

    draw = _draw(seed)
    return [_case("batches between the buckets", [2, 8, 4], [3, 1, 7, 5, 2], 8, 2, draw),
            _case("a batch beyond the largest bucket", [4, 1], [2, 6, 3], 16, 2, draw),
            _case("in float64", [5, 3], [2, 4], 8, 1, draw, torch.float64)]  # fmt: skip


def _launch_cases(seed: int) -> list[Case]:
    return [_case("twelve kernels a step", [8, 4], [8, 5, 3, 8], 8, 6, _draw(seed))]


def _device_cases(seed: int) -> list[Case]:
    import torch

    return [{"name": "this device", "noise": torch.rand(1, generator=_draw(seed))}]


def _check_results(case: Case, output: Any) -> Mistake | None:
    from ...grading.compare import compare_tensor

    for turn, (x, got) in enumerate(zip(case["inputs"], output["results"], strict=True)):
        if mistake := compare_tensor(got, expected_result(case, x), rtol=RTOL, atol=ATOL):
            hint = _known_slip(case, output["results"], turn) or mistake.hint
            rows = "1 row" if len(x) == 1 else f"{len(x)} rows"
            return Mistake(f"call {turn + 1}, with {rows}: {mistake.reason}", hint)
        if output["calls"][turn]["changed_input"]:
            return Mistake(f"call {turn + 1} changed its input x", "x is the caller's; the result needs memory of its own.")
    return None


def _known_slip(case: Case, results: list, turn: int) -> str:
    import torch

    got, inputs = results[turn], case["inputs"]
    if not isinstance(got, torch.Tensor) or not got.dim():
        return ""

    def equals(x: Any) -> bool:
        expected = expected_result(case, x)[: len(got)]  # of a larger batch in the same memory, its first rows
        alike = got.shape == expected.shape and got.dtype == expected.dtype
        return alike and bool(torch.allclose(got, expected, rtol=RTOL, atol=ATOL))

    if got.isnan().any():
        return "What a graph makes holds nothing before its first replay."
    if any(equals(x) for x in inputs[turn + 1 :]):
        return "This is the result of a later call. Whose memory did you return?"
    if any(equals(x) for x in inputs[:turn]) or equals(torch.zeros_like(inputs[turn])):
        return "This is the result for another input. Which memory does the graph read?"
    if got.shape[:1] != inputs[turn].shape[:1] and got.dim() == 2:
        return "The graph computes all rows of its bucket. Which of them are asked for?"
    if len(inputs[turn]) > max(case["buckets"]):
        return "No bucket holds this batch. What does run do then?"
    return ""


def _check_replays(case: Case, output: Any) -> Mistake | None:
    return _check_results(case, output) or _not_replayed(case, output)


def _not_replayed(case: Case, output: Any) -> Mistake | None:
    """The first call that fits a bucket and had its kernels launched by hand."""
    for turn, (x, seen) in enumerate(zip(case["inputs"], output["calls"], strict=True)):
        if len(x) > max(case["buckets"]):
            continue
        if not seen["replayed_rows"]:
            none_at_all = "No graph was captured either: is it the `cuda` you were given that you use?"
            hint = "Its kernels were launched one by one." if output["setup"]["captured_rows"] else none_at_all
            return Mistake(f"call {turn + 1} replayed no graph", hint)
        if seen["eager_rows"] and not seen["captured_rows"]:
            return Mistake(f"call {turn + 1} replayed a graph and called step as well", "The replay has done the step already.")
    return None


def _check_captures(case: Case, output: Any) -> Mistake | None:
    captured, wanted = sorted(output["setup"]["captured_rows"]), sorted(case["buckets"])
    later = [turn + 1 for turn, seen in enumerate(output["calls"]) if seen["captured_rows"]]
    if later:
        hint = "A capture takes far longer than a step, and somebody is waiting. Capture when graphed is called."
        return Mistake(f"a graph was captured during call {later[0]}", hint)
    if captured != wanted:
        said = f"graphs were captured for {captured or 'no'} rows, the buckets are {wanted}"
        return Mistake(said, "One graph for each bucket.")
    return None


def _check_buckets(case: Case, output: Any) -> Mistake | None:
    for turn, (x, seen) in enumerate(zip(case["inputs"], output["calls"], strict=True)):
        fitting = [rows for rows in case["buckets"] if rows >= len(x)]
        wanted = [min(fitting)] if fitting else []
        if seen["replayed_rows"] != wanted:
            said = f"replayed {seen['replayed_rows'] or 'no graph'}, expected {wanted or 'no graph, but the step itself'}"
            return Mistake(f"call {turn + 1}, {len(x)} rows, buckets {sorted(case['buckets'])}: {said}",
                           "The smallest bucket that holds the batch; what no bucket holds is launched as it is.")  # fmt: skip
    return _check_results(case, output) or _not_replayed(case, output)


def _check_launches(case: Case, output: Any) -> Mistake | None:
    if mistake := _not_replayed(case, output):
        return mistake
    for turn, seen in enumerate(output["calls"]):
        if seen["launches"] > MOST_LAUNCHES:
            return Mistake(f"call {turn + 1} made {seen['launches']} launches, at most {MOST_LAUNCHES} may be",
                           "Copy in, replay, copy out. What else did you launch?")  # fmt: skip
    return None


def _confirm_device(case: Case, evidence: Any) -> Mistake | None:
    return Mistake(str(evidence["wrong"]), "The graph reads and writes memory of its own.") if evidence["wrong"] else None


def _correct(name: str, claim: str, points: float, cases: Any, check: Any) -> Correct:
    return Correct(name=name, claim=claim, points=points, cases=cases, check=check, run="graphed_calls")


CUDA_GRAPHS = Exercise(
    id="1.9",
    title="CUDA graphs",
    entry="graphed",
    params=("cuda", "step", "example", "buckets"),
    returns="a function: [batch, width] -> [batch, width]",
    runner="phase1_graphs",
    criteria=(
        _correct(
            "replays", "each call replays a graph on its own input, and its result stays", 2.0, _exact_cases, _check_replays
        ),
        _correct(
            "buckets", "the smallest bucket that holds the batch, no more rows than came", 2.0, _between_cases, _check_buckets
        ),
        _correct("captures", "one graph for each bucket, captured before the first call", 1.0, _between_cases, _check_captures),
        _correct("launches", "few launches a call, however many kernels a step has", 1.0, _launch_cases, _check_launches),
        Timed(
            name="this device",
            claim="as fast as our own graphs, on a step of many small kernels",
            points=2.0,
            cases=_device_cases,
            check=lambda case, output: None,
            run="builds",
            observe="graphs_on_this_device",
            confirm=_confirm_device,
            bar=BAR,
            zero_at=0.5,
            devices=DEVICES,
        ),
    ),
)
