"""Exercise 2.10, reading FlashAttention-3: paces of five ways to keep an SM busy, a timeline, and numbers of a kernel.

The model and its rules are attention/timeline.py; timelines are judged in overlap_judge.py, numbers in overlap_numbers.py.
"""

from typing import Any

from ...grading.criteria import Correct
from ...grading.exercise import Exercise
from .overlap_cases import fact_cases, fp8_cases, one_group_cases, pace_cases, rule_cases, two_group_cases
from .overlap_judge import check_rules, check_short
from .overlap_numbers import MEMORY_FACTS, STAGE_FACTS, WAYS, expected_facts, expected_paces, number_check
from .overlap_slips import fact_slips, pace_slips


def _correct(name: str, claim: str, points: float, cases: Any, check: Any, run: str) -> Correct:
    return Correct(name=name, claim=claim, points=points, cases=cases, check=check, run=run)


OVERLAP = Exercise(
    id="2.10",
    title="Reading FlashAttention-3: what runs beside what",
    entry="reading_fa3",
    params=(),
    returns="(paces, timeline, kernel_facts)",
    runner="phase2_overlap",
    may_import=frozenset({"collections", "heapq", "itertools", "math", "torch"}),
    criteria=(
        _correct("paces", "cycles for a tile, in five ways to run load, products and softmax", 1.25, pace_cases,
                 number_check(WAYS, expected_paces, pace_slips), "paces"),
        _correct("FP8", "how much faster it is in FP8, at most", 0.5, fp8_cases,
                 number_check(("fp8 gain",), expected_paces, pace_slips), "paces"),
        _correct("rules", "a timeline with each job once, that breaks no rule", 1.5, rule_cases, check_rules, "timeline"),
        _correct("short, one group", "no longer than its pace, for one group", 0.75, one_group_cases, check_short, "timeline"),
        _correct("short, two groups", "no longer than its pace, for two groups", 1.0, two_group_cases, check_short, "timeline"),
        _correct("kernel: stages", "what comes with a stage of the ring, and who waits for what", 1.0, fact_cases,
                 number_check(STAGE_FACTS, expected_facts, fact_slips), "kernel_facts"),
        _correct("kernel: memory", "shared memory and registers of the kernel", 1.0, fact_cases,
                 number_check(MEMORY_FACTS, expected_facts, fact_slips), "kernel_facts"),
    ),
)  # fmt: skip
