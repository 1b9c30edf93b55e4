"""Ways of a prefix's blocks to host memory and back, for kv_tiers.py: the library's, and what it is compared with."""

from collections.abc import Callable
from typing import Any

import torch

OURS = "all blocks at once by HostCopies"


def fill(storage: Any) -> None:
    """Random numbers in every block."""
    for part in (part for layer in storage.tensors for part in layer):
        part.normal_()


def reloads(storage: Any, blocks: int) -> dict[str, Callable[[], None]]:
    """Ways to the same contents in the last `blocks` blocks of the storage, in reverse order; host copies are made here."""
    from course_lib.kvcache import HostCopies

    copies = HostCopies(storage)
    into = list(range(storage.num_blocks))[::-1][:blocks]
    kept = copies.copy_out(into)
    pageable = [content.clone() for content in kept]
    pinned = [_pinned(content, storage) for content in pageable]
    parts = [part for layer in storage.tensors for part in layer]
    # one piece: [tensors, blocks, values], so that each tensor's share lies together
    whole = _pinned(torch.stack(pageable).view(blocks, len(parts), -1).transpose(0, 1).contiguous(), storage)
    where = torch.tensor(into, device=storage.device)
    sizes = [part[0].numel() for part in parts]

    def block_by_block(contents: list[torch.Tensor]) -> Callable[[], None]:
        def call() -> None:
            for content, block in zip(contents, into, strict=True):
                moved = content.to(storage.device)
                for part, piece in zip(parts, moved.split(sizes), strict=True):
                    part[block] = piece.view(part.shape[1:])

        return call

    def at_once() -> None:
        moved = whole.to(storage.device, non_blocking=True)
        for part, piece in zip(parts, moved, strict=True):
            part[where] = piece.view(blocks, *part.shape[1:])

    return {
        OURS: lambda: copies.copy_in(kept, into),
        "block by block": block_by_block(pageable),
        "block by block, pinned": block_by_block(pinned),
        "in one piece, pinned": at_once,
    }


def saves(storage: Any, blocks: int) -> dict[str, Callable[[], None]]:
    """The same blocks out; what came out in the call before is dropped, as in a host tier that is full."""
    from course_lib.kvcache import HostCopies

    copies, held = HostCopies(storage), []
    which = list(range(storage.num_blocks))[::-1][:blocks]

    def call() -> None:
        held.clear()
        held.extend(copies.copy_out(which))

    return {OURS: call}


def _pinned(content: torch.Tensor, storage: Any) -> torch.Tensor:
    return content.pin_memory() if storage.device.type == "cuda" else content.clone()
