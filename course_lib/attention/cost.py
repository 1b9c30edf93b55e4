"""What attention costs: FLOPs, the least bytes, and the bytes that the forward kernel's tiles ask for.

FLOPs        4 * head_dim for each pair of a query and a key that it sees: 2 for the score, 2 for the value.
Least bytes  q, k, v read once, out (and lse, float32) written once: what a cache without limit would leave.
Tile bytes   q once; K and V again for every tile of queries of every *query* head: heads of a group do not share their reads.
"""

from collections.abc import Callable

from .tiles import Tile, keys_read, keys_seen

LSE_BYTES = 4


def attention_pairs(q_len: int, kv_len: int, causal: bool) -> int:
    """Pairs of a query and a key that it sees, of one head. Bottom-right: query i sees max(i + 1 + kv_len - q_len, 0) keys."""
    if not causal:
        return q_len * kv_len
    rows, first = min(q_len, kv_len), max(kv_len - q_len, 0) + 1  # rows that see a key, and how many the first of them sees
    return rows * (first + kv_len) // 2


def attention_flops(batch: int, q_len: int, kv_len: int, q_heads: int, head_dim: int, *, causal: bool = False) -> int:
    """FLOPs of the two products, exact. 4 * batch * heads * q_len * kv_len * head_dim, about half of it when causal."""
    return 4 * batch * q_heads * head_dim * attention_pairs(q_len, kv_len, causal)


def least_bytes(
    batch: int, q_len: int, kv_len: int, q_heads: int, kv_heads: int, head_dim: int, *, element_bytes: int = 2,
    with_lse: bool = False,
) -> int:  # fmt: skip
    vectors = 2 * q_len * q_heads + 2 * kv_len * kv_heads
    return batch * (vectors * head_dim * element_bytes + with_lse * q_len * q_heads * LSE_BYTES)


def tile_bytes(
    batch: int, q_len: int, kv_len: int, q_heads: int, head_dim: int, tile: Tile, *, causal: bool = False, element_bytes: int = 2,
    with_lse: bool = False,
) -> int:  # fmt: skip
    """Bytes that the kernel requests: what the interpreter's ledger counts.

    Full and causal of 1024 tokens with 128 x 128 tiles: K and V 8 times, and (1 + 2 + ... + 8) / 8 = 4.5 times.
    """
    return _bytes(batch, q_len, kv_len, q_heads, head_dim, tile, causal, element_bytes, with_lse, keys_read)


def least_tile_bytes(
    batch: int, q_len: int, kv_len: int, q_heads: int, head_dim: int, tile: Tile, *, causal: bool = False, element_bytes: int = 2,
    with_lse: bool = False,
) -> int:  # fmt: skip
    """The least that tiles of so many queries can ask for: of K and V no key that none of the tile's queries sees."""

    def seen(q_len: int, kv_len: int, row: int, tile: Tile, causal: bool) -> int:
        return keys_seen(q_len, kv_len, row, tile.query_rows, causal)

    return _bytes(batch, q_len, kv_len, q_heads, head_dim, tile, causal, element_bytes, with_lse, seen)


def _bytes(
    batch: int, q_len: int, kv_len: int, q_heads: int, head_dim: int, tile: Tile, causal: bool, element_bytes: int,
    with_lse: bool, keys_of: Callable[[int, int, int, Tile, bool], int],
) -> int:  # fmt: skip
    if not kv_len:  # nothing is launched: zeros and -inf are filled in
        return 0
    keys = sum(keys_of(q_len, kv_len, row, tile, causal) for row in range(0, q_len, tile.query_rows))
    one_head = (2 * q_len + 2 * keys) * head_dim * element_bytes + with_lse * q_len * LSE_BYTES
    return batch * q_heads * one_head
