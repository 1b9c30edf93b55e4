"""Exercise 1.6, latency floors: what is asked, and how an answer is judged. Its cases are in floors_cases.py."""

from collections.abc import Iterator
from typing import Any

from ...grading.criteria import Case, Correct
from ...grading.exercise import Exercise
from ...grading.outcome import Mistake
from .floors_cases import memory_cases, one_gpu_cases, several_ranks_cases, target_cases

# a few float64 operations round at 1e-16 each; an answer computed in float32 is off by 6e-8 and must not pass
RTOL = 1e-10
STEPS = {"ttft_ms": "prefill", "tpot_ms": "decode"}


def _expected(case: Case) -> dict[str, Any]:
    from ...roofline import latency_floors

    return latency_floors(case["model"], case["gpu"], case["ranks"], case["itl_target_ms"])


def _part(output: Any, name: str) -> Any:
    """output[name], or a Mistake when there is none."""
    from ...grading.compare import describe

    if not isinstance(output, dict):
        return Mistake(f"expected a dict with ttft_ms, tpot_ms and meets_itl, got {describe(output)}")
    if name not in output:
        return Mistake(f"the result has no {name!r}; it has {sorted(output)}"[:300])
    return output[name]


def _check_floors(case: Case, output: Any) -> Mistake | None:
    from ...grading.compare import compare_tensor

    expected = _expected(case)
    for name in STEPS:
        got = _part(output, name)
        if isinstance(got, Mistake):
            return got
        if mistake := compare_tensor(got, expected[name], rtol=RTOL):
            return Mistake(f"{name}: {mistake.reason}", _known_slip(case, name, got) or mistake.hint)
    return None


def _known_slip(case: Case, name: str, got: Any) -> str:
    """The hint for the slip that explains every value of an answer, or ""."""
    from ...grading.compare import compare_tensor

    found = (hint for hint, value in _slips(case, name) if compare_tensor(got, value, rtol=RTOL) is None)
    return next(found, "")


def _slips(case: Case, name: str) -> Iterator[tuple[str, Any]]:
    """(hint, the floors in ms that this slip leads to)"""
    import torch

    step, gpu, ranks = case["model"][STEPS[name]], case["gpu"], case["ranks"]
    compute = step["flops"] / gpu["peak_tflops"] / 1e9 / ranks
    memory = step["bytes"] / gpu["hbm_gb_per_s"] / 1e6 / ranks
    roof = torch.maximum(compute, memory)
    start = 2 * case["model"]["layers"] * gpu["alpha_us"] / 1e3
    wire = 4 * case["model"]["layers"] * (ranks - 1) / ranks * step["allreduce_bytes"] / gpu["link_gb_per_s"] / 1e6
    several = (ranks > 1).double()
    right = several * (start + wire)
    yield "Arithmetic and memory go on at once. Which of the two times decides?", compute + memory + right
    yield "Look at the rows with one rank. With whom does a single GPU exchange anything?", roof + start + wire
    yield "Do more ranks make an all-reduce start sooner?", roof + several * (start / ranks + wire)
    yield "In which unit does alpha come?", roof + several * (start * 1e3 + wire)
    yield "At how many places of a layer do partial sums meet?", roof + right / 2
    yield "Each rank does a share of the FLOPs and moves a share of the bytes.", roof * ranks + right
    yield "Is something missing that ranks do together?", roof
    yield "Is the whole message on every rank, or a share of it?", roof + several * (start + wire / ranks)
    yield "The part that depends on the size of the message is half of what it should be.", roof + several * (start + wire / 2)
    yield "The part that depends on the size of the message is twice what it should be.", roof + several * (start + wire * 2)
    yield "Do products go on while an all-reduce is on its way?", torch.maximum(roof, right)


def _check_decision(case: Case, output: Any) -> Mistake | None:
    import torch

    from ...grading.compare import compare_tensor

    got, expected = _part(output, "meets_itl"), _expected(case)
    if isinstance(got, Mistake):
        return got
    right = expected["meets_itl"]
    mistake = compare_tensor(got, right, rtol=0.0)
    if mistake is None:
        return None
    if not isinstance(got, torch.Tensor) or got.dtype != right.dtype or got.shape != right.shape:
        return Mistake(f"meets_itl: {mistake.reason}", mistake.hint)
    row = int((got != right).nonzero()[0])
    hint = "Fast enough and fitting, each with equality; and an unknown time keeps no promise."
    own = _part(output, "tpot_ms")
    if isinstance(own, torch.Tensor) and compare_tensor(own, expected["tpot_ms"], rtol=RTOL):
        hint = "Is it the decision that is wrong, or the floor that it rests on? Yours is another one: mend tpot_ms first."
    return Mistake(
        f"meets_itl[{row}]: got {bool(got[row])}, expected {bool(right[row])}; {_circumstances(case, expected, row)}", hint
    )


def _circumstances(case: Case, expected: dict[str, Any], row: int) -> str:
    """What a learner needs to see why a row meets the target or does not."""
    floor, ranks = float(expected["tpot_ms"][row]), int(case["ranks"][row])
    held, room = float(case["model"]["resident_bytes"][row]) / ranks / 1e9, float(case["gpu"]["hbm_gb"][row])
    whole = f"{ranks} ranks, each" if ranks > 1 else "1 rank"
    return f"TPOT floor {floor:.6g} ms, target {case['itl_target_ms']:.6g} ms; {whole} with {held:.6g} of {room:g} GB"


LATENCY_FLOORS = Exercise(
    id="1.6",
    title="TTFT and TPOT floors",
    entry="latency_floors",
    params=("model", "gpu", "ranks", "itl_target_ms"),
    returns="dict: ttft_ms and tpot_ms [configs] float64, meets_itl [configs] bool",
    runner="phase1_floors",
    criteria=(
        Correct(
            name="one GPU",
            claim="the floors of prefill and decode on one GPU, limited by arithmetic or by memory",
            points=2.0,
            cases=one_gpu_cases,
            check=_check_floors,
            run="latency_floors",
        ),
        Correct(
            name="several ranks",
            claim="divided work, and all-reduces that are not",
            points=2.0,
            cases=several_ranks_cases,
            check=_check_floors,
            run="latency_floors",
        ),
        Correct(
            name="target",
            claim="which configurations are fast enough; exactly on the target is",
            points=1.0,
            cases=target_cases,
            check=_check_decision,
            run="latency_floors",
        ),
        Correct(
            name="memory",
            claim="what does not fit meets nothing, however fast it would be",
            points=1.0,
            cases=memory_cases,
            check=_check_decision,
            run="latency_floors",
        ),
    ),
)
