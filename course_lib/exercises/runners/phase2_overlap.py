"""Exercise 2.10: the learner's paces, timelines and numbers of a kernel."""

from typing import Any

__course_runner__ = True  # messages name the learner's line, not one of this file

NAMES = "(paces, timeline, kernel_facts)"


def paces(entry: Any, case: dict) -> Any:
    return _functions(entry)[0](dict(case["cycles"]))


def timeline(entry: Any, case: dict) -> Any:
    return _functions(entry)[1](case["tiles"], case["groups"], case["alive"], case["stages"], dict(case["cycles"]))


def kernel_facts(entry: Any, case: dict) -> Any:
    from course_lib.workloads.hopper_tile import TileShape

    return _functions(entry)[2](TileShape(*case["tile"]), case["head_dim"], case["kv_len"])


def _functions(entry: Any) -> Any:
    made = entry()
    if not isinstance(made, (tuple, list)) or len(made) != 3 or not all(map(callable, made)):
        raise TypeError(f"reading_fa3 returns three functions, {NAMES}, got {type(made).__name__}")
    return made
