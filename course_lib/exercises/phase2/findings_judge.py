"""What two scrapes can say, the oracle of exercise 2.11's diagnosis, and the hint for each usual slip."""

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from ...grading.criteria import Case
from ...grading.outcome import Mistake

NUMBERS, CAUSES = ("hit_rate", "waste", "room"), ("lost_tokens", "alert", "leak")
GAUGE = "A gauge is what is there now. The second scrape alone says it; nothing is subtracted."
NOBODY = "No sequence is there. Who holds a block?"
CANNOT_TELL = "Can these numbers tell? If there are two runs with these scrapes, and the answers differ, the finding is None."


def expected_findings(case: Case) -> dict[str, Any]:
    """hit_rate, waste: float; room, lost_tokens: int; alert, leak: bool; None where the scrapes cannot say."""
    after = case["after"]
    queries, hits = (_between(case, name) for name in ("queries", "hits"))
    bound = case["bound_hits"]
    if bound is None and (not queries or not after["prefix_cache_evictions"]):
        bound = hits
    slots = after["kv_blocks_held"] * case["block_size"]
    empty = after["kv_waste_internal_tokens"] + after["kv_waste_reserved_tokens"]
    return {
        "hit_rate": hits / queries if queries else None,
        "waste": empty / slots if slots else 0.0,
        "room": after["kv_blocks_free"] + after["kv_blocks_cached"],
        "lost_tokens": None if bound is None else bound - hits,
        "alert": None if bound is None else Fraction(hits) < Fraction(9, 10) * bound,
        "leak": None if after["kv_sequences"] else after["kv_blocks_held"] > 0,
    }


def check_numbers(case: Case, output: Any) -> Mistake | None:
    return _check(case, output, NUMBERS)


def check_causes(case: Case, output: Any) -> Mistake | None:
    return _check(case, output, CAUSES)


def _check(case: Case, output: Any, names: tuple[str, ...]) -> Mistake | None:
    from ...grading.compare import describe

    if not isinstance(output, dict) or not set(output) >= set(names):
        return Mistake(f"expected a dict with {', '.join(NUMBERS + CAUSES)}, got {describe(output)}")
    expected = expected_findings(case)
    for name in names:
        got, want = output[name], expected[name]
        if not _same(got, want):
            hint = next((hint for hint, slip in _slips(case, name) if _same(got, slip)), "")
            said = f"{name} is {describe(got) if not isinstance(got, (int, float, type(None))) else got}, expected {want}"
            return Mistake(f"{said} ({_told(case, name)})", hint or _hint_by_kind(got, want))
    return None


def _same(got: Any, want: Any) -> bool:
    if want is None or isinstance(want, bool):
        return got is want
    if isinstance(got, bool) or not isinstance(got, (int, float)):
        return False
    return math.isclose(got, want, rel_tol=1e-9, abs_tol=0.0)


def _hint_by_kind(got: Any, want: Any) -> str:
    if want is None and got is not None:
        return CANNOT_TELL
    if got is None:
        return "These numbers can tell. Which of them would have to be larger, were it otherwise?"
    return ""


def _slips(case: Case, name: str) -> Iterator[tuple[str, Any]]:
    """(hint, what this slip makes of the finding)"""
    before, after, size, right = case["before"], case["after"], case["block_size"], expected_findings(case)
    queries, hits = (_between(case, one) for one in ("queries", "hits"))
    total_queries, total_hits = after["prefix_cache_queries"], after["prefix_cache_hits"]
    if name == "hit_rate":
        since_start = "These counters count since the start. What happened between the two scrapes?"
        yield since_start, total_hits / total_queries if total_queries else None
        yield "Nobody asked. 0 of 0 is no rate.", 0.0 if not queries else None
        yield "Hits of queries, or of misses?", hits / (queries - hits) if queries - hits else None
        yield "Misses of queries is the other rate.", 1 - hits / queries if queries else None
    if name == "waste":
        internal, reserved = after["kv_waste_internal_tokens"], after["kv_waste_reserved_tokens"]
        held, blocks = after["kv_blocks_held"] * size, after["kv_blocks"] * size
        yield (
            "A gauge is what is there now. Which scrape?",
            _share(before["kv_waste_internal_tokens"] + before["kv_waste_reserved_tokens"], before["kv_blocks_held"] * size),
        )
        names = ("kv_waste_internal_tokens", "kv_waste_reserved_tokens", "kv_blocks_held")
        more_internal, more_reserved, more_held = (after[one] - before[one] for one in names)
        for part in (internal + reserved, more_internal + more_reserved):
            for whole in (more_held * size, held):
                yield GAUGE, _share(part, whole)
        yield "Reserved slots are empty as well.", _share(internal, held)
        yield "Slots that were handed out and not begun are not the only empty ones.", _share(reserved, held)
        yield "Of the slots in held blocks, not of all there are.", _share(internal + reserved, blocks)
        yield "Tokens of blocks: how many slots has a block?", _share((internal + reserved) * size, held)
        yield "Beside the slots that hold a token, or of all?", _share(internal + reserved, held - internal - reserved)
    if name == "room":
        yield "A cached block has no reader. Can it be handed out?", after["kv_blocks_free"]
        yield "Blocks, not tokens.", right["room"] * size
        yield "Reserved slots are in blocks that a sequence holds.", right["room"] + after["kv_waste_reserved_tokens"] // size
        yield "A gauge is what is there now. Which scrape?", before["kv_blocks_free"] + before["kv_blocks_cached"]
    if name == "lost_tokens":
        yield from _slips_of_loss(case, right[name], queries, hits)
    if name == "alert" and case["bound_hits"] is not None:
        if hits * 10 == case["bound_hits"] * 9:
            yield "At exactly nine tenths there is no alert yet, and none where nothing is to be had.", True
        rate = hits / queries if queries else 0
        for least in (0.9, 0.65):
            yield "A low rate is no fault where little is to be found. Nine tenths of what?", rate < least
    if name == "leak":
        if not after["kv_sequences"]:
            yield GAUGE, after["kv_blocks_held"] > before["kv_blocks_held"]
            yield GAUGE if before["kv_sequences"] else NOBODY, None
            yield NOBODY, False
        yield "Sequences are running, and held blocks can all be theirs.", after["kv_blocks_held"] > 0
        yield CANNOT_TELL, False
        yield "A cached block is held by nobody.", after["kv_blocks_free"] < after["kv_blocks"]


def _slips_of_loss(case: Case, right: int | None, queries: int, hits: int) -> Iterator[tuple[str, Any]]:
    evicted, bound = _between(case, "evictions"), case["bound_hits"]
    blocks = evicted * case["block_size"]
    new = "A miss may be a text that nobody sent before: a cache that never evicts misses it too."
    if bound is not None:
        yield "The bound is for the time between the scrapes. Which hits are?", bound - case["after"]["prefix_cache_hits"]
        yield new, queries - hits
        yield "Evicted blocks are not what was lost: nobody need ask for them again.", blocks
        yield "The bound was counted. What is it less what was found?", None
    elif right is None:
        yield CANNOT_TELL if evicted else "A block that was evicted before the first scrape can be missed after it.", 0
        yield "Nobody need ask for an evicted block again, and one that was evicted earlier may be missed now.", blocks
        yield new, queries - hits
    else:
        yield "Nothing evicted since the start, or nobody who asks: how much can have been lost?", None
        yield new, queries - hits


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _between(case: Case, name: str) -> int:
    return case["after"][f"prefix_cache_{name}"] - case["before"][f"prefix_cache_{name}"]


def _told(case: Case, name: str) -> str:
    """The numbers that this finding rests on."""
    after = case["after"]
    if name == "waste":
        empty = f"{after['kv_waste_internal_tokens']} internal, {after['kv_waste_reserved_tokens']} reserved"
        return f"{after['kv_blocks_held']} blocks of {case['block_size']} are held; {empty}"
    if name == "room":
        return f"{after['kv_blocks_free']} free, {after['kv_blocks_cached']} cached, {after['kv_blocks_held']} held"
    if name == "leak":
        return f"{after['kv_sequences']} sequences, {after['kv_blocks_held']} blocks held"
    counts = f"between the scrapes {_between(case, 'queries')} queries, {_between(case, 'hits')} hits"
    evictions = f"{_between(case, 'evictions')} evictions, {after['prefix_cache_evictions']} since the start"
    return f"{counts}, {evictions}; bound {case['bound_hits']}"
