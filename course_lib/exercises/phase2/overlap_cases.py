"""Cases of exercise 2.10: cycles of an SM, and what a group and shared memory have room for."""

import random
from typing import Any

from ...attention.timeline import JOBS
from ...grading.criteria import Case

UNLIKE = {"load": 900, "qk": 500, "softmax": 620, "pv": 410}  # no two slips give the same numbers
BF16 = {"load": 1024, "qk": 512, "softmax": 512, "pv": 512}  # 64 queries, 128 keys, head_dim 128
LONG_SOFTMAX = {"load": 700, "qk": 300, "softmax": 1100, "pv": 300}
LONG_LOAD = {"load": 3000, "qk": 250, "softmax": 400, "pv": 200}
LONG_VALUES = {"load": 500, "qk": 60, "softmax": 850, "pv": 935}
LONG_SCORES = {"load": 400, "qk": 900, "softmax": 250, "pv": 150}
SHORT_SOFTMAX = {"load": 900, "qk": 300, "softmax": 200, "pv": 100}
SMALL = {"load": 3, "qk": 5, "softmax": 4, "pv": 2}


def _drawn(draw: random.Random) -> dict[str, int]:
    return {job: draw.randrange(50, 1000) for job in JOBS}


def _paces_case(cycles: dict[str, int]) -> Case:
    return {"name": ", ".join(f"{job} {each}" for job, each in cycles.items()), "cycles": cycles}


def pace_cases(seed: int) -> list[Case]:
    """Numbers unlike each other, those of the text, each unit the busiest one, values below and above a softmax; drawn."""
    draw = random.Random(seed)
    rows = [UNLIKE, BF16, LONG_SOFTMAX, LONG_LOAD, LONG_VALUES, LONG_SCORES, SHORT_SOFTMAX]
    return [_paces_case(cycles) for cycles in (*rows, *(_drawn(draw) for _ in range(3)))]


def fp8_cases(seed: int) -> list[Case]:
    """Bound by products and then not, by exponentials, by loads, by loads in FP8 too; odd numbers; drawn ones."""
    draw = random.Random(seed)
    rows = [
        UNLIKE, BF16, LONG_SOFTMAX, LONG_LOAD, {"load": 500, "qk": 512, "softmax": 700, "pv": 512},
        {"load": 2001, "qk": 400, "softmax": 300, "pv": 500}, {"load": 2600, "qk": 800, "softmax": 300, "pv": 450},
        {"load": 501, "qk": 605, "softmax": 300, "pv": 935},
    ]  # fmt: skip
    return [_paces_case(cycles) for cycles in (*rows, *(_drawn(draw) for _ in range(3)))]


def _timeline_case(tiles: int, groups: int, alive: int, stages: int, cycles: dict[str, int]) -> Case:
    tile_words = f"{tiles} tile{'s' * (tiles > 1)}, {groups} group{'s' * (groups > 1)}, alive {alive}, stages {stages}"
    words = f"{tile_words}, cycles {', '.join(f'{job} {each}' for job, each in cycles.items())}"
    return {"name": words, "tiles": tiles, "groups": groups, "alive": alive, "stages": stages, "cycles": cycles}


def rule_cases(seed: int) -> list[Case]:
    """One tile, as many tiles as stages and one more, room for one and for two, each job the longest."""
    draw = random.Random(seed)
    rows: list[tuple[Any, ...]] = [
        (2, 1, 1, 1, BF16), (1, 1, 1, 1, SMALL), (1, 2, 2, 2, BF16), (4, 1, 1, 2, LONG_SOFTMAX), (5, 2, 1, 2, BF16),
        (3, 2, 1, 2, {"load": 40, "qk": 500, "softmax": 90, "pv": 300}), (6, 2, 1, 3, LONG_LOAD), (5, 1, 2, 2, LONG_VALUES),
        (6, 1, 2, 3, LONG_VALUES), (6, 2, 2, 2, SMALL), (7, 2, 2, 3, LONG_SOFTMAX), (6, 2, 2, 4, LONG_SCORES),
    ]  # fmt: skip
    for _ in range(3):
        groups, alive = draw.choice(((1, 1), (2, 1), (1, 2), (2, 2)))
        rows.append((draw.randrange(2, 9), groups, alive, draw.randrange(2, 5), _drawn(draw)))
    return [_timeline_case(*row) for row in rows]


def one_group_cases(seed: int) -> list[Case]:
    draw = random.Random(seed)
    rows: list[tuple[Any, ...]] = [
        (12, 1, 1, 2, BF16), (12, 1, 1, 1, BF16), (12, 1, 2, 3, BF16), (12, 1, 2, 3, LONG_SOFTMAX), (12, 1, 2, 4, LONG_VALUES),
        (12, 1, 1, 3, LONG_LOAD), (draw.randrange(10, 16), 1, 1, 2, _drawn(draw)),
        (draw.randrange(10, 16), 1, 2, 3, _drawn(draw)),
    ]  # fmt: skip
    return [_timeline_case(*row) for row in rows]


def two_group_cases(seed: int) -> list[Case]:
    """LONG_VALUES: whoever starts what can start first is too late by a softmax each round."""
    draw = random.Random(seed)
    rows: list[tuple[Any, ...]] = [
        (12, 2, 1, 3, BF16), (12, 2, 2, 4, BF16), (12, 2, 1, 3, LONG_SOFTMAX), (12, 2, 1, 3, LONG_VALUES),
        (12, 2, 2, 3, LONG_SCORES), (12, 2, 2, 3, LONG_LOAD), (draw.randrange(10, 16), 2, 1, 3, _drawn(draw)),
        (draw.randrange(10, 16), 2, 2, 4, _drawn(draw)),
    ]  # fmt: skip
    return [_timeline_case(*row) for row in rows]


def _facts_case(warpgroups: int, rows: int, keys: int, stages: int, out_apart: bool, head_dim: int, kv_len: int) -> Case:
    tile = f"warpgroups {warpgroups}, rows {rows}, keys {keys}, stages {stages}, out_apart {out_apart}"
    words = f"{tile}, head_dim {head_dim}, kv_len {kv_len}"
    return {"name": words, "tile": [warpgroups, rows, keys, stages, out_apart], "head_dim": head_dim, "kv_len": kv_len}


def fact_cases(seed: int) -> list[Case]:
    """Tiles like the kernel's own, at the end of a tile of keys and behind it; another head_dim; other tiles.

    The first has three consumers: with two, rows taken for all queries give what a result without memory gives.
    """
    draw = random.Random(seed)
    rows: list[tuple[Any, ...]] = [
        (3, 64, 128, 3, True, 128, 512), (2, 64, 128, 2, True, 128, 513), (3, 64, 128, 4, True, 64, 1),
        (2, 64, 64, 2, False, 256, 640), (2, 64, 128, 2, True, 96, 1000), (2, 64, 128, 3, True, 128, 128 * 9),
        (3, 64, 128, 4, False, 80, 129),
    ]  # fmt: skip
    for _ in range(3):
        tile = draw.choice((2, 3)), 64, draw.choice((32, 64, 128)), draw.choice((2, 3, 4)), draw.choice((True, False))
        rows.append((*tile, draw.choice((64, 80, 96, 128, 256)), draw.randrange(1, 1500)))
    return [_facts_case(*row) for row in rows]
