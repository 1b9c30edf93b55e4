"""Moves blocks between KVStorage and host memory: the copy_out and copy_in of host_tier.py, tiered_cache.py and swap.py.

Batches  every copy and every kernel has a start of its own, and a block is 2 * layers pieces. So a batch is gathered on the
         device by one index_select for each tensor, crosses the link in one piece as far as its host slots lie together
         (host_slots.py: unless they had to fill gaps), and on the way back is scattered by one index_copy_ for each tensor.
Bound    the staging buffer on the device has `STAGING_BYTES` at most (one block at least), whatever the size of the batch: a
         larger one goes in chunks through the same buffer. Gathering takes one tensor's share of as much again. Both are taken
         for the call only.
Streams  everything runs on the current stream of the storage's device, so behind what that stream was given before (the kernels
         that wrote the blocks) and before what it is given next. Both calls wait for it: the host may read what copy_out
         returns, what copy_in was given may be dropped or written, and the blocks that left may be written by any stream. Who
         wrote the blocks on another stream lets the current one wait for that first.
Errors   what can be refused is refused before anything moves. When the device or memory fails in the middle, copy_out returns
         nothing and its slots are free again; copy_in may have written some of the blocks it was to fill, and no other.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import TYPE_CHECKING

from .copy_batches import in_batches
from .errors import KVCacheError, whole
from .host_slots import HostSlots

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from .storage import KVStorage

STAGING_BYTES = 64 << 20


class HostCopies:
    """`copied_bytes` counts both directions, `link_copies` how many pieces that were. `slots` is the host memory."""

    def __init__(self, storage: "KVStorage", *, staging_bytes: int = STAGING_BYTES) -> None:
        self.storage = storage
        self.copied_bytes = self.link_copies = 0
        values = [storage.block_size * prod(shape) for shape in storage.shapes] * storage.layers
        self._word = _word([n * storage.dtype.itemsize for n in values])
        self._values = sum(values)
        self._words = [n * storage.dtype.itemsize // self._word.itemsize for n in values]
        self._chunk = max(1, staging_bytes // storage.bytes_per_block)
        pinned = storage.device.type == "cuda"
        self.slots = HostSlots(sum(self._words), self._word, storage.dtype, rows=storage.num_blocks, pinned=pinned)

    @in_batches
    def copy_out(self, blocks: int | Sequence[int]) -> "Tensor | list[Tensor]":
        """For each block [values] on the CPU, bytes_per_block in all: layer by layer, keys before values."""
        if not isinstance(blocks, Sequence):
            return self.copy_out([blocks])[0]
        blocks = self._known(blocks)
        contents = self.slots.take(len(blocks))
        with self._waits():
            tensors = self._tensors()
            for staging, index, part in self._chunks(blocks):
                for tensor, piece in zip(tensors, staging.split(self._words, dim=1), strict=True):
                    piece.copy_(tensor.index_select(0, index))
                self._cross(contents[part], staging, out=True)
        self.copied_bytes += len(blocks) * self.storage.bytes_per_block
        return contents

    @in_batches
    def copy_in(self, contents: "Tensor | Sequence[Tensor]", blocks: int | Sequence[int]) -> None:
        """What copy_out returned, into blocks of the same storage or of one with the same sizes. No block twice."""
        if not isinstance(blocks, Sequence):
            contents, blocks = [contents], [blocks]
        blocks = self._known(blocks)
        if len(contents) != len(blocks) or len(set(blocks)) != len(blocks):
            raise KVCacheError(f"{len(contents)} contents for blocks {blocks}; use one for each block, and no block twice")
        for content in contents:
            self._fits(content)
        order = sorted(range(len(blocks)), key=lambda at: contents[at].data_ptr())  # neighbours in host memory come together
        contents, blocks = [contents[at] for at in order], [blocks[at] for at in order]
        with self._waits():
            tensors = self._tensors()
            for staging, index, part in self._chunks(blocks):
                self._cross(contents[part], staging, out=False)
                for tensor, piece in zip(tensors, staging.split(self._words, dim=1), strict=True):
                    tensor.index_copy_(0, index, piece)
        self.copied_bytes += len(blocks) * self.storage.bytes_per_block

    def _known(self, blocks: Sequence[int]) -> list[int]:
        blocks = [whole(block, "block") for block in blocks]
        for block in blocks:
            if not 0 <= block < self.storage.num_blocks:
                raise KVCacheError(f"block {block} in a copy; there are 0 to {self.storage.num_blocks - 1}")
        return blocks

    def _fits(self, content: "Tensor") -> None:
        if content.shape != (self._values,) or content.dtype != self.storage.dtype:
            raise KVCacheError(
                f"content of shape {tuple(content.shape)}, {content.dtype}; a block of this storage is ({self._values},), "
                f"{self.storage.dtype}"
            )

    def _tensors(self) -> "list[Tensor]":
        """Each of the storage's as [blocks, words]: whole words, so that a bit pattern is moved and not a number."""
        return [part.view(part.shape[0], -1).view(self._word) for layer in self.storage.tensors for part in layer]

    @contextmanager
    def _waits(self) -> Iterator[None]:
        """For the current stream, also behind an error: a copy under way must not find its host slot given to somebody else."""
        import torch

        stream = torch.cuda.current_stream(self.storage.device) if self.storage.device.type == "cuda" else None
        try:
            yield
        finally:
            if stream is not None:
                stream.synchronize()

    def _chunks(self, blocks: list[int]) -> "Iterator[tuple[Tensor, Tensor, slice]]":
        """(staging [blocks of the chunk, words], their numbers on the device, which of the batch they are)."""
        import torch

        if not blocks:
            return
        numbers = torch.tensor(blocks, device=self.storage.device)
        rows = min(self._chunk, len(blocks))
        staging = torch.empty(rows, sum(self._words), dtype=self._word, device=self.storage.device)
        for start in range(0, len(blocks), rows):
            part = slice(start, min(start + rows, len(blocks)))
            yield staging[: part.stop - start], numbers[part], part

    def _cross(self, contents: "Sequence[Tensor]", staging: "Tensor", *, out: bool) -> None:
        """Between contents[i] and staging[i], as many neighbours at once as there are."""
        start = 0
        while start < len(contents):
            stop, first = start + 1, self.slots.row_of(contents[start])
            if first is None:  # of another HostCopies, or a copy that the caller made
                host, device = contents[start], staging[start].view(self.storage.dtype)
            else:
                while stop < len(contents) and self.slots.row_of(contents[stop]) == first.after(stop - start):
                    stop += 1
                host, device = self.slots.words_of(first, stop - start), staging[start:stop]
            (host if out else device).copy_(device if out else host, non_blocking=True)
            self.link_copies += 1
            start = stop


def _word(sizes: Sequence[int]) -> "torch.dtype":
    """The widest integer that pieces of so many bytes are made of."""
    import torch

    words = (torch.int64, torch.int32, torch.int16, torch.uint8)
    return next(word for word in words if not any(size % word.itemsize for size in sizes))
