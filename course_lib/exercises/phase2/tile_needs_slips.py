"""Slips of exercise 2.5 that a hint can name: each is computed, and stands when it gives the number that came."""

from collections.abc import Iterator
from typing import Any

from ...grading.criteria import Case
from ...workloads.tile_gpus import Gpu, TileChoice

TWICE = "A power of two is its own next power of two: 128 stays 128."
RESERVED, REGISTERS, MOST, WARP = 1024, 65536, 255, 32


def known_slip(case: Case, key: str, output: dict[str, Any], wanted: dict[str, Any]) -> str:
    """The hint for the slip that explains output[key], or ""; wanted: what the check compares with."""
    tile, gpu, got = TileChoice(*case["tile"]), Gpu(*case["gpu"]), output[key]
    if key == "refused":
        return _refused(tile, gpu, got, wanted)
    if key == "must_spill":
        return _must_spill(got, wanted)
    if isinstance(got, bool) or not isinstance(got, (int, float)):
        return "An int or a float of Python's is asked for, no other kind of number: int(...) or float(...) makes one."
    slips = {
        "shared_bytes": _shared, "registers": _registers, "register_limit": _limits, "flops_per_byte": _traffic,
        "product_cycles": _cycles, "exp_cycles": _exps, "programs": _programs,
    }[key](tile, gpu, wanted)  # fmt: skip
    return next((hint for hint, value in slips if value != wanted[key] and abs(got - value) <= 1e-9 * abs(value)), "")


def _padded(head_dim: int) -> int:
    return 1 << (head_dim - 1).bit_length()


def _shared(tile: TileChoice, gpu: Gpu, wanted: dict[str, Any]) -> Iterator[tuple[str, float]]:
    q_rows, k_rows, head_dim, stages, _, size = tile
    columns, buffers = _padded(head_dim), stages if gpu.products_read_shared else stages - 1
    weights = q_rows * k_rows if not gpu.products_read_shared and q_rows < columns else 0

    def total(q: int = q_rows, pairs: int = buffers, d: int = columns, each: int = 2, extra: int = weights) -> int:
        return ((q + each * pairs * k_rows) * d + extra) * size

    if head_dim == columns:
        yield TWICE, total(d=2 * columns, extra=q_rows * k_rows if not gpu.products_read_shared and q_rows < 2 * columns else 0)
    yield "Blocks are powers of two. How wide is a row of head_dim in a tile?", total(d=head_dim)
    yield "Where do the queries stay while the walk goes on?", total(q=0)
    yield "A tile of keys is followed by one of values.", total(each=1)
    yield "How many tiles are on their way or in use at once, on this kind of GPU?", total(pairs=2 * stages - 1 - buffers)
    yield "How many tiles are on their way or in use at once, on this kind of GPU?", total(pairs=stages + 1)
    yield "The queries are loaded once and have no stages.", total(q=q_rows * stages)
    yield "The queries are loaded once and have no stages.", total(q=q_rows * buffers)
    yield "The stages say how many pairs are there at once.", total(pairs=1)
    yield "The 1024 bytes are the system's, not the program's.", total() + RESERVED
    if weights:
        yield "The weights are as many as the scores.", total(extra=q_rows * columns)
        yield "The weights are as many as the scores.", total(extra=k_rows * columns)
    once = "When do weights pass through shared memory, and on which kind of GPU?"
    yield once, total(extra=0)
    yield once, total(extra=q_rows * k_rows)
    yield "Weights have the size of the elements that they meet in the product.", total(extra=2 * weights)
    yield "Scores and output stay in registers.", total() + 4 * q_rows * k_rows
    yield "Scores and output stay in registers.", total() + 4 * q_rows * columns
    yield "How large is an element? tile.element_bytes says it.", total() / size * (2 if size == 1 else 4)
    yield "In bytes.", total() / 1024
    yield "In bytes: elements have a size.", total() / size


def _registers(tile: TileChoice, gpu: Gpu, wanted: dict[str, Any]) -> Iterator[tuple[str, float]]:
    q_rows, k_rows, head_dim, _, warps, size = tile
    columns, threads = _padded(head_dim), WARP * warps
    if head_dim == columns:
        yield TWICE, -(-q_rows * (k_rows + 2 * columns) // threads)
    yield "That is not a whole number of registers. Which way does it round?", q_rows * (k_rows + columns) / threads
    yield "A part of a register is one register.", q_rows * (k_rows + columns) // threads
    apart = -(-q_rows * k_rows // threads) - (-q_rows * columns // threads)
    yield "Round once: scores and accumulator together.", apart
    yield "The accumulator lives at the same time as the scores.", -(-q_rows * k_rows // threads)
    yield "The scores live at the same time as the accumulator.", -(-q_rows * columns // threads)
    yield "Blocks are powers of two. How wide is a row of the accumulator?", -(-q_rows * (k_rows + head_dim) // threads)
    yield "Scores and sums are float32, whatever the elements are.", -(-q_rows * (k_rows + columns) * size // (4 * threads))
    for share in (1, 2):
        yield (
            "Scores and accumulator are float32, whatever the elements are.",
            -(-q_rows * (k_rows + columns) * size // (share * threads)),
        )
    yield "A register has 32 bits. One for each number, or one for each byte?", 4 * q_rows * (k_rows + columns) / threads
    yield "A warp has 32 threads.", -(-q_rows * (k_rows + columns) // warps)


def _limits(tile: TileChoice, gpu: Gpu, wanted: dict[str, Any]) -> Iterator[tuple[str, float]]:
    yield "An SM has 65,536 registers. What is left for a thread of this many?", MOST
    yield "An instruction can name 255 registers.", REGISTERS // (WARP * tile.warps)
    yield "An instruction can name 255 registers.", 256


def _must_spill(got: Any, wanted: dict[str, Any]) -> str:
    if not isinstance(got, bool):
        return "Python's own True or False."
    if wanted["registers"] == wanted["register_limit"]:
        return "As many as there are: is that too many?"
    return "It is about registers, and about them alone." if got else "More registers than the limit must go somewhere."


def _traffic(tile: TileChoice, gpu: Gpu, wanted: dict[str, Any]) -> Iterator[tuple[str, float]]:
    right = wanted["flops_per_byte"]
    if tile.element_bytes != 2:
        yield "How large is an element? tile.element_bytes says it.", 2 * tile.block_q / 2
    if tile.head_dim != _padded(tile.head_dim):
        yield "Both counts have the same d.", right * _padded(tile.head_dim) / tile.head_dim
        yield "Both counts have the same d.", right * tile.head_dim / _padded(tile.head_dim)
    yield "A tile of keys is followed by one of values.", 2 * right
    yield "Two products, and two FLOPs for each multiplication and addition.", right / 2
    yield "Whose number cancels, that of the queries or that of the keys?", 2 * tile.block_k / tile.element_bytes
    yield (
        "For each byte of keys and values: the queries come once, for a whole walk.",
        (4 * tile.block_q * tile.block_k / (tile.element_bytes * (2 * tile.block_k + tile.block_q))),
    )


def _cycles(tile: TileChoice, gpu: Gpu, wanted: dict[str, Any]) -> Iterator[tuple[str, float]]:
    right = wanted["product_cycles"]
    if tile.element_bytes == 2 and tile.head_dim == _padded(tile.head_dim):
        yield TWICE, 2 * right
    if tile.element_bytes == 2:
        yield "There are two products. And flops_per_cycle, as it stands, is that of elements of 2 bytes.", right / 2
    yield "There are two products.", right / 2
    for rounded in (right // 1, -(-right // 1)):
        yield "It is not rounded.", rounded
    yield "Two products, and two FLOPs for each multiplication and addition.", right / 4
    padding = "The tensor cores multiply what is padded, too."
    yield padding, right * tile.head_dim / _padded(tile.head_dim)
    yield "flops_per_cycle is that of elements of 2 bytes.", right * 2 / tile.element_bytes
    yield "Half the bytes, twice the FLOPs in a cycle.", right * 4 / tile.element_bytes**2


def _exps(tile: TileChoice, gpu: Gpu, wanted: dict[str, Any]) -> Iterator[tuple[str, float]]:
    if tile.element_bytes == 1:
        yield "Exponentials are of float32 numbers, whatever the elements are.", wanted["exp_cycles"] / 2
    for rounded in (wanted["exp_cycles"] // 1, -(-wanted["exp_cycles"] // 1)):
        yield "It is not rounded.", rounded
    yield "One exponential for each score of the tile.", wanted["exp_cycles"] * _padded(tile.head_dim)
    yield "One exponential for each score of the tile.", tile.block_k / gpu.exps_per_cycle
    yield "How many exponentials in a cycle? gpu says it.", tile.block_q * tile.block_k / 16


def _programs(tile: TileChoice, gpu: Gpu, wanted: dict[str, Any]) -> Iterator[tuple[str, float]]:
    threads = WARP * tile.warps
    registers = min(wanted["registers"], wanted["register_limit"])
    shared = gpu.shared_sm_bytes // (wanted["shared_bytes"] + RESERVED)
    by_registers, by_threads = REGISTERS // (registers * threads), gpu.threads_sm // threads
    if wanted["refused"]:
        yield "What cannot be launched shares nothing.", min(max(shared, 1), by_registers, by_threads)
        yield "What cannot be launched shares nothing.", min(shared, by_registers, by_threads)
        return
    yield (
        "The system keeps 1024 bytes for each program.",
        min(gpu.shared_sm_bytes // wanted["shared_bytes"], by_registers, by_threads),
    )
    whole = "What one program can have, or what the SM has for all of them?"
    yield whole, min(gpu.shared_block_bytes // (wanted["shared_bytes"] + RESERVED), by_registers, by_threads)
    yield "Do registers suffice for all of them?", min(shared, by_threads)
    yield "Can an SM hold that many threads?", min(shared, by_registers)
    yield "Shared memory is not the only thing that runs out.", shared
    yield (
        "A thread never has more than its limit; the rest spills, and the program runs.",
        min(shared, REGISTERS // (wanted["registers"] * threads), by_threads),
    )
    yield (
        "Whole programs.",
        min(
            gpu.shared_sm_bytes / (wanted["shared_bytes"] + RESERVED), REGISTERS / (registers * threads), gpu.threads_sm / threads
        ),
    )
    lanes = tile.warps
    yield "A warp has 32 threads.", min(shared, REGISTERS // (registers * lanes), gpu.threads_sm // lanes)
    limit = REGISTERS // (wanted["register_limit"] * threads)
    yield "A thread takes what it needs, up to its limit.", min(shared, limit, by_threads)
    yield "How many threads can an SM hold? gpu.threads_sm says it.", min(shared, by_registers, 2048 // threads)


def _refused(tile: TileChoice, gpu: Gpu, got: Any, wanted: dict[str, Any]) -> str:
    if not isinstance(got, (list, tuple)):
        return "A list of names; an empty one if nothing keeps it from being launched."
    extra, missing = set(map(str, got)) - set(wanted["refused"]), set(wanted["refused"]) - set(map(str, got))
    if unknown := extra - {"block_q", "block_k", "shared memory"}:
        return f"The names are block_q, block_k and shared memory; is {sorted(unknown)[0]!r} one that keeps it from a launch?"
    if "shared memory" in extra:
        exact = wanted["shared_bytes"] == gpu.shared_block_bytes
        return "All that a block can have is not too much." if exact else "shared_bytes is below shared_block_bytes here."
    if "shared memory" in missing:
        return "shared_bytes and shared_block_bytes: which one is larger, in bytes?"
    if missing:
        return "Name each block that is not a power of two, and shared memory besides if it does not suffice."
    return "64 is a power of two, 96 is not."
