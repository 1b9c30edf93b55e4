"""How long a read takes, for sizes from a page to a gigabyte: bandwidth against size, as the kernels of a decode step meet it.

A small read does not reach the bandwidth of a large one, and none takes less than it takes to start a kernel. So that the curve
holds for kernels in a CUDA graph, the reads are measured in one: back to back, each of memory that no cache holds.

Cold     each read of a graph has a place of its own in a pool that is far larger than L2; what one replay has read is driven out
         of L2 before the next.
Result   {"bytes": [...], "seconds": [...], "spread": [[low, high], ...], "gb_per_s": [...]}: plain data, sizes ascending.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .captured import captured

SMALLEST_BYTES, LARGEST_BYTES = 4 * 2**10, 2**30
POOL_BYTES = 2 * 2**30
READS_BYTES = 2 * 2**30  # a graph of large reads moves about this much: half a millisecond on the fastest memory of today
MOST_READS, FEWEST_READS = 400, 8
WARM_UP_FLUSHES = 300
L2_TIMES = 4  # a flush reads this many times the L2


@dataclass(frozen=True, slots=True)
class Reads:
    """The reads of one graph, all of one size: where each begins in the pool."""

    size_bytes: int
    starts: tuple[int, ...]


def read_sizes(largest_bytes: int = LARGEST_BYTES) -> list[int]:
    """Powers of two from 4 KiB up to the largest."""
    return [2**power for power in range(SMALLEST_BYTES.bit_length() - 1, largest_bytes.bit_length())]


def plan_reads(size_bytes: int, pool_bytes: int) -> Reads:
    """Reads of one size whose places in the pool do not overlap before the pool has been read once.

    4 KiB in a pool of 2 GiB: 400 reads, one behind the other. 1 GiB: 8 reads, first half and second half in turns.
    """
    places = pool_bytes // size_bytes
    if places < 2:
        raise ValueError(f"a pool of {pool_bytes:,} bytes has {places} place for {size_bytes:,}; two are needed to read in turns")
    count = min(MOST_READS, max(FEWEST_READS, READS_BYTES // size_bytes))
    return Reads(size_bytes, tuple((i % places) * size_bytes for i in range(count)))


def block_for(size_bytes: int) -> int:
    """int32 that one program reads: few for a small read, so that many processors take part, more for a large one."""
    return 1024 if size_bytes <= 2**21 else 4096


def measure_read_curve(
    sizes: Sequence[int] | None = None, *, repeats: int = 9, tell: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """Measure reads on the CUDA device in use. About 3 seconds for the default sizes.

    sizes  in bytes, multiples of 4096; the default leaves out what does not fit twice into a quarter of the free memory
    tell   called with a line of progress for each size
    Raises RuntimeError without a CUDA device, ValueError for a size that fits no pool.
    """
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError("a read curve is measured on a CUDA device, and this machine shows none")
    pool_bytes = _pool_bytes(torch.cuda.mem_get_info()[0], max(sizes) if sizes else LARGEST_BYTES)
    sizes = sorted(sizes or read_sizes(pool_bytes // 2))
    if odd := [size for size in sizes if size % SMALLEST_BYTES or size <= 0]:
        raise ValueError(f"sizes {odd} are no multiples of {SMALLEST_BYTES} bytes")
    pool = torch.randint(-(2**31), 2**31 - 1, (pool_bytes // 4,), device="cuda", dtype=torch.int32)
    sums = torch.empty(pool.numel() // block_for(0), device="cuda", dtype=torch.int32)
    flush = _flusher()
    for _ in range(WARM_UP_FLUSHES):  # the clocks of an idle device rise within some milliseconds
        flush()
    points = []
    for size in sizes:
        times = _graph_seconds(pool, sums, plan_reads(size, pool_bytes), repeats, flush)
        points.append((statistics.median(times), min(times), max(times)))
        if tell:
            tell(f"read of {size / 2**20:10.3f} MiB: {points[-1][0] * 1e6:9.2f} us, {size / points[-1][0] / 1e9:7.1f} GB/s")
    return {
        "bytes": [float(size) for size in sizes],
        "seconds": [middle for middle, _, _ in points],
        "spread": [[low, high] for _, low, high in points],
        "gb_per_s": [size / middle / 1e9 for size, (middle, _, _) in zip(sizes, points, strict=True)],
    }


def _pool_bytes(free_bytes: int, largest_bytes: int) -> int:
    """A power of two: twice the largest read, or 2 GiB, or a quarter of the free memory, whichever is least.

    80 GB free -> 2 GiB; 3 GB free -> 512 MiB, and the largest read is 256 MiB.
    """
    quarter = 2 ** int(math.log2(max(free_bytes // 4, 2 * SMALLEST_BYTES)))
    return min(max(POOL_BYTES, 2 * 2 ** math.ceil(math.log2(largest_bytes))), quarter)


def _flusher() -> Callable[[], None]:
    """A call that drives everything else out of L2. It reads: what it wrote would have to go to memory while others are timed."""
    import torch

    from .read_curve_kernel import read_kernel

    l2_bytes = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
    other = torch.zeros(max(L2_TIMES * l2_bytes, 2**20) // 4, device="cuda", dtype=torch.int32)
    block = 4096
    programs = -(-other.numel() // block)
    kept = torch.empty(programs, device="cuda", dtype=torch.int32)

    def flush() -> None:
        read_kernel[(programs,)](other, kept, other.numel(), BLOCK=block, num_warps=4)

    return flush


def _graph_seconds(pool: Any, sums: Any, reads: Reads, repeats: int, flush: Callable[[], Any]) -> list[float]:
    """Seconds of one read, from each replay of a graph that holds them all."""
    import torch

    from .read_curve_kernel import read_kernel

    count, block = reads.size_bytes // 4, block_for(reads.size_bytes)
    programs = -(-count // block)
    places = [pool[start // 4 : start // 4 + count] for start in reads.starts]

    def read(place: Any) -> None:
        read_kernel[(programs,)](place, sums, count, BLOCK=block, num_warps=4)

    def read_all() -> None:
        for place in places:
            read(place)

    replay = captured(read_all, warm_up=lambda: read(places[0]))
    replay()
    times = []
    for _ in range(repeats):
        flush()
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        replay()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / 1e3 / len(places))
    return times
