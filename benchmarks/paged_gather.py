"""What reading through a block table costs: against a gather before the attention, by size of block, and by where K and V begin.

32 query heads over 8 KV heads of 128, bf16, random data, cold L2. Rates count the bytes of K and V once, whatever moved them.
gather   torch.index_select copies each row's blocks to one contiguous piece, which our own kernel without a table then reads: K
         and V are read, written and read again, three times the bytes
blocks   one memory, cut into blocks of 8 to 256, in random order (the library promises 16, 32 and 64; its kernel takes all)
begin    K and V moved by some bytes from where an allocator puts them. The compiler is told of multiples of 16 bytes only
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch

from course_lib.attention import paged_checks

from ._paged_setup import BUDGET, HEAD_DIM, KV_HEADS, Case, case, rates, read_roof
from ._paged_setup import SOURCES as SETUP_SOURCES
from ._peers import Row, alone, check_alike, in_turns, rows_beside, run

SOURCES = ("benchmarks/paged_gather.py", *SETUP_SOURCES)
GATHERED = ((64, 8192), (32, 4096), (1, 32768))
SWEPT = ((64, 8192), (32, 4096))
BLOCK_SIZES = (8, 16, 32, 64, 128, 256)
MOVED = (32, 4096)
OFFSETS_BYTES = (2, 8, 16, 64)
ROUNDS, REPEATS = 7, 5


def measure() -> Iterator[Row]:
    roof = read_roof()
    yield alone("read of 1 GiB", "GB/s", roof)
    for shape in GATHERED:
        yield from gather_rows(case(*shape, 16), roof)
        torch.cuda.empty_cache()
    for shape in SWEPT:
        yield from block_rows(case(*shape, 16), roof)
        torch.cuda.empty_cache()
    yield from begin_rows(case(*MOVED, 16), roof)


def gather(made: Case) -> tuple[Callable[[], None], Callable[[], Any]]:
    """(the copy alone, the copy and then attention over what it made)."""
    flat = made.tables.flatten().long()
    copies = [torch.empty_like(x) for x in (made.k, made.v)]
    attend = replace(made, k=copies[0], v=copies[1]).contiguous()

    def copy() -> None:
        for x, to in zip((made.k, made.v), copies, strict=True):
            torch.index_select(x, 0, flat, out=to)

    def both() -> Any:
        copy()
        return attend()

    return copy, both


def gather_rows(made: Case, roof: float) -> Iterator[Row]:
    ours, _ = made.ours()
    copy, both = gather(made)
    check_alike(f"{made.words}: decode through the table and after a gather", ours(), both(), BUDGET)
    name = "a gather, then attention"
    calls = {"ours": ours, name: both, "own kernel, contiguous": made.contiguous(), "the gather alone": copy}
    seconds = in_turns(calls, ROUNDS, REPEATS)
    copying, low, high = rates(seconds.pop("the gather alone"), 2 * made.kv_bytes)
    yield from rows_beside(
        made.words, "GB/s", made.kv_bytes / 1e9, seconds, roof=roof, kv_bytes=made.kv_bytes, gathered_bytes=3 * made.kv_bytes
    )
    yield alone(f"{made.words}, the gather alone, read and written", "GB/s", copying, [low, high])


def cut(made: Case, size: int) -> Case:
    """The same memory in blocks of another size, in an order of its own."""
    k, v = (x.view(-1, size, KV_HEADS, HEAD_DIM) for x in (made.k, made.v))
    order = torch.randperm(len(k), generator=torch.Generator().manual_seed(size))
    return replace(made, block_size=size, k=k, v=v, tables=order.to(torch.int32).view(made.rows, -1).to(made.k.device))


def any_block_size() -> None:
    """The kernel takes every power of two; what the library promises, and checks, are three of them."""
    paged_checks.BLOCK_SIZES = BLOCK_SIZES


def block_rows(made: Case, roof: float) -> Iterator[Row]:
    any_block_size()
    calls = {size: cut(made, size).ours()[0] for size in BLOCK_SIZES}
    seconds = in_turns({str(size): call for size, call in calls.items()}, ROUNDS, REPEATS)
    for size in BLOCK_SIZES:
        beside = {"ours": seconds[str(size)], "blocks of 16": seconds["16"]}
        words = f"{made.rows} x {made.tokens}, blocks of {size}"
        yield from rows_beside(words, "GB/s", made.kv_bytes / 1e9, beside, roof=roof, block_size=size)


def moved(made: Case, offset_bytes: int) -> Case:
    """K and V that begin so many bytes behind an address that an allocator gives."""
    shifted = []
    for x in (made.k, made.v):
        start = offset_bytes // x.element_size()
        memory = torch.empty(x.numel() + start, dtype=x.dtype, device=x.device)
        memory[start:] = x.flatten()
        shifted.append(memory[start:].view(x.shape))
    return replace(made, k=shifted[0], v=shifted[1])


def begin_rows(made: Case, roof: float) -> Iterator[Row]:
    calls = {"0": made.ours()[0]} | {str(offset): moved(made, offset).ours()[0] for offset in OFFSETS_BYTES}
    right = calls["0"]().clone()
    for offset, call in calls.items():
        check_alike(f"{made.words}: K and V moved by {offset} bytes and not moved", call(), right, BUDGET)
    seconds = in_turns(calls, ROUNDS, REPEATS)
    for offset in OFFSETS_BYTES:
        beside = {"ours": seconds[str(offset)], "K and V as allocated": seconds["0"]}
        words = f"{made.words}, K and V begin {offset} bytes later"
        yield from rows_beside(words, "GB/s", made.kv_bytes / 1e9, beside, roof=roof, offset_bytes=offset)


if __name__ == "__main__":
    sys.exit(run("paged_gather", SOURCES, measure))
