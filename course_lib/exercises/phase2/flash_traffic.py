"""What a FlashAttention kernel may ask for, for exercise 2.4: closed forms, and a count of what a function does ask for."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...grading.criteria import Case
from ..kernel_counts import counts_of

if TYPE_CHECKING:
    from torch import Tensor

QUERY_ROWS = 64  # K and V are read at most once for so many queries
LARGEST = 128  # rows and columns of a tile of scores, at most
ELEMENTWISE = 32  # FLOPs for each score, beside the products; softmax takes about 7, and a product by hand 2 * head_dim


def _covered(q_len: int, kv_len: int, causal: bool) -> tuple[int, int]:
    """-> (rows of K read for one head, scores computed): what tiles of QUERY_ROWS queries read, and what the largest compute."""
    from ...attention.tiles import Tile, keys_read, keys_seen

    reading = Tile(QUERY_ROWS, LARGEST, 4, 1)
    read = sum(keys_read(q_len, kv_len, row, reading, causal) for row in range(0, q_len, QUERY_ROWS))
    seen = [keys_seen(q_len, kv_len, row, LARGEST, causal) for row in range(0, q_len, LARGEST)]
    return read, sum(LARGEST * LARGEST * -(-keys // LARGEST) for keys in seen)


def flash_bounds(case: Case) -> dict[str, int]:
    """The most that a kernel may count in for the q, k and v of a case."""
    batch, q_len, q_heads, head_dim = case["q"].shape
    read, scores = _covered(q_len, case["k"].shape[1], case["causal"])
    rows = batch * q_heads * head_dim * case["q"].element_size()
    return {
        "loaded_bytes": rows * (q_len + 2 * read),
        "stored_bytes": rows * q_len,
        "dot_flops": batch * q_heads * 4 * head_dim * scores,
        "elementwise_flops": batch * q_heads * ELEMENTWISE * scores,
    }


def flash_hint(case: Case, name: str, got: float) -> str:
    """What a count beyond its bound tells. Loaded bytes: which tiles of queries would read as much."""
    if name != "loaded_bytes":
        return {
            "dot_flops": "Tiles are multiplied that nobody sees. Which is the last key that the last query of a program sees?",
            "stored_bytes": "Each row of the result is stored once.",
            "elementwise_flops": "Is a product computed without tl.dot, or something for every score that a row needs once?",
        }.get(name, "")
    from ...attention.tiles import Tile, keys_read

    batch, q_len, q_heads, head_dim = case["q"].shape
    kv_len, causal = case["k"].shape[1], case["causal"]
    read = (got / (batch * q_heads * head_dim * case["q"].element_size()) - q_len) / 2
    for rows in (16, 32, 64, 128):
        if causal and read == -(-q_len // rows) * kv_len:
            return "Every program reads all keys. Which is the last one that its last query sees?"
        for keys in (16, 32, 64, 128):
            tile = Tile(rows, keys, 4, 1)
            if rows < QUERY_ROWS and read == sum(keys_read(q_len, kv_len, row, tile, causal) for row in range(0, q_len, rows)):
                return f"Every {rows} queries read their keys anew. With twice as many in a tile it is half as often."
    return "K and V are read once for each tile of queries, as far as the tile sees them."


@dataclass(frozen=True, slots=True)
class FlashTraffic:
    """Requested bytes and FLOPs of all launches, caches left out."""

    loaded_bytes: int
    stored_bytes: int
    dot_flops: int
    programs: int


def flash_traffic(attention: Callable[..., Any], q: "Tensor", k: "Tensor", v: "Tensor", causal: bool) -> FlashTraffic:
    """Run `attention(q, k, v, causal)` once, interpreted, and count.

    Raises the KernelMistake that ended a launch, ValueError for a function that launched no kernel.
    """
    counts = counts_of(attention, q, k, v, causal)
    return FlashTraffic(**{name: counts[name] for name in ("loaded_bytes", "stored_bytes", "dot_flops", "programs")})
