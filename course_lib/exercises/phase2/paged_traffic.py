"""What a paged write and a paged decode may ask for, for exercise 2.8: closed forms, and a count of what functions do ask for."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...grading.criteria import Case
from ..kernel_counts import counts_of

if TYPE_CHECKING:
    from torch import Tensor

SLOT_BYTES = 8
ENTRY_BYTES = 4  # of a block table
LENGTH_BYTES = 4
TILES = (16, 32, 64, 128, 256)
BEHIND = "Slots behind the last token are read as well. Load only what holds a token."


def write_bounds(case: Case) -> dict[str, int]:
    """Each element of k and v once, a slot once for each head of each; only what is not skipped is stored."""
    tokens, heads, _ = case["k"].shape
    each = 2 * case["k"][0].numel() * case["k"].element_size()
    live = int((case["slots"] >= 0).sum())
    return {"loaded_bytes": tokens * (each + 2 * heads * SLOT_BYTES), "stored_bytes": live * each}


def write_hint(case: Case, name: str, got: float) -> str:
    bounds = write_bounds(case)
    tokens, each = len(case["slots"]), 2 * case["k"][0].numel() * case["k"].element_size()
    if name == "stored_bytes":
        return "Who has slot -1 is not written at all." if got == tokens * each else "Each element is stored once."
    elements = 2 * case["k"].numel()
    if got - tokens * each >= elements * SLOT_BYTES / 2:
        return "Is the slot loaded anew for each element? A slot is 8 bytes, an element 2: load it once for a row of elements."
    return "Each element is loaded once." if got > bounds[name] else ""


def decode_bounds(case: Case) -> dict[str, int]:
    """For each query head: K and V of its sequence's tokens once, a table entry for each token, q, and the length."""
    batch, q_heads, head_dim = case["q"].shape
    size = case["q"].element_size()
    tokens = int(case["lengths"].sum())
    once = batch * q_heads * (head_dim * size + LENGTH_BYTES)
    return {
        "loaded_bytes": q_heads * tokens * (2 * head_dim * size + ENTRY_BYTES) + once,
        "stored_bytes": batch * q_heads * head_dim * size,
    }


def decode_hint(case: Case, name: str, got: float) -> str:
    """What a count beyond its bound tells. Loaded bytes: what would be as much, if only one thing is."""
    if name == "stored_bytes":
        return "Each row of the result is stored once, and nothing else."
    batch, q_heads, head_dim = case["q"].shape
    token = 2 * head_dim * case["q"].element_size()
    lengths, size = case["lengths"].tolist(), case["k_blocks"].shape[1]
    tokens = sum(lengths)
    readings = [
        (2 * tokens, "As much as K and V twice. Two passes over the sequence, or a copy of it before?"),
        (1.5 * tokens, "As much as one of K and V twice."),
        (batch * max(lengths), "Every sequence is read as far as the longest. Each has a length of its own."),
        (batch * case["tables"].shape[1] * size, "Every column of the table is followed. The length says how many are live."),
    ]
    readings += [(sum(-(-n // tile) * tile for n in lengths), BEHIND) for tile in (size, *TILES)]
    once = decode_bounds(case)[name] - q_heads * tokens * (token + ENTRY_BYTES)
    readings += [((tokens + sum(-(-n // tile) * tile for n in lengths)) / 2, BEHIND) for tile in TILES]  # of K or V alone
    words = {
        words
        for count, words in readings
        if count > tokens and 0 <= got - q_heads * count * token <= q_heads * count * ENTRY_BYTES + once
    }
    return words.pop() if len(words) == 1 else "For each query head: K and V of the tokens once, 4 bytes of the table a token."


@dataclass(frozen=True, slots=True)
class PagedTraffic:
    """Requested bytes of all launches, caches left out."""

    loaded_bytes: int
    stored_bytes: int
    programs: int


def paged_traffic(function: Callable[..., Any], *args: "Tensor") -> PagedTraffic:
    """Run `function(*args)` once, interpreted, and count.

    Raises the KernelMistake that ended a launch, ValueError for a function that launched no kernel.
    """
    counts = counts_of(function, *args)
    return PagedTraffic(**{name: counts[name] for name in ("loaded_bytes", "stored_bytes", "programs")})
