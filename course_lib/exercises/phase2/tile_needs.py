"""Exercise 2.5, what a tile needs of an SM: shared memory, registers, traffic, units, and what keeps it from running.

The oracle is attention/tile_limits.py, which a test holds to the compiler. Cases are in tile_needs_cases.py.
"""

from dataclasses import replace
from typing import Any

from ...grading.criteria import Case, Correct
from ...grading.exercise import Exercise
from ...grading.outcome import Mistake
from ..entries import looking_at
from .tile_needs_cases import (
    ampere_cases,
    cycle_cases,
    hopper_cases,
    program_cases,
    refused_cases,
    register_cases,
    traffic_cases,
)
from .tile_needs_slips import known_slip

MEND_FIRST = "Programs are judged by your own numbers. Mend refused, or shared_bytes, first."
EXACT = 1e-9  # of a quotient of whole numbers
NOT_JUDGED = -1  # programs of a tile that has room four times over, and that the answer's own numbers keep from being launched
NAMES = ("block_q", "block_k", "shared memory")
LISTS = (list, tuple)


def expected(case: Case, own: Any = None) -> dict[str, Any]:
    """own: an answer, whose numbers are taken for what follows from them, so that one slip costs its own points only."""
    from ...attention.tile_limits import Sm, programs_per_sm, tile_needs
    from ...attention.tiles import Tile, padded
    from ...workloads.tile_gpus import Gpu

    (block_q, block_k, head_dim, stages, warps, size), gpu = case["tile"], Gpu(*case["gpu"])
    sm = Sm(gpu.products_read_shared, gpu.shared_block_bytes, gpu.shared_sm_bytes, gpu.threads_sm)
    needs = tile_needs(Tile(block_q, block_k, warps, stages), head_dim, sm, size)
    fields = {"shared_bytes": "shared_bytes", "least_registers": "registers", "register_limit": "register_limit"}
    based = replace(needs, **{field: own[key] for field, key in fields.items() if _is_number(own, key)})
    broken = (block_q & (block_q - 1), block_k & (block_k - 1), based.shared_bytes > sm.shared_block_bytes)
    refused = [name for name, is_broken in zip(NAMES, broken, strict=True) if is_broken]
    is_refused = bool(own["refused"]) if isinstance(own, dict) and isinstance(own.get("refused"), LISTS) else bool(refused)
    plain = not needs.must_spill and 4 * needs.shared_bytes <= sm.shared_block_bytes and not any(broken[:2])
    unchecked = replace(sm, shared_block_bytes=sm.shared_sm_bytes)  # whether it is refused is told apart
    programs = 0 if is_refused else int(programs_per_sm(based, unchecked))
    return {
        "shared_bytes": needs.shared_bytes, "registers": needs.least_registers, "register_limit": needs.register_limit,
        "must_spill": based.must_spill, "flops_per_byte": 2 * block_q / size,
        "product_cycles": 4 * block_q * block_k * padded(head_dim) / (gpu.flops_per_cycle * 2 / size),
        "exp_cycles": block_q * block_k / gpu.exps_per_cycle,
        "refused": refused, "programs": NOT_JUDGED if plain and not programs else programs,
    }  # fmt: skip


def _is_number(own: Any, key: str) -> bool:
    found = own.get(key) if isinstance(own, dict) else None
    return isinstance(found, (int, float)) and not isinstance(found, bool) and 0 < found < 2**31


def _check_entry(case: Case, output: dict[str, Any], key: str) -> Mistake | None:
    from ...grading.compare import describe

    wanted = expected(case, output)
    if key == "programs" and wanted[key] == NOT_JUDGED:
        told = [f"{name} {output[name]}" for name in ("refused", "shared_bytes") if name in output]
        return Mistake(f"programs: by your {', '.join(told)} this tile is never launched, and it is", MEND_FIRST)
    if _equal(key, output[key], wanted[key]):
        return None
    got = output[key] if isinstance(output[key], (int, float)) else describe(output[key])
    if key == "refused" and isinstance(output[key], LISTS):
        got = _names(output[key])
    reason = f"{key}: got {got}, expected {wanted[key]}{_given(key, output, expected(case))}"
    return Mistake(reason, known_slip(case, key, output, wanted))


def _given(key: str, output: Any, right: dict[str, Any]) -> str:
    """Of your own numbers, those that are not right and that this one follows from."""
    from_which = {"must_spill": ("registers", "register_limit"), "refused": ("shared_bytes",)}
    from_which["programs"] = (*from_which["refused"], *from_which["must_spill"], "refused")
    wrong = [f"{name} {output[name]}" for name in from_which.get(key, ()) if name in output and output[name] != right[name]]
    return f" with your {', '.join(wrong)}" if wrong else ""


def _equal(key: str, got: Any, want: Any) -> bool:
    if key == "refused":
        return isinstance(got, LISTS) and _names(got) == want
    if key == "must_spill":
        return got is want
    if isinstance(got, bool) or not isinstance(got, (int, float)):
        return False
    return abs(got - want) <= EXACT * want


def _names(got: Any) -> list[str]:
    """In the order of the text, so that any order is as good."""
    return sorted(map(str, got), key=lambda name: NAMES.index(name) if name in NAMES else len(NAMES))


def _correct(name: str, claim: str, points: float, cases: Any, *keys: str) -> Correct:
    return Correct(name=name, claim=claim, points=points, cases=cases, check=looking_at(keys, _check_entry), run="tile_needs")


TILE_NEEDS = Exercise(
    id="2.5",
    title="Tiles: shared memory, registers, spills and intensity",
    entry="tile_needs",
    params=("tile", "gpu"),
    returns="a dict of nine numbers and names",
    runner="phase2_tile_needs",
    criteria=(
        _correct("shared, Hopper", "shared bytes where products read shared memory", 1.0, hopper_cases, "shared_bytes"),
        _correct("shared, Ampere", "shared bytes where products read registers", 1.5, ampere_cases, "shared_bytes"),
        _correct(
            "registers", "the least registers of a thread, its limit, and whether it must spill", 1.5, register_cases,
            "registers", "register_limit", "must_spill",
        ),
        _correct("traffic", "FLOPs for each byte of keys and values", 0.5, traffic_cases, "flops_per_byte"),
        _correct("units", "cycles of tensor cores and of exponentials", 1.0, cycle_cases, "product_cycles", "exp_cycles"),
        _correct("refused", "what keeps a tile from being launched, at the limit and beyond", 1.0, refused_cases, "refused"),
        _correct("programs", "how many programs share an SM, whatever runs out first", 1.5, program_cases, "programs"),
    ),
)  # fmt: skip
