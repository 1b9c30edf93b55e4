"""What paged attention costs: FLOPs, least bytes, and the bytes that the kernels ask for.

Decode reads every live token's K and V once: 4 FLOPs for each element of K read, by each of the group's heads. With bf16 that is
`group` FLOPs a byte, far below any GPU's ridge: its least time is its bytes over the rate of reading.
"""

from collections.abc import Sequence

from .cost import attention_pairs
from .decode_tile import most_rows
from .splits import WorkList

TABLE_BYTES = 4  # an entry of a block table
FLOAT_BYTES = 4


def decode_flops(kv_lengths: Sequence[int], q_heads: int, head_dim: int) -> int:
    """4 * q_heads * head_dim for each token: 2 for the score, 2 for the value."""
    return 4 * q_heads * head_dim * sum(kv_lengths)


def kv_bytes(kv_lengths: Sequence[int], kv_heads: int, head_dim: int, *, element_bytes: int = 2) -> int:
    """K and V of all tokens: 1 token with 8 heads of 128 in bf16 is 4096 bytes."""
    return 2 * sum(kv_lengths) * kv_heads * head_dim * element_bytes


def decode_least_bytes(
    kv_lengths: Sequence[int],
    q_heads: int,
    kv_heads: int,
    head_dim: int,
    *,
    block_size: int | None = None,
    element_bytes: int = 2,
) -> int:
    """K and V and the live table entries once, q in, out and lse out. block_size None: contiguous, without a table."""
    rows = len(kv_lengths)
    entries = sum(-(-length // block_size) for length in kv_lengths) if block_size else 0
    vectors = 2 * rows * q_heads * head_dim * element_bytes + rows * q_heads * FLOAT_BYTES
    return kv_bytes(kv_lengths, kv_heads, head_dim, element_bytes=element_bytes) + vectors + entries * TABLE_BYTES


def part_bytes(work: WorkList, part_rows: int, head_dim: int) -> int:
    """What splitting adds: each part's float32 output and lse, written by one kernel and read by the next.

    1 row of 32768 tokens on 264 programs: 264 parts of 4 heads of 128 are 2 * 264 * 4 * 129 * 4 = 1.1 MB beside 134 MB of K
    and V.
    """
    return 2 * work.slots * part_rows * (head_dim + 1) * FLOAT_BYTES


def cascade_kv_bytes(
    rows: int, shared_tokens: int, own_tokens: int, q_heads: int, kv_heads: int, head_dim: int, *, element_bytes: int = 2
) -> tuple[int, int]:
    """(flat, cascade) bytes of K and V. Cascade reads the prefix once for each tile of one KV head's queries, whose rows are
    128 at most (64 with head_dim 256).

    64 rows, 16384 shared and 256 of their own, 32/8 heads of 128: 4.36 GB, and 0.20 GB (2 tiles of 32 rows each).
    """
    per_token = 2 * kv_heads * head_dim * element_bytes
    tiles = -(-rows // max(1, most_rows(head_dim) // (q_heads // kv_heads)))
    return rows * (shared_tokens + own_tokens) * per_token, (tiles * shared_tokens + rows * own_tokens) * per_token


def prefill_flops(
    new_tokens: Sequence[int], kv_lengths: Sequence[int], q_heads: int, head_dim: int, *, causal: bool = True
) -> int:
    """Over pairs of a new token and a cached one that it sees. 512 after 1024: 512 * 1024 + 512 * 513 / 2 pairs a head."""
    pairs = sum(attention_pairs(new, length, causal) for new, length in zip(new_tokens, kv_lengths, strict=True))
    return 4 * q_heads * head_dim * pairs


def prefill_tile_bytes(
    new_tokens: Sequence[int], kv_lengths: Sequence[int], kv_heads: int, head_dim: int, positions: int, *, causal: bool = True,
    element_bytes: int = 2,
) -> int:  # fmt: skip
    """K and V that the kernel asks for, once for each tile of `positions` new tokens: up to the tile's last diagonal."""
    total = 0
    for new, length in zip(new_tokens, kv_lengths, strict=True):
        for first in range(0, new, positions):
            last = min(first + positions, new)
            total += max(length - new + last, 0) if causal else length
    return 2 * total * kv_heads * head_dim * element_bytes


def write_least_bytes(
    tokens: int, q_heads: int, kv_heads: int, head_dim: int, *, rope: bool = True, element_bytes: int = 2
) -> int:
    """q, k, v in and out, cos and sin, slots: what the fused write moves."""
    vectors = 2 * tokens * ((q_heads if rope else 0) + 2 * kv_heads) * head_dim * element_bytes
    return vectors + tokens * 8 + (tokens * head_dim * FLOAT_BYTES if rope else 0)
