"""Cases of exercise 1.3: simulated devices, each with one thing that a careless timer takes for the kernel.

Kernels of some milliseconds, so that a host clock with its ten or twenty microseconds of overhead is right about them; the short
kernel is a case of its own. A flush is long enough to be noticed in any of them.
"""

import random
from typing import Any

from ...grading.criteria import Case


def _case(name: str, draw: random.Random, repeats: int, **delays: Any) -> Case:
    device = {"kernel_us": draw.uniform(2000, 4000), "flush_us": draw.uniform(500, 700), "launch_us": draw.uniform(4, 6)}
    return {"name": name, "repeats": repeats, "device": device | {"seed": draw.randrange(2**31)} | delays}


def asynchronous(seed: int) -> list[Case]:
    draw = random.Random(seed)
    return [
        _case("a kernel of milliseconds", draw, draw.choice([9, 11, 14])),
        _case("a queue with room for 16", draw, 20, queue_depth=16),
        _case("a slow host", draw, 9, launch_us=draw.uniform(15, 20)),
    ]


def queued(seed: int) -> list[Case]:
    draw = random.Random(seed)
    return [_case(f"others' work in the queue, {n} measured", draw, n, queued_us=draw.uniform(2e4, 4e4)) for n in (1, 2)]


def warm_up(seed: int) -> list[Case]:
    draw = random.Random(seed)
    delays = {"compile_us": draw.uniform(1e5, 3e5), "ramp": [2.0, 1.6, 1.3]}
    return [_case(f"compiles first, then the clock rises, {n} measured", draw, n, **delays) for n in (1, 2)]


def cold(seed: int) -> list[Case]:
    draw = random.Random(seed)
    factors = 1.6, draw.uniform(1.3, 2.0)
    return [_case("cold data take longer", draw, draw.choice([5, 8]), cold_factor=factor) for factor in factors]


def spread(seed: int) -> list[Case]:
    draw = random.Random(seed)
    return [
        _case("some launches are preempted", draw, 21, outlier_us=draw.uniform(2e4, 4e4)),
        _case("a host that pauses", draw, 21, pause_us=draw.uniform(2e4, 4e4)),
        _case("an even number of launches", draw, 20, outlier_us=draw.uniform(2e4, 4e4)),
    ]


def short(seed: int) -> list[Case]:
    draw = random.Random(seed)
    delays = {"kernel_us": draw.uniform(3, 4), "launch_us": draw.uniform(10, 12), "flush_us": draw.uniform(60, 80)}
    return [_case("a kernel shorter than its launch", draw, 31, **delays)]


def budget(seed: int) -> list[Case]:
    draw = random.Random(seed)
    return [_case("twenty measured", draw, 20), _case("one measured", draw, 1)]


def on_this_device(seed: int) -> list[Case]:
    return [asynchronous(seed)[0] | {"name": "this device", "repeats": 20, "rounds": 3}]
