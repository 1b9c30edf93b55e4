"""Exercise 2.7, prefix caching, copy-on-write and eviction: what is asked, and how an answer is judged.

The learner's cache goes through operations (prefix_cases.py, prefix_room_cases.py); what it
answered is replayed over a memory that shows who reads what (prefix_replay.py).
"""

from collections.abc import Callable

from ...grading.criteria import Case, Correct, Counted
from ...grading.exercise import Exercise
from .prefix_cases import collision_cases, cost_bounds, cost_cases, cost_hint, hit_cases, tenant_cases, whole_prompt_cases
from .prefix_replay import replay
from .prefix_room_cases import eviction_cases, fork_cases, room_cases


def _correct(name: str, claim: str, points: float, cases: Callable[[int], list[Case]]) -> Correct:
    return Correct(name=name, claim=claim, points=points, cases=cases, check=replay, run="play")


PREFIX = Exercise(
    id="2.7",
    title="Prefix caching, copy-on-write and eviction",
    entry="make_cache",
    params=("num_blocks", "block_size", "hash_function"),
    returns="an object with the methods start, publish, append, fork, free and table",
    runner="phase2_prefix",
    may_import=frozenset({"array", "bisect", "collections", "hashlib", "heapq", "itertools", "math", "struct", "torch"}),
    criteria=(
        _correct("prefix hits", "the longest published beginning in whole blocks is found, and nothing else", 2.0, hit_cases),
        _correct("a token left", "of a prompt that is cached as a whole, something is left to compute", 0.5, whole_prompt_cases),
        _correct("tenants", "what another salt published is not found", 0.5, tenant_cases),
        _correct("collisions", "a hash function that repeats names never serves another's blocks", 1.0, collision_cases),
        _correct("copy-on-write", "who writes into a shared block gets a copy first, and only then", 1.5, fork_cases),
        _correct("eviction", "unread blocks go, the longest unread first, the end before the beginning", 1.5, eviction_cases),
        _correct("room", "blocks are had whenever they can be had, otherwise nothing changes, and none is lost", 1.0, room_cases),
        Counted(
            name="look-up cost",
            claim="a look-up costs as much as the prompt is long, not its square, nor the number of cached prompts",
            points=1.0,
            cases=cost_cases,
            check=replay,
            run="play",
            observe="count",
            bounds=cost_bounds,
            hint=cost_hint,
        ),
    ),
)
