"""A timeline of an SM keeps the rules and the pace that the closed forms promise; each rule is noticed when it is broken."""

import itertools
import random

import pytest

from course_lib.attention.timeline import (
    JOBS,
    all_jobs,
    broken_rule,
    fp8,
    makespan,
    most_cycles,
    pace,
    periods,
    starts_of,
    timeline,
    words,
)

HEAD_DIM_128 = {"load": 1024, "qk": 512, "softmax": 512, "pv": 512}


def drawn(seed):
    draw = random.Random(seed)
    cycles = {job: draw.randrange(50, 1000) for job in JOBS}
    groups, alive, stages = draw.choice([(1, 1, 1), (1, 1, 2), (1, 2, 3), (2, 1, 3), (2, 2, 3), (2, 2, 4)])
    return draw.randrange(1, 16), groups, alive, stages, cycles


@pytest.mark.parametrize("seed", range(200))
def test_a_timeline_breaks_no_rule_and_keeps_its_pace(seed):
    *shape, cycles = drawn(seed)
    starts = starts_of(timeline(*shape, cycles))
    assert starts.keys() == set(all_jobs(*shape[:2]))
    assert broken_rule(starts, *shape, cycles) is None
    assert makespan(starts, cycles) <= most_cycles(*shape, cycles)


@pytest.mark.parametrize(("groups", "alive", "stages"), [(1, 1, 1), (1, 1, 2), (1, 2, 3), (2, 1, 3), (2, 2, 3)])
def test_in_the_long_run_a_tile_takes_its_pace(groups, alive, stages):
    for seed in range(10):
        cycles = drawn(seed)[-1]
        long, longer = (makespan(starts_of(timeline(n, groups, alive, stages, cycles)), cycles) for n in (200, 300))
        assert (longer - long) / 100 == pytest.approx(pace(groups, alive, stages, cycles), rel=0.01)


def test_paces_by_hand():
    assert periods(HEAD_DIM_128) == {"in turn": 4096, "loads hidden": 3072, "two groups": 2048, "two tiles": 2048, "both": 2048}
    slow = HEAD_DIM_128 | {"softmax": 1100}
    assert periods(slow) == {"in turn": 5272, "loads hidden": 4248, "two groups": 2200, "two tiles": 3224, "both": 2200}
    assert periods(HEAD_DIM_128 | {"load": 5000})["both"] == 5000
    assert periods(fp8(HEAD_DIM_128))["both"] == 1024  # products 1024, exponentials 1024: twice as fast
    assert periods(fp8(HEAD_DIM_128 | {"qk": 256, "pv": 256}))["both"] == 1024  # head_dim 64: no faster


def test_paces_are_those_of_timelines():
    twice = {"load": 1024, "qk": 1024, "softmax": 1024, "pv": 1024}
    ways = {"in turn": (1, 1, 1, twice), "loads hidden": (1, 1, 2, twice), "two groups": (2, 1, 3, HEAD_DIM_128),
            "two tiles": (1, 2, 3, twice), "both": (2, 2, 3, HEAD_DIM_128)}  # fmt: skip
    assert {way: pace(*how) for way, how in ways.items()} == periods(HEAD_DIM_128)


# every job takes 10 cycles; the change is made to what two groups do with 2 tiles, registers for one and room for one tile
BREAKS = {
    ("load", 0, 0): (-1, "time begins at 0"),
    ("qk", 1, 0): (12, "which has qk of tile 0, group 0 until 20"),
    ("qk", 0, 0): (9, "it needs its keys"),
    ("softmax", 0, 0): (19, "it needs its scores"),
    ("load", 0, 1): (49, "its place in shared memory, one of 1, and pv of tile 0, group 1"),
}


@pytest.mark.parametrize("job", BREAKS, ids=str)
def test_a_broken_rule_is_named(job):
    cycles = dict.fromkeys(JOBS, 10)
    starts = {("load", 0, 0): 0, ("qk", 0, 0): 10, ("qk", 1, 0): 20, ("softmax", 0, 0): 20, ("softmax", 1, 0): 30,
              ("pv", 0, 0): 30, ("pv", 1, 0): 40, ("load", 0, 1): 50}  # fmt: skip
    starts |= {(job, group, 1): start + 50 for (job, group, tile), start in starts.items() if tile == 0 and job != "load"}
    assert broken_rule(starts, 2, 2, 1, 1, cycles) is None
    start, words = BREAKS[job]
    assert words in broken_rule(starts | {job: start}, 2, 2, 1, 1, cycles)


def test_registers_warps_and_the_accumulator_are_watched():
    cycles = {"load": 1, "qk": 1, "softmax": 10, "pv": 30}
    starts = starts_of(timeline(4, 1, 2, 4, cycles))
    late = {("pv", 0, 0): 100, ("pv", 0, 1): 130, ("pv", 0, 2): 160, ("pv", 0, 3): 190}
    three = starts | late | {("qk", 0, 2): starts["softmax", 0, 1] + 10}
    assert "registers, which the group has for 2 tiles of scores" in broken_rule(three, 4, 1, 2, 4, cycles)
    early = starts | {("pv", 0, 0): starts["softmax", 0, 0] + 9}
    assert "it needs its weights" in broken_rule(early, 4, 1, 2, 4, cycles)
    early = starts | {("qk", 0, 1): starts["softmax", 0, 0]}
    assert "the warps of the group" in broken_rule(early, 4, 1, 2, 4, cycles)
    swapped = starts | {("pv", 0, 2): starts["pv", 0, 3] + 30}
    assert "the accumulator" in broken_rule(swapped, 4, 1, 2, 4, cycles)


@pytest.mark.parametrize("shape", [(2, 1, 1), (1, 2, 1), (1, 1, 0), (1, 0, 2), (0, 1, 2)])
def test_a_timeline_without_room_to_start_is_refused(shape):
    with pytest.raises(ValueError, match=r"nothing could start; use 1 or more of each, and [12] stages"):
        timeline(3, *shape, HEAD_DIM_128)


def test_starts_may_be_sums_of_floats():
    cycles = {"load": 0.1, "qk": 0.2, "softmax": 0.3, "pv": 0.1}
    starts = {job: start - 1e-9 if start else 0 for job, start in starts_of(timeline(3, 1, 1, 1, cycles)).items()}
    assert broken_rule(starts, 3, 1, 1, 1, cycles)
    assert broken_rule(starts, 3, 1, 1, 1, cycles, epsilon=1e-6) is None
    exact = starts_of(timeline(3, 2, 2, 3, cycles))
    for job in exact:
        assert broken_rule(exact | {job: exact[job] - 1e-9}, 3, 2, 2, 3, cycles, epsilon=1e-6) is None


def test_words_name_a_job_and_do_not_hang_on_the_order_of_the_answer():
    assert (words(("load", 0, 3)), words(("qk", 1, 3))) == ("load of tile 3", "qk of tile 3, group 1")
    assert starts_of([("load", None, 2, 7), ("qk", 1, 2, 9)]) == {("load", 0, 2): 7, ("qk", 1, 2): 9}
    cycles = dict.fromkeys(JOBS, 10)
    starts = starts_of(timeline(2, 1, 1, 2, cycles))
    both = starts | {("qk", 0, 1): starts["pv", 0, 0]}
    for order in (both, dict(reversed(both.items()))):
        assert broken_rule(order, 2, 1, 1, 2, cycles).startswith("qk of tile 1, group 0 starts at 30; it needs registers, which")
    assert "has for 1 tile of scores" in broken_rule(both, 2, 1, 1, 2, cycles)


def test_no_order_of_products_beats_the_pace_by_more_than_the_beginning():
    """Every order of the tensor cores' jobs, for two tiles and two groups: none is shorter than the turns."""
    cycles = {"load": 5, "qk": 30, "softmax": 20, "pv": 30}
    shape = (2, 2, 1, 3)
    best = makespan(starts_of(timeline(*shape, cycles)), cycles)
    products = [(job, group, tile) for job in ("qk", "pv") for group in range(2) for tile in range(2)]
    for order in itertools.permutations(products):
        place = {job: number for number, job in enumerate(order)}
        if all(place["qk", g, 0] < place["pv", g, 0] < place["qk", g, 1] < place["pv", g, 1] for g in range(2)):
            assert _as_ordered(order, cycles) >= best


def _as_ordered(order, cycles):
    exponentials, tensor, over = 0, 0, {}
    for job, group, tile in order:
        needs = [cycles["load"] * (tile + 1)] if job == "qk" else [over["softmax", group, tile]]
        tensor = over[job, group, tile] = max(tensor, *needs) + cycles[job]
        if job == "qk":
            exponentials = over["softmax", group, tile] = max(exponentials, tensor) + cycles["softmax"]
    return tensor
