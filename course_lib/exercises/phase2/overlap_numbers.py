"""Numbers of exercise 2.10: the oracles of paces and of the kernel's facts, and a check of some of a dict's entries."""

from collections.abc import Callable
from typing import Any

from ...grading.criteria import Case
from ...grading.outcome import Mistake
from ..entries import Check, looking_at

EXACT = 1e-9  # of a quotient of whole numbers
WAYS = ("in turn", "loads hidden", "two groups", "two tiles", "both")
STAGE_FACTS = ("stage_bytes", "full_parity", "empty_arrivals")
MEMORY_FACTS = ("shared_bytes", "thread_registers", "block_registers")


def expected_paces(case: Case) -> dict[str, float]:
    from ...attention.timeline import fp8, periods

    bf16, eight = periods(case["cycles"]), periods(fp8(case["cycles"]))
    return bf16 | {"fp8 gain": bf16["both"] / eight["both"]}


def expected_facts(case: Case) -> dict[str, Any]:
    """From the kernel's own constants, for the specialised kernel."""
    from ...attention.hopper_launch import BARRIER_BYTES, REGISTERS, HopperTile, shared_bytes
    from ...attention.tiles import padded

    tile, head_dim = HopperTile(*case["tile"]), case["head_dim"]
    consumer, producer = REGISTERS[tile.warpgroups]
    tiles_of_keys, block_bytes = max(-(-case["kv_len"] // tile.keys), 1), tile.keys * padded(head_dim) * 2
    return {
        "stage_bytes": [block_bytes, *[2 * block_bytes] * (tiles_of_keys - 1), block_bytes],
        "full_parity": [used // tile.stages & 1 for used in range(tiles_of_keys + 1)],
        "empty_arrivals": tile.warpgroups,
        "shared_bytes": shared_bytes(tile, head_dim) - BARRIER_BYTES,
        "thread_registers": (tile.rows * (tile.keys + padded(head_dim)) + tile.rows * tile.keys // 2) // 128,
        "block_registers": [consumer, producer, 128 * (tile.warpgroups * consumer + producer)],
    }


def number_check(keys: tuple[str, ...], expected: Callable, slips: Callable) -> Check:
    """A check of these entries; slips(case, key) gives (hint, what the slip leads to)."""

    def check_entry(case: Case, output: dict[str, Any], key: str) -> Mistake | None:
        got, want = output[key], expected(case)[key]
        if _same(got, want):
            return None
        named = (hint for hint, slip in slips(case, key) if not _same(slip, want) and _same(got, slip))
        return Mistake(_said(key, got, want), next(named, ""))

    return looking_at(keys, check_entry)


def _said(key: str, got: Any, want: Any) -> str:
    from ...grading.compare import describe

    if isinstance(want, list):
        if not isinstance(got, (list, tuple)):
            return f"{key}: got {describe(got)}, expected a list"
        if len(got) != len(want):
            return f"{key}: a list of {len(got)}, expected {len(want)}"
        at = next(i for i, (a, b) in enumerate(zip(got, want, strict=True)) if not _same(a, b))
        return f"{key}[{at}]: got {str(got[at])[:40]}, expected {want[at]}"
    words = got if isinstance(got, (int, float)) else describe(got)
    return f"{key}: got {words}, expected {want:g}" if isinstance(want, float) else f"{key}: got {words}, expected {want}"


def _same(got: Any, want: Any) -> bool:
    if isinstance(want, list):
        return isinstance(got, (list, tuple)) and len(got) == len(want) and all(map(_same, got, want))
    if isinstance(got, bool) or not isinstance(got, (int, float)):
        return False
    return abs(got - want) <= EXACT * abs(want)
