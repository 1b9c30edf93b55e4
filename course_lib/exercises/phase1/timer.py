"""Exercise 1.3, an honest GPU timer: judged on a simulated device, whose delays are known, and beside our own on a real one.

What an answer did crosses the border as a list of operations, one a line, and is run again here, with the delays of the case: no
time or stamp that was written beside the answer is believed.
"""

import math
import statistics
from collections.abc import Callable, Mapping
from typing import Any

from ...grading.compare import describe
from ...grading.criteria import Case, Correct, Timed
from ...grading.exercise import Exercise
from ...grading.outcome import Mistake
from ...workloads.simulated_gpu import Machine, replayed
from . import timer_cases

# Two event times of 0.5 us resolution and the event's own 0.3 us: at most 0.8 us, doubled and rounded up. A launch varies by
# 0.3%, and a host clock around a kernel of 2 ms or more adds up to 1.5%: launch (20 us at most) and return from synchronize.
ATOL_SECONDS, RTOL = 2e-6, 0.03
SPARE_LAUNCHES = 10  # beyond `repeats`, the warm-up included
DEVICE_RTOL, DEVICE_ATOL_SECONDS = 0.10, 2e-6


def _truth_seconds(case: Case) -> float:
    """One launch with a cold L2, at full clock."""
    device = case["device"]
    return device["kernel_us"] * device.get("cold_factor", 1.0) / 1e6


def _machine(case: Case, output: Any) -> Machine | Mistake:
    """The simulated device after what the answer did with it, or what is wrong with that."""
    try:
        machine = replayed(case["device"], output["operations"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return Mistake(f"what was done with the device cannot be replayed ({type(error).__name__})")
    count, repeats = len(machine.launches), case["repeats"]
    if count < repeats:
        return Mistake(f"launched {count} times, and {repeats} are to be measured", "Every number has to be measured anew.")
    return machine


def _measurements(machine: Machine) -> int:
    """How many times were read: pairs of marks, each counted once however often it is read, and pairs of looks at the clock."""
    recorded: dict[str, int] = {}  # event -> how often it was put into the queue
    pairs, looks = set(), 0
    for operation in machine.operations:
        name, *events = operation.split()
        if name == "record":
            recorded[events[0]] = recorded.get(events[0], 0) + 1
        elif name == "elapsed":
            pairs.add(tuple((event, recorded.get(event, 0)) for event in events))
        looks += name == "clock"
    return len(pairs) + looks // 2


def _check_time(case: Case, output: Any) -> Mistake | None:
    machine = _machine(case, output)
    if isinstance(machine, Mistake):
        return machine
    if not any(operation.startswith(("elapsed", "clock")) for operation in machine.operations):
        return Mistake(
            "neither two events nor gpu.perf_counter were read",
            "The device keeps a time of its own; only `gpu` knows it.",
        )
    seconds, truth = output.get("seconds"), _truth_seconds(case)
    if type(seconds) is not float:
        return Mistake(f"expected a float, the median in seconds, got {describe(seconds)}")
    if math.isfinite(seconds) and abs(seconds - truth) <= ATOL_SECONDS + RTOL * truth:
        return None
    ratio = f", {seconds / truth:.2f} times" if math.isfinite(seconds) and 0.01 <= seconds / truth < 100 else ""
    return Mistake(f"got {_shown(seconds)}, the kernel takes {_shown(truth)}{ratio}", _hint(case, machine, seconds))


def _check_spread(case: Case, output: Any) -> Mistake | None:
    """As _check_time; and a median of fewer than `repeats` measurements is right by luck at most."""
    machine = _machine(case, output)
    mistake = _check_time(case, output)
    if mistake or isinstance(machine, Mistake) or (measured := _measurements(machine)) >= case["repeats"]:
        return mistake
    return Mistake(
        f"read the time of {measured} launches, and {case['repeats']} are to be measured",
        "Each of them has two marks, or two looks at the clock, of its own.",
    )


def _shown(seconds: float) -> str:
    if not 1e-9 < abs(seconds) < 1e3:
        return f"{seconds:g} s"
    return f"{seconds * 1e6:.1f} µs" if abs(seconds) < 1e-3 else f"{seconds * 1e3:.3f} ms"


def _hint(case: Case, machine: Machine, seconds: float) -> str:
    """The kind of mistake, told from what each would give here. What the device of this case is about comes first."""
    device, truth, repeats = machine.delays, _truth_seconds(case), case["repeats"]
    last = [(one["end_us"] - one["start_us"]) / 1e6 for one in machine.launches[-repeats:]]
    uneven = device["outlier_us"] or device["pause_us"]
    launch, flush = device["launch_us"] / 1e6, device["flush_us"] / 1e6
    slips = (
        (True, truth * 1e3, "That is the time in milliseconds; elapsed_time gives those."),
        (True, truth * 1e6, "That is the time in microseconds."),
        (True, truth + flush, "That is the kernel and the flush. Which of them stands between your two marks, and which should?"),
        (device["cold_factor"] > 1, device["kernel_us"] / 1e6,
         "That is the time with the data still in the L2. What has to happen before every single launch?"),
        (uneven, statistics.fmean(last), "That is the mean: a few odd launches drag it along. Which middle stays where it is?"),
        (uneven, min(last), "That is the fastest launch; asked for is the median."),
        (uneven, max(last), "That is the slowest launch; asked for is the median."),
        (repeats > 1, sum(last), "That is all of the launches together; asked for is one."),
        (True, truth * 2, "Is a second launch between your marks?"),
    )  # fmt: skip
    for possible, value, hint in slips:
        if possible and abs(seconds - value) <= 0.08 * value and abs(value - truth) > ATOL_SECONDS + RTOL * truth:
            return hint
    if 0 <= seconds <= 1e-6:
        return "No kernel ran between your two marks."
    if seconds < launch + 4 * device["record_us"] / 1e6 < truth:
        return "Queueing a launch takes about that long. A launch returns before its kernel has run."
    if device["ramp"]:
        return "The first three launches are slower, the first by far. Do they belong to what you measure?"
    if device["queued_us"] and seconds > truth:
        return "The device still had other work to do. When did your clock start, and when did the kernel?"
    if truth < launch:
        return "The device had nothing to do while the host was still launching. What could keep it busy until then?"
    return "Look at what lies between your two marks, on the host's row and on the device's."


def _check_budget(case: Case, output: Any) -> Mistake | None:
    machine = _machine(case, output)
    if isinstance(machine, Mistake):
        return machine
    count, most = len(machine.launches), case["repeats"] + SPARE_LAUNCHES
    if count <= most:
        return None
    return Mistake(
        f"launched {count} times to measure {case['repeats']}; at most {most}",
        "Three launches warm up, and each measurement is one launch.",
    )


def _confirm_device(case: Case, evidence: Mapping[str, Any]) -> Mistake | None:
    for kernel in ("copy", "product", "short"):
        pairs = evidence["seconds"][kernel]
        theirs, ours = (statistics.median(pair[i] for pair in pairs) for i in (0, 1))
        if not abs(theirs - ours) <= max(DEVICE_RTOL * ours, DEVICE_ATOL_SECONDS):
            return Mistake(
                f"{kernel}: your timer says {_shown(theirs)}, the course's own {_shown(ours)}",
                "The simulated device has the same traps; which of them is larger for this kernel?",
            )
    return None


def _correct(name: str, claim: str, points: float, cases: Callable, check: Callable = _check_time) -> Correct:
    return Correct(name=name, claim=claim, points=points, cases=cases, check=check, run="time_kernel")


TIMER = Exercise(
    id="1.3",
    title="An honest GPU timer",
    entry="time_kernel",
    params=("gpu", "launch", "repeats"),
    returns="float, the median seconds of one launch with a cold L2",
    runner="phase1_timer",
    may_import=frozenset({"math", "torch", "statistics"}),
    criteria=(
        _correct("asynchronous", "the kernel's time, although a launch returns before it", 2.0, timer_cases.asynchronous),
        _correct("queued before", "work that others queued before is not counted", 1.0, timer_cases.queued),
        _correct("warm-up", "compilation and a rising clock are left out", 1.0, timer_cases.warm_up),
        _correct("cold L2", "every measured launch finds a cold L2, and the flush is not counted", 1.0, timer_cases.cold),
        _correct("spread", "the median, which a few odd launches do not move", 1.0, timer_cases.spread, _check_spread),
        _correct("short kernel", "a kernel that is shorter than its launch", 1.0, timer_cases.short),
        _correct("budget", "no more launches than needed", 1.0, timer_cases.budget, _check_budget),
        Timed(
            name="this device",
            claim="a copy, a product and a short kernel on this device, as the course's own timer has them",
            points=2.0,
            cases=timer_cases.on_this_device,
            check=_check_time,
            run="time_kernel",
            observe="timer_on_this_device",
            confirm=_confirm_device,
            bar=0.0,
        ),
    ),
)
