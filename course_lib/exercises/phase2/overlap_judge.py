"""Exercise 2.10: a timeline is judged by the rules that every one keeps and by its length, not by its form.

The rules are in attention/timeline.py. A hint says what kept the busiest unit waiting, or names a slip that explains the length.
"""

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ...grading.criteria import Case
from ...grading.outcome import Mistake

if TYPE_CHECKING:
    from ...attention.timeline import Key

EPSILON = 1e-6  # cycles: starts may be floats
SHAPE = ("tiles", "groups", "alive", "stages")


def starts(case: Case, output: Any) -> "dict[Key, float] | Mistake":
    """Start of each job; a Mistake where the output is no timeline with each job once."""
    from ...attention.timeline import JOBS, all_jobs, words
    from ...grading.compare import describe

    wanted = "expected a list of (job, group, tile, start)"
    if not isinstance(output, (list, tuple)):
        return Mistake(f"{wanted}, got {describe(output)}")
    expected, found = all_jobs(case["tiles"], case["groups"]), {}
    for number, entry in enumerate(output):
        if not isinstance(entry, (list, tuple)) or len(entry) != 4:
            return Mistake(f"{wanted}; entry {number} is {describe(entry)}")
        job, group, tile, start = entry
        if not isinstance(job, str) or job not in JOBS:
            return Mistake(f"{wanted}; the job of entry {number} is {str(job)[:40]!r}", f"Jobs are {', '.join(JOBS)}.")
        if not all(map(_is_number, (tile, start))) or (job != "load" and not _is_number(group)):
            return Mistake(f"{wanted}, all numbers but the first; entry {number} is {str(entry)[:80]}")
        if tile != int(tile) or (job != "load" and group != int(group)):
            return Mistake(f"{wanted}, group and tile whole numbers; entry {number} is {str(entry)[:80]}")
        key = (job, 0 if job == "load" else int(group), int(tile))
        if key in found:
            each = "A load serves all groups: it stands in the list once." if job == "load" else ""
            return Mistake(f"{words(key)} stands in the list twice", each)
        found[key] = start
    if missing := [job for job in expected if job not in found]:
        return Mistake(f"{words(missing[0])} is missing", _why_missing(missing[0], case, found))
    if extra := [job for job in found if job not in set(expected)]:
        return Mistake(f"{words(extra[0])}: there are {case['tiles']} tiles and {case['groups']} groups, counted from 0")
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and abs(value) < 2**40


def _why_missing(job: "Key", case: Case, found: "Mapping[Key, float]") -> str:
    if any(group == case["groups"] or tile == case["tiles"] for _, group, tile in found):
        return "Groups and tiles count from 0."
    if job[0] == "pv" and job[2] == case["tiles"] - 1:
        return "After the last tile's softmax its values are still to come."
    return ""


def check_rules(case: Case, output: Any) -> Mistake | None:
    from ...attention.timeline import broken_rule

    found = starts(case, output)
    if isinstance(found, Mistake):
        return found
    said = broken_rule(found, *(case[name] for name in SHAPE), case["cycles"], EPSILON)
    return Mistake(said, _rule_hint(case, found)) if said else None


def _rule_hint(case: Case, found: "Mapping[Key, float]") -> str:
    """For the broken rules that are easy to misread."""
    from ...attention.timeline import must_be_over

    cycles = case["cycles"]
    if min(found.values()) < -EPSILON:
        return ""
    for job in sorted(found, key=lambda job: found[job]):
        late = [
            other for other, _ in must_be_over(job, *(case[name] for name in SHAPE[1:]))
            if found[job] < found[other] + cycles[other[0]] - EPSILON
        ]  # fmt: skip
        if not late:
            continue
        other = late[0]
        if job[0] == "load":
            return _place_hint(case, found)
        if job[0] == "qk" and other[0] == "pv":
            return "Registers of a tile are taken from the start of its qk to the end of its pv."
        return ""
    return "Each unit does one job at a time. Where do you keep the time at which it is free?"


def _place_hint(case: Case, found: "Mapping[Key, float]") -> str:
    """What loads did wait for, if it can be seen: each of them waits for it, and one starts when it is over."""
    groups, stages = range(case["groups"]), case["stages"]

    def waited(job: str, who: Any, places: int) -> bool:
        ends = {
            tile: max(found[job, group, tile - places] + case["cycles"][job] for group in who)
            for tile in range(places, case["tiles"])
        }
        rests = [found["load", 0, tile] - end for tile, end in ends.items()]
        return bool(rests) and min(rests) > -EPSILON and min(rests) < EPSILON

    if case["groups"] > 1 and waited("pv", groups[:1], stages):
        return "A place in shared memory is free when all groups are done with it."
    if waited("qk", groups, stages):
        return "A place holds the values of its tile as well as its keys."
    if waited("pv", groups, stages + 1):
        return f"{stages} place{'s' * (stages > 1)}: is tile {stages} the first that finds none empty, or the next?"
    return f"{stages} place{'s' * (stages > 1)}: which tile was in this one before, and who still needs it?"


def check_short(case: Case, output: Any) -> Mistake | None:
    from ...attention.timeline import makespan, most_cycles, pace

    if mistake := check_rules(case, output):
        return mistake
    found = starts(case, output)
    assert not isinstance(found, Mistake)
    shape = tuple(case[name] for name in SHAPE)
    took, most = makespan(found, case["cycles"]), most_cycles(*shape, case["cycles"])
    if took <= most + EPSILON:
        return None
    each = pace(*shape[1:], case["cycles"])
    said = f"{took:,.0f} cycles; {most:,.0f} are enough: {case['tiles']} tiles at {each:,.0f} cycles, and one pass of each job"
    return Mistake(said, _why_long(case, found))


def _why_long(case: Case, found: "Mapping[Key, float]") -> str:
    cycles, groups, last = case["cycles"], range(case["groups"]), case["tiles"] - 1

    def end(*job: Any) -> float:
        return found[job] + cycles[job[0]]

    if case["stages"] > 1 and all(found["load", 0, tile + 1] >= end("pv", 0, tile) for tile in range(last)):
        return f"Every load waits until the tile before is done with. There are {case['stages']} places in shared memory."
    if case["alive"] > 1 and all(found["pv", g, tile] <= found["qk", g, tile + 1] for g in groups for tile in range(last)):
        return "When a softmax of tile 1 runs, pv of tile 0 is over already. What could a group ask for first, so that it is not?"
    products = [(found[job], end(*job)) for job in found if job[0] in ("qk", "pv")]
    softmaxes = [(found[job], end(*job)) for job in found if job[0] == "softmax"]
    beside = sum(max(0.0, min(b, d) - max(a, c)) for a, b in products for c, d in softmaxes)
    if case["groups"] * case["alive"] > 1 and not beside:
        two = "groups" if case["groups"] > 1 else "tiles"
        return f"No product runs beside a softmax. Which rule forbids it, when they are of two {two}?"
    return _gap(case, found)


def _gap(case: Case, found: "Mapping[Key, float]") -> str:
    """The longest rest of the busiest unit, after it has begun, and what the job behind it waited for."""
    from ...attention.timeline import UNITS, must_be_over, words

    cycles = case["cycles"]
    busy = {unit: sum(cycles[job[0]] for job in found if UNITS[job[0]] == unit) for unit in UNITS.values()}
    unit = max(busy, key=lambda name: busy[name])
    on_it = sorted((job for job in found if UNITS[job[0]] == unit), key=lambda job: found[job])
    rests = [(found[b] - found[a] - cycles[a[0]], number) for number, (a, b) in enumerate(pairwise(on_it))]
    steady = [one for one in rests if 0 < on_it[one[1] + 1][2] < case["tiles"] - 1] or rests
    rest, number = next(one for one in steady if 2 * one[0] >= max(steady)[0])
    before, job = on_it[number], on_it[number + 1]
    since = found[before] + cycles[before[0]]
    waits = {other: found[other] + cycles[other[0]] for other, _ in must_be_over(job, *(case[name] for name in SHAPE[1:]))}
    said = f"The busiest unit, '{unit}', rests for {rest:,.0f} cycles from {since:,.0f} on, until {words(job)}"
    could = max([since, *waits.values()])
    if could < found[job] - EPSILON:
        return f"{said}, which could start at {could:,.0f}."
    other = max(waits, key=lambda one: waits[one])
    said = f"{said}, which waits for {words(other)}, begun at {found[other]:,.0f}."
    scores = ("qk", *other[1:])
    ready = max(found[one] + cycles[one[0]] for one, _ in must_be_over(scores, *(case[name] for name in SHAPE[1:])))
    if other[0] == "softmax" and found[scores] > ready + EPSILON:
        first = max((one for one in on_it if found[one] < found[scores]), key=lambda one: found[one])
        return f"{said} Its qk was ready at {ready:,.0f}, and {words(first)} went first. Whose turn should it have been?"
    return f"{said} Would another order of products have let it begin earlier?"
