"""Batches for copies of blocks: each copy has a start of its own, so the tiers hand over as many blocks at once as they can.

Contract copy_out(block) -> content and copy_in(content, block) move one block, and anybody may write such a pair. One that is
         marked with `@in_batches` takes lists as well: copy_out(blocks) -> contents, copy_in(contents, blocks), and then gets
         nothing else from host_tier.py, tiered_cache.py and swap.py. HostCopies is.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from .host_tier import HostTier
    from .radix_node import Page

CopyOut = Callable[[int], Any]
CopyIn = Callable[[Any, int], None]
Copy = TypeVar("Copy", bound=Callable[..., Any])
BATCH_BLOCKS = 64  # that leave together: so much host memory comes on top of a tier's budget while they do


def in_batches(copy: Copy) -> Copy:
    """This copy_out or copy_in takes lists, too."""
    copy.in_batches = True
    return copy


def copy_all_out(copy_out: CopyOut, blocks: Sequence[int]) -> list[Any]:
    """The content of each block."""
    if not len(blocks):
        return []
    return copy_out(list(blocks)) if getattr(copy_out, "in_batches", False) else [copy_out(block) for block in blocks]


def copy_all_in(copy_in: CopyIn, contents: Sequence[Any], blocks: Sequence[int]) -> None:
    """contents[i] into blocks[i]."""
    if getattr(copy_in, "in_batches", False):
        if len(blocks):
            copy_in(contents, blocks)
        return
    for content, block in zip(contents, blocks, strict=True):
        copy_in(content, block)


class Leaving:
    """Blocks on their way out of a cache into a host tier. `flush` before any of them can be written by who gets it next.

    An eviction only turns them into free numbers: what is in them stays until somebody allocates, so they can leave together
    at its end. When a copy fails, those of the batch have lost their content, and are computed again; they are in neither tier.
    """

    def __init__(self, host: "HostTier") -> None:
        self._host = host
        self._waiting: list[tuple[Sequence[Page], int]] = []

    def add(self, path: "Sequence[Page]", block: int, copy_out: CopyOut) -> None:
        self._waiting.append((path, block))
        if len(self._waiting) == BATCH_BLOCKS:
            self.flush(copy_out)

    def flush(self, copy_out: CopyOut) -> None:
        waiting, self._waiting = self._waiting, []  # first: after an error these blocks may be anybody's
        if waiting:
            self._host.keep_all(waiting, copy_out)
