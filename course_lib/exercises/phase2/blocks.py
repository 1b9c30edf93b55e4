"""Exercise 2.6, block pool, block table and the waste of each allocator: what is asked, and how an answer is judged.

What the memory did comes back as a list of records and is held beside a dictionary (blocks_judge.py, blocks_books.py).
"""

from collections.abc import Iterator
from typing import Any

from ...grading.criteria import Case, Correct
from ...grading.exercise import Exercise
from ...grading.outcome import Mistake
from .blocks_cases import random_cases, refusal_cases, sharing_cases, slot_cases, waste_cases
from .blocks_judge import check_operations

ALLOCATORS = ("max_length", "power_of_two", "paged")


def expected_waste(case: Case) -> dict[str, tuple[int, int]]:
    """{allocator: (reserved, internal)} in slots, over all requests of a case, by the library's allocators."""
    from ...kvcache import blocks_for
    from ...kvcache.baselines import Held, MaxLength, PowerOfTwo
    from ...kvcache.contiguous import next_power_of_two
    from ...kvcache.trace import Request

    longest, size = case["max_length"], case["block_size"]
    contiguous = {"max_length": MaxLength(longest, longest), "power_of_two": PowerOfTwo(next_power_of_two(longest), longest)}
    waste = dict.fromkeys(ALLOCATORS, (0, 0))
    for prompt, output, done in case["requests"]:
        request, tokens = Request(prompt, output), prompt + done
        slots = {name: allocator.space.size(allocator.reservation(request)) for name, allocator in contiguous.items()}
        slots["paged"] = size * blocks_for(tokens, size)
        for name in ALLOCATORS:
            held = Held(request, tokens, slots[name])
            waste[name] = (waste[name][0] + held.reserved, waste[name][1] + held.internal)
    return waste


def _check_waste(case: Case, output: Any) -> Mistake | None:
    from ...grading.compare import describe

    if not isinstance(output, dict) or set(output) != set(ALLOCATORS):
        return Mistake(f"expected a dict with {', '.join(ALLOCATORS)}, got {describe(output)}")
    expected = expected_waste(case)
    for name in ALLOCATORS:
        got = output[name]
        if not isinstance(got, (tuple, list)) or len(got) != 2 or not all(type(number) is int for number in got):
            return Mistake(f"{name}: expected (reserved, internal), two numbers of type int, got {describe(got)}")
        if tuple(got) != expected[name]:
            hint = next((hint for hint, value in _waste_slips(case, name) if value == tuple(got)), "")
            few = f" for {tuple(case['requests'][0])}" if len(case["requests"]) == 1 else ""
            numbers = f"max_length {case['max_length']}, block_size {case['block_size']}"
            return Mistake(f"{name}{few} ({numbers}): got {tuple(got)}, expected {expected[name]}", hint)
    return None


def _waste_slips(case: Case, name: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """(hint, what this slip leads to)"""
    right, longest, size = expected_waste(case)[name], case["max_length"], case["block_size"]
    requests = case["requests"]

    def two(slots: Any) -> tuple[int, int]:
        parts = [(slots(p, o, d), p + d, p + o) for p, o, d in requests]
        return sum(min(total, s) - now for s, now, total in parts), sum(max(s - total, 0) for s, now, total in parts)

    def above(n: int) -> int:
        return 1 << max(n - 1, 0).bit_length()

    yield "Which of the two will still be used?", right[::-1]
    yield "Reserved slots are waiting for tokens of this very request. Those behind its end are not.", (sum(right), 0)
    yield "Some of these slots will be used before the request ends.", (0, sum(right))
    written = sum(p + d for p, _, d in requests)
    yield "Slots that hold a token are not wasted.", (right[0] + written, right[1])
    if name == "power_of_two":
        yield "What the buddy system hands out is a power of two.", two(lambda p, o, d: min(p + above(o), longest))
        early = "What does it know of a request whose answer has just begun?"
        yield early, two(lambda p, o, d: above(min(p + above(d), longest)))
        yield "Is it the output or the sum that is rounded first?", two(lambda p, o, d: above(p + o))
        yield "No request is longer than max_length.", two(lambda p, o, d: above(p + above(o)))
        smallest = "What is the smallest power of two that holds 256?"
        yield smallest, two(lambda p, o, d: above(min(p + above(o + 1), longest)))
        yield smallest, two(lambda p, o, d: above(min(p + above(o + 1), longest) + 1))
    if name == "paged":
        yield "Blocks are opened as tokens come, not for all that will come.", two(lambda p, o, d: -(-(p + o) // size) * size)
        yield "A block that is just full needs no other one.", two(lambda p, o, d: ((p + d) // size + 1) * size)


def _operations(name: str, claim: str, points: float, cases: Any) -> Correct:
    return Correct(name=name, claim=claim, points=points, cases=cases, check=check_operations, run="operations")


BLOCKS = Exercise(
    id="2.6",
    title="Block pool, block table and the waste of each allocator",
    entry="block_memory",
    params=("num_blocks", "block_size"),
    returns="an object with add, append, fork, free, table, num_free and waste",
    runner="phase2_blocks",
    may_import=frozenset({"bisect", "collections", "heapq", "itertools", "math", "torch"}),
    criteria=(
        _operations("slots", "every token has a slot of its own, and blocks are opened when they are needed", 2.0, slot_cases),
        _operations("refusals", "what is not possible raises ValueError and changes nothing", 1.5, refusal_cases),
        _operations("sharing", "a fork shares full blocks, copies the last one, and both may go first", 1.5, sharing_cases),
        _operations("no leak", "after any operations every block is held or free, and never both", 1.5, random_cases),
        Correct(
            name="waste",
            claim="reserved and internal waste of three allocators",
            points=1.5,
            cases=waste_cases,
            check=_check_waste,
            run="waste",
        ),
    ),
)
