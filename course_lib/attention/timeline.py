"""What can happen at the same time in one SM while attention runs: rules of a timeline, a timeline, and its pace.

A job is (job, group, tile, start), job one of JOBS, start in cycles. `groups` warpgroups, each with queries of its own, walk over
the same tiles of keys and values. cycles: of each job, for one group. A model: hopper_kernel.py is the thing itself.

  load     copy engine           keys and values of a tile come to shared memory, once for all groups (its group is not looked at)
  qk       tensor cores          scores of a tile
  softmax  exponentials' unit    weights of a tile
  pv       tensor cores          weights times values, added to the accumulator

alive   tiles of scores for which a group has registers: taken when qk starts, given back when pv ends. 2: a softmax can run
        beside the product with the values before
stages  tiles of keys and values for which there is shared memory
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

JOBS = ("load", "qk", "softmax", "pv")
UNITS = {"load": "copy engine", "qk": "tensor cores", "softmax": "exponentials", "pv": "tensor cores"}
Job = tuple[str, int, int, float]  # job, group, tile, start
Key = tuple[str, int, int]


def words(job: Key) -> str:
    """("qk", 1, 3) -> "qk of tile 3, group 1"."""
    return f"{job[0]} of tile {job[2]}" + (f", group {job[1]}" if job[0] != "load" else "")


def all_jobs(tiles: int, groups: int) -> list[Key]:
    """Those that a timeline has once each; the group of a load is 0."""
    loads = [("load", 0, tile) for tile in range(tiles)]
    return loads + [(job, group, tile) for tile in range(tiles) for group in range(groups) for job in JOBS[1:]]


def must_be_over(job: Key, groups: int, alive: int, stages: int) -> Iterator[tuple[Key, str]]:
    """(another job, why it has to be over before this one starts). Tiles before the first are left out."""
    name, group, tile = job
    if name == "load":
        before = [(("pv", other, tile - stages), f"its place in shared memory, one of {stages}") for other in range(groups)]
    elif name == "qk":
        before = [
            (("load", 0, tile), "its keys"),
            (("softmax", group, tile - 1), "the warps of the group, which do that softmax, to ask for it"),
            (("pv", group, tile - alive), f"registers, which the group has for {alive} tile{'s' * (alive > 1)} of scores"),
        ]
    elif name == "softmax":
        before = [(("qk", group, tile), "its scores")]
    else:
        before = [(("softmax", group, tile), "its weights"), (("pv", group, tile - 1), "the accumulator")]
    return (one for one in before if one[0][2] >= 0)


def broken_rule(
    starts: Mapping[Key, float], tiles: int, groups: int, alive: int, stages: int, cycles: Mapping[str, float],
    epsilon: float = 0.0,
) -> str | None:  # fmt: skip
    """The first rule, by time, that a timeline with all its jobs breaks, in words; None when it breaks none.

    epsilon  cycles that a job may start too early: starts may be sums of floats
    """
    in_time = sorted(starts, key=lambda job: (starts[job], JOBS.index(job[0])))
    last_on: dict[str, Key] = {}
    for job in in_time:
        start, unit = starts[job], UNITS[job[0]]
        if start < -epsilon:
            return f"{words(job)} starts at {start:g}; time begins at 0"
        if unit in last_on and start < (end := starts[last_on[unit]] + cycles[last_on[unit][0]]) - epsilon:
            return f"{words(job)} starts at {start:g} on the unit '{unit}', which has {words(last_on[unit])} until {end:g}"
        last_on[unit] = job
        for other, why in must_be_over(job, groups, alive, stages):
            end = starts[other] + cycles[other[0]]
            if start < end - epsilon:
                return f"{words(job)} starts at {start:g}; it needs {why}, and {words(other)} ends at {end:g}"
    return None


def makespan(starts: Mapping[Key, float], cycles: Mapping[str, float]) -> float:
    return max((start + cycles[job[0]] for job, start in starts.items()), default=0)


def timeline(tiles: int, groups: int, alive: int, stages: int, cycles: Mapping[str, int]) -> list[Job]:
    """Groups take turns: in its turn one asks for the values of a tile and the scores of the next, then does that softmax.

    With alive 2 the scores come first, and the values are multiplied beside the softmax. A job starts as soon as it can.
    One stage is enough for one group with alive 1. ValueError where jobs would wait for each other without end.
    """
    least = 1 if groups == alive == 1 else 2
    if min(groups, alive) < 1 or stages < least:
        raise ValueError(
            f"{groups} groups, {alive} tiles of scores alive, {stages} stages: nothing could start; use 1 or more of each, and "
            f"{least} stages or more"
        )
    over: dict[Key, int] = {}
    free = dict.fromkeys(UNITS.values(), 0)
    done: list[Job] = []

    def start(job: Key) -> None:
        if 0 <= job[2] < tiles:
            before = [over[other] for other, _ in must_be_over(job, groups, alive, stages)]
            at = max([free[UNITS[job[0]]], *before])
            free[UNITS[job[0]]] = over[job] = at + cycles[job[0]]
            done.append((*job, at))

    for tile in range(tiles + 1):
        for group in range(groups):
            products = [("pv", group, tile - 1), ("qk", group, tile)]
            for job in products if alive == 1 else products[::-1]:
                if job == ("qk", 0, tile):
                    start(("load", 0, tile))
                start(job)
            start(("softmax", group, tile))
    return done


def periods(cycles: Mapping[str, float]) -> dict[str, float]:
    """Cycles for each tile of keys in the long run, two groups' work in all of them. cycles: of one group, load for both.

    In turn: one thing after another. Loads hidden: only the loads run beside the rest. Two groups: each does one thing at a time,
    and one's softmax can run beside the other's products. Two tiles: the groups act as one, which has registers for two tiles of
    scores. Both: two groups with registers for two tiles each.
    """
    load, qk, softmax, pv = (cycles[job] for job in JOBS)
    units = max(load, 2 * (qk + pv), 2 * softmax)
    return {
        "in turn": load + 2 * (qk + softmax + pv),
        "loads hidden": max(load, 2 * (qk + softmax + pv)),
        "two groups": units,
        "two tiles": max(load, 2 * (qk + max(softmax, pv))),
        "both": units,
    }


def fp8(cycles: Mapping[str, float]) -> dict[str, float]:
    """The same with factors of one byte: products twice as fast, half the bytes to load, as many exponentials."""
    return {job: each if job == "softmax" else each / 2 for job, each in cycles.items()}


def pace(groups: int, alive: int, stages: int, cycles: Mapping[str, float]) -> float:
    """Cycles for each tile of keys in the long run: those of the busiest unit, or of what one group does one after another.

    Holds for one stage and one group, and where stages suffice, so that no load waits for one: 2 for one group with
    alive 1, else 3.
    """
    load, qk, softmax, pv = (cycles[job] for job in JOBS)
    chain = qk + max(softmax, pv) if alive > 1 else qk + softmax + pv
    return load + chain if stages == 1 else max(load, groups * (qk + pv), groups * softmax, chain)


def most_cycles(tiles: int, groups: int, alive: int, stages: int, cycles: Mapping[str, float]) -> float:
    """What a good timeline takes at most: the pace for each tile, and one pass of everything to begin and end."""
    once = cycles["load"] + groups * sum(cycles[job] for job in JOBS[1:])
    return tiles * pace(groups, alive, stages, cycles) + once


def starts_of(jobs: Sequence[Any]) -> dict[Key, float]:
    """[(job, group, tile, start)] -> start of each job."""
    return {(job, 0 if job == "load" else group, tile): start for job, group, tile, start in jobs}
