"""Exercise 1.7, honest figures from raw counters: what is asked, and how an answer is judged. Cases are in telemetry_cases.py."""

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from ...grading.criteria import Case, Correct, Timed
from ...grading.exercise import Exercise
from ...grading.outcome import Mistake
from .telemetry_cases import activity_cases, clock_cases, counter_cases, device_cases, energy_cases

# host times of some 1e5 s round at 1e-11 s, intervals at 1e-9 of themselves; an answer in float32 is off by 1e-7 and more
RTOL = 1e-8
ENERGY = ("joules", "mean_watts", "joules_per_token", "tokens_per_joule")
ACTIVITY = ("busy_time_share", "tensor_share", "dram_gb_per_s")
CLOCKS = ("throttled_by", "lowest_sm_mhz")
Slips = Callable[[Case, str], Iterator[tuple[str, Any]]]


def _expected(case: Mapping[str, Any]) -> dict[str, Any]:
    from ...telemetry.honest import honest_figures

    return honest_figures(case["samples"], case["window"], case["tokens"], case["peaks"])


def _part(output: Any, name: str) -> Any:
    """output[name], or a Mistake when there is none."""
    from ...grading.compare import describe

    if not isinstance(output, dict):
        return Mistake(f"expected a dict with {', '.join(ENERGY + ACTIVITY + CLOCKS)}, got {describe(output)}")
    if name not in output:
        return Mistake(f"the result has no {name!r}; it has {sorted(output)}"[:300])
    return output[name]


def _compare(name: str, got: Any, expected: float | None) -> Mistake | None:
    """None when `got` is the number expected, or None where that is expected."""
    from ...grading.compare import describe

    if expected is None:
        if got is None:
            return None
        hint = "These samples do not say it. What is missing in them, or cannot be?"
        return Mistake(f"{name}: got {describe(got)}, expected None", hint)
    if got is None:
        hint = "Does what is missing concern the window?" if expected else "Is 0 taken for nothing?"
        return Mistake(f"{name}: got None, expected {expected:.6g}", f"The samples do say it. {hint}")
    if isinstance(got, bool) or not isinstance(got, (int, float)):
        return Mistake(f"{name}: expected a number, got {describe(got)}", "Plain Python numbers: float(x) makes one.")
    if isinstance(got, int) and abs(got) > 2**63:  # perhaps too long for a float
        return Mistake(f"{name}: got a number of {got.bit_length()} bits, expected {expected:.9g}")
    if not abs(got - expected) <= RTOL * abs(expected):
        return Mistake(f"{name}: got {got:.9g}, expected {expected:.9g}")
    return None


def _checked(names: tuple[str, ...], slips: Slips) -> Callable[[Case, Any], Mistake | None]:
    """The check of a criterion: the parts that it looks at, and the slips that it knows."""

    def check(case: Case, output: Any) -> Mistake | None:
        expected = _expected(case)
        for name in names:
            got = _part(output, name)
            if isinstance(got, Mistake):
                return got
            if mistake := _compare(name, got, expected[name]):
                return Mistake(mistake.reason, _known_slip(slips(case, name), name, got, expected[name]) or mistake.hint)
        return None

    return check


def _known_slip(slips: Iterator[tuple[str, Any]], name: str, got: Any, expected: float | None) -> str:
    """The hint for the slip that explains the number given for another number, or ""."""
    if got is None or expected is None:
        return ""
    return next((hint for hint, value in slips if value is not None and _compare(name, got, value) is None), "")


def _energy_slips(case: Case, name: str) -> Iterator[tuple[str, float | None]]:
    """(hint, the value of `name` that this slip leads to)"""
    from ...telemetry.honest import joules_between

    samples, (start, end) = case["samples"], case["window"]
    times, counter = [s["seconds"] for s in samples], [s["energy_mj"] / 1e3 for s in samples]
    inside = [place for place, moment in enumerate(times) if start <= moment <= end]
    watts = [s["power_mw"] / 1e3 for s in samples]

    def figure(joules: float | None, seconds: float = end - start) -> float | None:
        tokens = case["tokens"]
        if joules is None:
            return None
        parts = {"joules": joules, "mean_watts": joules / seconds, "joules_per_token": joules / tokens if tokens else None,
                 "tokens_per_joule": tokens / joules if joules else None}  # fmt: skip
        return parts[name]

    true = joules_between(samples, start, end)
    yield "In which unit does the counter come?", true and figure(true * 1e3)
    yield "That is the energy of the whole recording. When were the tokens made?", figure(counter[-1] - counter[0])
    yield "Over which time is this the mean?", true and figure(true, times[-1] - times[0])
    power = "These are power readings. Which counter misses nothing between two samples?"
    yield power, figure(sum(watts) / len(watts) * (end - start))
    yield power, figure(sum(watts[i] for i in inside) / len(inside) * (end - start))
    rule = sum((times[j] - times[i]) * (watts[i] + watts[j]) / 2 for i, j in pairwise(inside))
    yield power, figure(rule)
    if inside[0] > 0 and inside[-1] + 1 < len(times):
        edges = "The counter is taken at a sample. Where does it stand at the mark, which lies between two?"
        yield edges, figure(counter[inside[-1]] - counter[inside[0]])
        yield edges, figure(counter[inside[-1] + 1] - counter[inside[0] - 1])
        yield edges, figure(counter[inside[-1]] - counter[inside[0] - 1])
        yield edges, figure(counter[inside[-1] + 1] - counter[inside[0]])
    repeated = "A reading that repeats the one before is old. Between which two is the straight line?"
    yield repeated, figure(_through_all(times, counter, end) - _through_all(times, counter, start))


def _through_all(times: list[float], counter: list[float], moment: float) -> float:
    """The counter on straight lines between all samples, stale ones included."""
    for (t0, e0), (t1, e1) in pairwise(zip(times, counter, strict=True)):
        if t0 < t1 and t0 <= moment <= t1:
            return e0 + (e1 - e0) * (moment - t0) / (t1 - t0)
    return counter[0] if moment < times[0] else counter[-1]


def _activity_slips(case: Case, name: str) -> Iterator[tuple[str, float | None]]:
    samples, (start, end), peaks = case["samples"], case["window"], case["peaks"]
    inside = [s for s in samples if start <= s["seconds"] <= end]
    true = _expected(case)[name]
    if name == "dram_gb_per_s":
        memory = sum(s["memory_busy_percent"] for s in inside) / len(inside) / 100
        yield "How long memory was busy is not how much it moved, and a capacity is no rate.", memory * peaks["hbm_gb"]
        yield "How long memory was busy is not how much it moved.", memory * peaks["hbm_gb_per_s"]
        yield "Is the capacity a rate?", true and true / peaks["hbm_gb_per_s"] * peaks["hbm_gb"]
    yield "A share lies between 0 and 1. What does a percent stand for?", true and true * 100
    read = {"busy_time_share": _busy, "tensor_share": _gpm("tensor_percent"), "dram_gb_per_s": _gpm("dram_percent")}[name]
    scale = peaks["hbm_gb_per_s"] if name == "dram_gb_per_s" else 1.0
    for chosen, hint in (
        (inside, "Each sample counts alike here. How long is the interval that each one stands for?"),
        (samples, "This is the whole recording. Which intervals lie in the window?"),
    ):
        values = [read(s) for s in chosen if read(s) is not None]
        yield hint, scale * sum(values) / len(values) / 100 if values else None
    parts = [(min(b["seconds"], end) - max(a["seconds"], start), a, b) for a, b in pairwise(samples)]
    within = [(length, a, b) for length, a, b in parts if length > 0]
    if all(read(a) is not None for _, a, _ in within):
        forward = sum(length * read(a) for length, a, _ in within) / (end - start)
        yield "Which time does a sample speak of: that before it, or that after it?", scale * forward / 100
    if name == "dram_gb_per_s":
        memory = sum(length * b["memory_busy_percent"] for length, _, b in within) / (end - start) / 100
        yield "How long memory was busy is not how much it moved.", memory * peaks["hbm_gb_per_s"]
    pairs = [(b["seconds"] - a["seconds"], read(b)) for a, b in pairwise(samples) if start <= b["seconds"] <= end]
    known = [(length, value) for length, value in pairs if value is not None]
    if sum(length for length, _ in known):
        weighted = sum(length * value for length, value in known) / sum(length for length, _ in known)
        yield "An interval that lies in the window in part counts with that part.", scale * weighted / 100
    if name == "tensor_share":
        yield "Time in which a kernel ran says nothing of the tensor cores.", _expected(case)["busy_time_share"]


def _busy(sample: Mapping[str, Any]) -> float:
    return sample["busy_percent"]


def _gpm(name: str) -> Callable[[Mapping[str, Any]], float | None]:
    return lambda sample: sample["gpm"] and sample["gpm"][name]


def _check_clocks(case: Case, output: Any) -> Mistake | None:
    from ...grading.compare import describe
    from ...telemetry.reasons import reason_names

    expected, got = _expected(case), _part(output, "throttled_by")
    if isinstance(got, Mistake):
        return got
    if not isinstance(got, (list, tuple)) or not all(isinstance(name, str) for name in got):
        return Mistake(f"throttled_by: expected a list of names, got {describe(got)}")
    right = expected["throttled_by"]
    if sorted(got) != sorted(right):
        hint = _clock_hint(case, set(got), set(right), reason_names)
        return Mistake(f"throttled_by: got {list(got)}, expected {right}"[:300], hint)
    lowest = _part(output, "lowest_sm_mhz")
    if isinstance(lowest, Mistake):
        return lowest
    mistake = _compare("lowest_sm_mhz", lowest, expected["lowest_sm_mhz"])
    return mistake and Mistake(mistake.reason, "Which samples lie in the window?")


def _clock_hint(case: Case, got: set[str], right: set[str], names: Callable[[int], tuple[str, ...]]) -> str:
    start, end = case["window"]
    outside = {n for s in case["samples"] if not start <= s["seconds"] <= end for n in names(s["reasons"])}
    if got == right:
        return "Each name once."
    if got - right and got - right <= outside - right - {"gpu_idle", "applications_clocks", "sync_boost", "display_clocks"}:
        return "Something slowed the clocks, but when? Look at the samples in the window."
    if got - right:
        return "Not every bit slows a GPU that has work."
    return "One mask can hold several bits, and each sample has a mask of its own."


def _check_all(case: Case, output: Any) -> Mistake | None:
    checks = (_checked(ENERGY, _energy_slips), _checked(ACTIVITY, _activity_slips), _check_clocks)
    return next(filter(None, (check(case, output) for check in checks)), None)


def _confirm_device(case: Case, evidence: Mapping[str, Any]) -> Mistake | None:
    """The answer's figures of both recordings, against the oracle's, and what they must say of a kernel that only spins."""
    for name, recording in evidence["recordings"].items():
        if mistake := _check_all(recording, evidence["figures"][name]):
            return Mistake(f"the recording {name!r}: {mistake.reason}", mistake.hint)
    spin, product = evidence["figures"]["spin"], evidence["figures"]["product"]
    if spin["busy_time_share"] < 0.9 or spin["tensor_share"] > 0.01 or product["tensor_share"] < 10 * spin["tensor_share"]:
        said = f"busy {spin['busy_time_share']:.2f} and tensor {spin['tensor_share']:.3f} of the spin kernel"
        return Mistake(f"{said}, tensor {product['tensor_share']:.3f} of the product do not tell the two apart")
    return None


def _correct(name: str, claim: str, points: float, cases: Callable[[int], list[Case]], check: Any) -> Correct:
    return Correct(name=name, claim=claim, points=points, cases=cases, check=check, run="honest_figures")


TELEMETRY = Exercise(
    id="1.7",
    title="Telemetry without self-deception",
    entry="honest_figures",
    params=("samples", "window", "tokens", "peaks"),
    returns="dict: joules, mean_watts, joules_per_token, tokens_per_joule, tensor_share, dram_gb_per_s (numbers or None), "
    "busy_time_share, throttled_by (names), lowest_sm_mhz",
    runner="phase1_telemetry",
    criteria=(
        _correct(
            "energy",
            "the energy of the window and of a token, from the counter",
            2.0,
            energy_cases,
            _checked(ENERGY, _energy_slips),
        ),
        _correct(
            "counter",
            "a counter that repeats itself is read right, and one that does not reach or starts anew gives None",
            1.0,
            counter_cases,
            _checked(ENERGY, _energy_slips),
        ),
        _correct(
            "activity",
            "what tensor cores and memory did, apart from the time in which a kernel ran",
            2.0,
            activity_cases,
            _checked(ACTIVITY, _activity_slips),
        ),
        _correct("clocks", "whether the clocks were held back in the window, and why", 1.0, clock_cases, _check_clocks),
        Timed(
            name="this device",
            claim="busy all the time and no tensor core at work: what this device's own counters say of a kernel that spins",
            points=1.0,
            cases=device_cases,
            check=_check_all,
            run="honest_figures",
            observe="figures_of_this_device",
            confirm=_confirm_device,
            bar=0.0,  # the two ways to power are shown beside each other; how near they are earns nothing
        ),
    ),
)
