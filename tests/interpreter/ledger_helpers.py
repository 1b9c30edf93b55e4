"""What the ledger's tests share: tensors that start anywhere, sectors counted from intervals of bytes, and books that add up."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from hypothesis import settings

from course_lib.interpreter import LaunchLedger, Traffic, ledger

SECTOR = 32
QUICK = settings(deadline=None, max_examples=25)
ADDED = [name for name in Traffic.__dataclass_fields__ if not name.startswith("distinct")]


def at(offset: int, shape: tuple[int, ...], dtype: torch.dtype = torch.float32, pitch: int | None = None) -> torch.Tensor:
    """Ones that begin `offset` elements behind an address of whole sectors (torch aligns CPU memory to 64 bytes).

    pitch  elements from row to row of a matrix, default its width
    """
    pitch = pitch or (shape[-1] if shape else 1)
    strides = torch.empty((*shape[:-1], pitch), device="meta").stride() if shape else ()
    size = offset + 1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    base = torch.zeros(max(size, 1), dtype=torch.float32).to(dtype)
    assert base.data_ptr() % SECTOR == 0
    view = base.as_strided(shape, strides, offset)
    return view.fill_(1) if dtype.itemsize > 1 or not dtype.is_floating_point else view


def address(tensor: torch.Tensor) -> int:
    return tensor.data_ptr()


def sectors(intervals: Iterable[tuple[int, int]]) -> int:
    """Different 32-byte sectors under intervals (first byte, number of bytes); empty intervals touch none."""
    return len({n for first, size in intervals if size for n in range(first // SECTOR, (first + size - 1) // SECTOR + 1)})


def rows(tensor: torch.Tensor, lines: Iterable[int], start: int, stop: int) -> list[tuple[int, int]]:
    """Byte intervals of columns start..stop of some rows of a matrix whose columns (or else whose rows) lie side by side."""
    size, (pitch, step) = tensor.element_size(), tensor.stride()
    if step == 1 or stop - start < 2:
        return [(tensor.data_ptr() + (i * pitch + start * step) * size, max(0, stop - start) * size) for i in lines]
    return [(tensor.data_ptr() + (i * pitch + j * step) * size, size) for i in lines for j in range(start, stop)]


def blocks(size: int, block: int) -> list[range]:
    """range(size) cut into blocks: blocks(5, 2) is [0, 1], [2, 3], [4]."""
    return [range(start, min(start + block, size)) for start in range(0, size, block)]


def counted(function: Callable, *args: Any, **options: Any) -> LaunchLedger:
    """The one launch that function(*args, **options) makes; the books are checked on the way."""
    with ledger(pictures=True) as book:
        function(*args, **options)
    (launch,) = book.launches
    assert launch.complete
    check_books(launch)
    return launch


def check_books(launch: LaunchLedger) -> None:
    """Arguments, lines and sites each split the whole; nothing is negative; distinct is at most requested."""
    for parts in (launch.arguments, launch.lines, launch.sites):
        for name in ADDED:
            assert sum(getattr(part, name) for part in parts.values()) == getattr(launch.total, name), name
        for part in (*parts.values(), launch.total):
            assert all(getattr(part, name) >= 0 for name in Traffic.__dataclass_fields__)
            assert part.useful_loaded_bytes <= part.loaded_bytes
            assert part.useful_stored_bytes <= part.stored_bytes
            assert part.distinct_loaded_bytes <= part.loaded_bytes
            assert part.distinct_stored_bytes <= part.stored_bytes + part.atomic_bytes
            assert part.distinct_loaded_bytes <= launch.total.distinct_loaded_bytes
            assert part.coalescing is None or 0 < part.coalescing <= 1
            assert part.rereads is None or part.rereads >= 1
    for site, repeats in launch.repeats.items():  # kept with pictures
        traffic = launch.sites[site]
        assert repeats.inside + repeats.across == traffic.useful_loaded_bytes - traffic.distinct_loaded_bytes
        assert min(repeats.inside, repeats.across) >= 0
    assert sum(launch.dot_lines.values()) == sum(launch.dot_flops.values())


def line(launch: LaunchLedger, text: str) -> Traffic:
    """The traffic of the one source line that contains `text`."""
    (found,) = [traffic for place, traffic in launch.lines.items() if text in place.text]
    return found
