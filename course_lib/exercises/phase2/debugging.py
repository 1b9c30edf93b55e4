"""Exercise 2.11, page telemetry and two debugging windows: a test that finds faults, a cache that is repaired, a diagnosis.

The test is judged by caches that are broken in one way each and by right ones (debugging_caches.py); the cache by a dictionary
(debugging_judge.py); the diagnosis by runs with a planted cause (findings_cases.py, findings_judge.py).
"""

from typing import Any

from ...grading.criteria import Correct
from ...grading.exercise import Exercise
from .debugging_caches import cache_cases, check_verdict
from .debugging_cases import gather_cases, page_cases, reuse_cases
from .debugging_judge import check_operations
from .findings_cases import cause_cases, number_cases
from .findings_judge import check_causes, check_numbers


def _correct(name: str, claim: str, points: float, cases: Any, check: Any, run: str) -> Correct:
    return Correct(name=name, claim=claim, points=points, cases=cases, check=check, run=run)


DEBUGGING = Exercise(
    id="2.11",
    title="Page telemetry, and a cache with nine mistakes",
    entry="debugging",
    params=(),
    returns="(check_cache, RepairedKV, diagnose)",
    runner="phase2_debugging",
    may_import=frozenset({"collections", "itertools", "math", "random", "torch"}),
    seconds=120.0,  # 35 caches, and a test may call the methods of each 10,000 times
    criteria=(
        _correct("test: append", "your test finds caches whose append is wrong, and no other", 1.5,
                 cache_cases("append"), check_verdict, "examine"),
        _correct("test: gather", "your test finds caches whose gather is wrong, and no other", 1.5,
                 cache_cases("gather"), check_verdict, "examine"),
        _correct("test: over time", "your test finds caches that go wrong later, and no other", 1.0,
                 cache_cases("over time"), check_verdict, "examine"),
        _correct("pages", "append opens a page when it is needed, and a refusal changes nothing", 0.75,
                 page_cases, check_operations, "operate"),
        _correct("gather", "gather gives every range, in order, and nothing that nobody wrote", 0.75,
                 gather_cases, check_operations, "operate"),
        _correct("reuse", "pages and names come back as new", 0.5, reuse_cases, check_operations, "operate"),
        _correct("numbers", "hit rate, waste and room from two scrapes", 1.0, number_cases, check_numbers, "findings"),
        _correct("causes", "what two scrapes can tell, and what they cannot", 1.0, cause_cases, check_causes, "findings"),
    ),
)  # fmt: skip
