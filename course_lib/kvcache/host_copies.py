"""Moves a block between KVStorage and host memory: the copy_out and copy_in of host_tier.py, tiered_cache.py and swap.py.

One copy all layers' keys and values of the block are gathered into one run of values on the device, which crosses the link once.
         With a tensor for each layer, the alternative is 2 * layers small copies, each with a start of its own (swap_cost.py).
Waits    both calls return when the content is where it belongs. Overlap with compute is left to who owns the streams.
"""

from math import prod
from typing import TYPE_CHECKING

from .errors import KVCacheError

if TYPE_CHECKING:
    from torch import Tensor

    from .storage import KVStorage


class HostCopies:
    """`copied_bytes` counts both directions."""

    def __init__(self, storage: "KVStorage") -> None:
        self.storage = storage
        self.copied_bytes = 0

    def copy_out(self, block: int) -> "Tensor":
        """-> [values] on the CPU, bytes_per_block in all: layer by layer, keys before values."""
        import torch

        gathered = torch.cat([part[block].flatten() for part in self._parts(block)])
        self.copied_bytes += self.storage.bytes_per_block
        return gathered.cpu()

    def copy_in(self, content: "Tensor", block: int) -> None:
        """What copy_out returned, into a block of the same storage or of one with the same sizes."""
        parts = self._parts(block)
        sizes = [prod(part.shape[1:]) for part in parts]
        if content.shape != (sum(sizes),) or content.dtype != self.storage.dtype:
            raise KVCacheError(
                f"content of shape {tuple(content.shape)}, {content.dtype}; a block of this storage is ({sum(sizes)},), "
                f"{self.storage.dtype}"
            )
        moved = content.to(self.storage.device)
        for part, piece in zip(parts, moved.split(sizes), strict=True):
            part[block] = piece.view(part.shape[1:])
        self.copied_bytes += self.storage.bytes_per_block

    def _parts(self, block: int) -> "list[Tensor]":
        if not 0 <= block < self.storage.num_blocks:
            raise KVCacheError(f"block {block} in a copy; there are 0 to {self.storage.num_blocks - 1}")
        return [part for layer in self.storage.tensors for part in layer]
