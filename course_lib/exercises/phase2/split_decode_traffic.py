"""What a split decode may ask for, for exercise 2.9: closed forms, and a hint from a count beyond them."""

from collections.abc import Callable
from typing import Any

from ...grading.criteria import Case
from ..kernel_counts import counts_of
from .split_decode_cases import inputs

ROWS = 16  # of a tile, so that tl.dot takes it; twice as many from 17 query heads of a KV head on
LARGEST = 128  # tokens of a tile, at most
ELEMENTWISE = 40  # FLOPs for each score, beside the products; a product by hand is 2 * head_dim
PROGRAM_BYTES = 64  # numbers that a program reads: its item, a length, where a pair's parts begin


def _sizes(case: Case) -> list[tuple[int, int]]:
    """(tokens, tokens of whole tiles) of each item."""
    size, found = inputs(case)[1].shape[1], []
    for sequence, _, first, end in case["items"].tolist():
        tokens = max(0, min(end * size, int(case["kv_lengths"][sequence])) - first * size)
        found.append((tokens, -(-tokens // LARGEST) * LARGEST))
    return found


def split_decode_bounds(case: Case) -> dict[str, int]:
    """K and V once, q once an item, an entry of the table for each token of a tile, parts written once and read once."""
    q, k, _ = inputs(case)
    (sequences, q_heads, head_dim), unit = q.shape, q.element_size()
    group = q_heads // k.shape[2]
    sizes = _sizes(case)
    tokens, tiled = sum(live for live, _ in sizes), sum(whole for _, whole in sizes)
    parts = len(sizes) * group * (head_dim + 2) * 4
    programs = len(sizes) + sequences * q_heads
    scores = max(ROWS, 1 << (group - 1).bit_length()) * tiled
    return {
        "loaded_bytes": 2 * tokens * head_dim * unit
        + len(sizes) * group * head_dim * unit
        + 4 * tiled
        + parts
        + PROGRAM_BYTES * programs,
        "stored_bytes": parts + sequences * q_heads * (head_dim * unit + 4),
        "dot_flops": 4 * head_dim * scores,
        "elementwise_flops": ELEMENTWISE * scores + 64 * programs * head_dim,
    }


def split_decode_hint(case: Case, name: str, got: float) -> str:
    q, k, _ = inputs(case)
    live = 2 * sum(tokens for tokens, _ in _sizes(case)) * q.shape[2] * q.element_size()
    group = q.shape[1] // k.shape[2]
    if name == "loaded_bytes" and got >= group * live:
        return (
            f"K and V are read about {got / live:.1f} times; a KV head serves {group} query heads. Can they share what was read?"
        )
    return {
        "loaded_bytes": "K and V once, and of the last block only the tokens that there are; each part once, when it is merged.",
        "stored_bytes": "Of a part, the rows of the group's heads, not those that pad the tile; of the result, each row once.",
        "dot_flops": "Tiles are multiplied that no token needs.",
        "elementwise_flops": "Is a product computed without tl.dot, or something for every score that a row needs once?",
    }[name]


def decode_traffic(decode: Callable[..., Any], case: Case) -> dict[str, int]:
    """Run `decode` once on a case, interpreted -> {"loaded_bytes", "stored_bytes", "kv_bytes"}; kv_bytes: live K and V, once.

    Raises the KernelMistake that ended a launch, ValueError for a function that launched no kernel.
    """
    q, k, v = inputs(case)
    counts = counts_of(decode, q, k, v, *(case[name] for name in ("block_tables", "kv_lengths", "items", "first")))
    live = int(case["kv_lengths"].sum()) * k.shape[2]
    kv_bytes = 2 * live * q.shape[2] * q.element_size()
    return {"loaded_bytes": counts["loaded_bytes"], "stored_bytes": counts["stored_bytes"], "kv_bytes": kv_bytes}
