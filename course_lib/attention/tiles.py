"""Which tile the forward kernel uses, what it holds in shared memory, and which keys each tile of queries reads.

A larger tile of queries reads K and V less often; a larger tile of keys has fewer steps. Both are bounded by registers (scores
and accumulator are float32 and live there) and by shared memory (the queries, and `stages` tiles of keys and of values on their
way).
HOPPER's and HOPPER_FEW_KEYS' were chosen on an H200: benchmarks/results/nvidia-h200/flash_variants.json has them beside others,
on both sides of MANY_KEYS, and HOPPER_POINTERS' too. AMPERE's fit and keep their registers, by the compiler's word; nobody timed
them.
head_dim 80 and 96 are padded to 128: blocks are powers of two. The pad is filled with zeros on the way in and costs tensor-core
time, 128 / 80 = 1.6 and 128 / 96 = 1.33 of it, but no memory traffic.
"""

from dataclasses import dataclass

BARRIER_BYTES = 1024  # barriers of the pipeline, and alignment


@dataclass(frozen=True, slots=True)
class Tile:
    query_rows: int
    key_rows: int
    warps: int
    stages: int
    descriptors: bool = False  # loads by Hopper's copy engine (TMA)


HOPPER = {  # padded head_dim -> tile. 64 rows and 4 warps: two programs share an SM, and one computes while the other waits
    64: Tile(64, 128, 4, 3, descriptors=True),
    128: Tile(64, 64, 4, 3, descriptors=True),
    256: Tile(128, 64, 8, 2, descriptors=True),
}
HOPPER_FEW_KEYS = HOPPER | {64: Tile(64, 64, 4, 3, descriptors=True)}  # smaller: three programs share an SM
MANY_KEYS = 2048
HOPPER_POINTERS = {64: Tile(128, 64, 8, 3), 128: Tile(128, 64, 8, 3), 256: Tile(128, 32, 8, 3)}
AMPERE = {64: Tile(128, 64, 8, 3), 128: Tile(128, 32, 8, 3)}  # 256: queries and accumulator fill the registers, and tiles spill
INTERPRETED = Tile(64, 64, 4, 1)  # any head_dim; float32 too
MIN_BLOCK_D = 16  # of tl.dot


def padded(head_dim: int) -> int:
    """The power of two from head_dim on. 64 -> 64, 80 -> 128."""
    return max(MIN_BLOCK_D, 1 << (head_dim - 1).bit_length())


def choose_tile(
    head_dim: int, capability: tuple[int, int] | None, *, keys: int = MANY_KEYS, descriptors: bool = True
) -> Tile:  # fmt: skip
    """The tile for a device of this compute capability; None: the interpreter.

    keys         that a query sees, on average. From MANY_KEYS on a tile of more keys pays on Hopper, where head_dim is 64:
                 2047 -> 64 x 64, 2048 -> 64 x 128
    descriptors  whether q, k and v can be described (`describable`); only a device from (9, 0) on has the copy engine
    """
    if capability is None:
        return INTERPRETED
    table = _table(capability, descriptors)
    if padded(head_dim) not in table:
        raise ValueError(
            f"no tile for head_dim {head_dim} on a device of compute capability {capability}, where there are tiles for "
            f"{', '.join(map(str, table))}; use impl='dense', or give a tile"
        )
    return (HOPPER_FEW_KEYS if table is HOPPER and keys < MANY_KEYS else table)[padded(head_dim)]


def has_tile(head_dim: int, capability: tuple[int, int]) -> bool:
    """(8, 0), an A100: 128 -> True, 256 -> False."""
    return padded(head_dim) in _table(capability, True)


def _table(capability: tuple[int, int], descriptors: bool) -> dict[int, Tile]:
    """Hopper's tiles need 227 KiB of shared memory in a block, which (9, 0) to (11, x) have; (12, x) has 99, as (8, 6) has."""
    if not (9, 0) <= capability < (12, 0):
        return AMPERE
    return HOPPER if descriptors else HOPPER_POINTERS


def shared_bytes(tile: Tile, head_dim: int, element_bytes: int = 2) -> int:
    """Shared memory of a program on Hopper: the queries, and `stages` tiles of keys and of values.

    64 x 64, head_dim 128, 3 stages in bf16: 16 KiB + 3 * 32 KiB + barriers = 115,712 bytes. An SM's 233,472 hold two.
    """
    return (tile.query_rows + 2 * tile.stages * tile.key_rows) * padded(head_dim) * element_bytes + BARRIER_BYTES


def keys_seen(q_len: int, kv_len: int, row: int, query_rows: int, causal: bool) -> int:
    """Keys that some query of the tile starting at `row` sees: a prefix. Causal: up to the diagonal of its last row."""
    if not causal:
        return kv_len
    return max(min(kv_len, row + query_rows + kv_len - q_len), 0)


def keys_read(q_len: int, kv_len: int, row: int, tile: Tile, causal: bool) -> int:
    """Those that the kernel reads for it: whole tiles of keys, as far as there are keys."""
    seen = keys_seen(q_len, kv_len, row, tile.query_rows, causal)
    return min(kv_len, -(-seen // tile.key_rows) * tile.key_rows)
