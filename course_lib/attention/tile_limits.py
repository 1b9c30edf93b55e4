"""What a tile needs of an SM, known before anything is compiled, and whether an SM has it: `check_tile`.

Exact    shared bytes of one_loop_kernel.py with 2 stages or more, as Triton 3.6 and 3.7 allot them (a test compiles): the queries
         stay in shared memory, beside the tiles of keys and of values on their way. How many of each? On (9, 0) a product reads
         its factors in shared memory while the next tiles are copied: `stages`. On (8, x) a product reads registers, so a tile
         may be overwritten as soon as it has been read: stages - 1. There, where query_rows < head_dim, the warps divide the
         columns of the output between them, each of them needs all weights, and these pass through shared memory as well.
Bound    registers. Scores and accumulator are float32 and live at once, so no compiler gets by with fewer; pointers, weights in
         16 bits and, on (8, x), the factors of a product come on top. So `must_spill` is a proof, and its contrary is none. On
         (9, 0) with 16 warps it may not even compile: an instruction of a product wants its whole result in registers.
forward_kernel.py loads by descriptors on (9, 0): 8 bytes for each stage more, and the weights too with less than 16 rows a warp.
It keeps a second tile of scores alive, so it spills earlier.
"""

from dataclasses import dataclass
from numbers import Integral

from ..hardware import GpuSpec, this_gpu
from .tiles import Tile, padded

REGISTERS_PER_SM, REGISTERS_PER_THREAD, THREADS_PER_BLOCK, WARP = 65536, 255, 1024, 32  # CUDA C++ Programming Guide, 7.5 to 10.0
RESERVED_BYTES = 1024  # of shared memory, which the system keeps for each block (same guide, 8.0 on)
THREADS_PER_SM = {"8.0": 2048, "8.6": 1536, "8.9": 1536, "9.0": 2048}


@dataclass(frozen=True, slots=True)
class Sm:
    """Numbers of one SM. shared_block_bytes is the most that one block may have."""

    products_read_shared: bool
    shared_block_bytes: int
    shared_sm_bytes: int
    threads: int


@dataclass(frozen=True, slots=True)
class TileNeeds:
    """Of a block (program) and of each of its threads."""

    shared_bytes: int
    threads: int
    least_registers: int  # of a thread
    register_limit: int  # of a thread

    @property
    def must_spill(self) -> bool:
        """256 > 255 -> True; 255 > 255 -> False, which promises nothing."""
        return self.least_registers > self.register_limit


def sm_of(gpu: GpuSpec) -> Sm:
    """ValueError for a GPU to which the rules of this file do not apply."""
    if gpu.capability not in THREADS_PER_SM:
        known = ", ".join(THREADS_PER_SM)
        raise ValueError(
            f"no rule for compute capability {gpu.capability} ({gpu.name}), only for {known}: Triton has no tensor-core product "
            "for 7.5, and keeps accumulators in tensor memory on 10.0; ask interpreter.compile_report"
        )
    shared = gpu.smem_per_block_kb * 1024, gpu.smem_per_sm_kb * 1024
    return Sm(gpu.capability == "9.0", *shared, THREADS_PER_SM[gpu.capability])


def tile_needs(tile: Tile, head_dim: int, sm: Sm, element_bytes: int = 2) -> TileNeeds:
    """64 x 64, head_dim 128, 3 stages, 4 warps, bf16. H200: 16 KiB + 3 * 32 KiB; A100: 16 KiB + 2 * 32 KiB + 8 KiB of weights.
    Both: 64 * (64 + 128) scores and sums for 128 threads, 96 registers each.
    """
    if tile.stages < 2:
        raise ValueError(f"{tile.stages} stage: nothing is on its way, and buffers are reused; the rule holds from 2 stages on")
    columns, threads = padded(head_dim), WARP * tile.warps
    buffers = tile.stages if sm.products_read_shared else tile.stages - 1
    elements = (tile.query_rows + 2 * buffers * tile.key_rows) * columns
    if not sm.products_read_shared and tile.query_rows < columns:
        elements += tile.query_rows * tile.key_rows
    least = -(-tile.query_rows * (tile.key_rows + columns) // threads)
    return TileNeeds(elements * element_bytes, threads, least, min(REGISTERS_PER_THREAD, REGISTERS_PER_SM // threads))


def programs_per_sm(needs: TileNeeds, sm: Sm, registers: int | None = None) -> int:
    """How many programs share an SM at most; `registers` of a thread as compiled, else the least. 0: not one can be launched."""
    if needs.shared_bytes > sm.shared_block_bytes:
        return 0
    registers = min(needs.least_registers, needs.register_limit) if registers is None else registers
    return min(
        sm.shared_sm_bytes // (needs.shared_bytes + RESERVED_BYTES),
        REGISTERS_PER_SM // (registers * needs.threads),
        sm.threads // needs.threads,
    )


def check_tile(tile: Tile, head_dim: int, gpu: GpuSpec | None = None, *, element_bytes: int = 2) -> TileNeeds:
    """What the tile needs, if nothing forbids it on this GPU (default: the one in this machine).

    Raises ValueError with the number, the limit and the next step for numbers that no launch has (rows, keys and warps are powers
    of two), more shared memory than a block can have (the launch would be refused), and more registers than a thread can have
    (it would run, and spill).
    """
    gpu = gpu or this_gpu()
    if gpu is None:
        raise ValueError("no GPU of hardware/gpus.toml is in this machine; name one: check_tile(tile, 128, spec('h200-sxm'))")
    sm = sm_of(gpu)
    _check_numbers(tile, head_dim, element_bytes)
    needs = tile_needs(tile, head_dim, sm, element_bytes)
    words = f"{tile.query_rows} x {tile.key_rows}, head_dim {head_dim}, {tile.stages} stages, {tile.warps} warps"
    if needs.shared_bytes > sm.shared_block_bytes:
        raise ValueError(
            f"{words}: {needs.shared_bytes:,} bytes of shared memory, a block on {gpu.name} can have {sm.shared_block_bytes:,}; "
            f"it does not spill, the launch is refused: {_smaller(tile, head_dim, sm, element_bytes)}"
        )
    if needs.must_spill:
        raise ValueError(
            f"{words}: scores and accumulator are {needs.least_registers} registers of each of {needs.threads} threads, which "
            f"have {needs.register_limit}; the rest would spill, in the innermost loop: {_more_warps(tile, head_dim, sm)}"
        )
    return needs


def _check_numbers(tile: Tile, head_dim: int, element_bytes: int) -> None:
    powers = {"query_rows": tile.query_rows, "key_rows": tile.key_rows, "warps": tile.warps}
    for name, size in (powers | {"stages": tile.stages, "head_dim": head_dim, "element_bytes": element_bytes}).items():
        if not isinstance(size, Integral) or size < 1:
            raise ValueError(f"{name} must be a whole number from 1 on, got {size!r}")
    for name, size in powers.items():
        if size & (size - 1):
            below = 1 << size.bit_length() - 1
            raise ValueError(f"{name} {size} is not a power of two, and Triton takes no other; use {below} or {2 * below}")
    if tile.warps * WARP > THREADS_PER_BLOCK:
        raise ValueError(
            f"{tile.warps} warps are {tile.warps * WARP} threads, and a block can have {THREADS_PER_BLOCK}; use "
            f"{THREADS_PER_BLOCK // WARP} warps or fewer"
        )


def _smaller(tile: Tile, head_dim: int, sm: Sm, element_bytes: int) -> str:
    for stages in range(tile.stages - 1, 1, -1):
        fewer = Tile(tile.query_rows, tile.key_rows, tile.warps, stages)
        if tile_needs(fewer, head_dim, sm, element_bytes).shared_bytes <= sm.shared_block_bytes:
            return f"use {stages} stages"
    rows, keys = tile.query_rows, tile.key_rows
    while max(rows, keys) > 16:
        rows, keys = max(rows // 2, 16), max(keys // 2, 16)
        if tile_needs(Tile(rows, keys, tile.warps, 2), head_dim, sm, element_bytes).shared_bytes <= sm.shared_block_bytes:
            return f"use a smaller block, say {rows} x {keys} with 2 stages"
    return f"no block fits with head_dim {head_dim}; cut head_dim into parts"


def _more_warps(tile: Tile, head_dim: int, sm: Sm) -> str:
    for warps in (8, 16, 32):
        if warps > tile.warps and not tile_needs(Tile(tile.query_rows, tile.key_rows, warps, 2), head_dim, sm).must_spill:
            return f"use {warps} warps"
    return f"more warps do not help, an SM has {REGISTERS_PER_SM} registers in all; use fewer rows or keys"
