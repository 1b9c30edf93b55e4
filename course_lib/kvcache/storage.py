"""The tensors behind the block numbers: keys and values of every layer, in blocks that all sequences share.

Layout   for each layer one tensor for keys and one for values, [num_blocks, block_size, kv_heads, head_dim] each; with MLA one
         tensor in all. Flattened to [num_blocks * block_size, ...], row block * block_size + slot is one token
         (BlockTables.slots).
Contract memory that nobody wrote may hold anything, NaN included. Readers must not let it reach a result.
Not here which block is whose (block_pool.py, block_tables.py).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from .block_pool import BlockPool
from .errors import KVCacheError

if TYPE_CHECKING:
    import torch
    from torch import Tensor


class Sizes(Protocol):
    """What storage asks of a model's config: (kv_heads, head_dim) for keys and for values, or MLA's one shape."""

    layers: int

    @property
    def cache_shapes(self) -> tuple[tuple[int, ...], ...]: ...


class KVStorage:
    """One allocation for all layers' blocks."""

    def __init__(
        self, num_blocks: int, block_size: int, *, layers: int, shapes: Sequence[tuple[int, ...]],
        dtype: "torch.dtype | None" = None, device: "torch.device | str" = "cpu", budget_bytes: int | None = None,
    ) -> None:  # fmt: skip
        """shapes: of what a token keeps in a layer, ((kv_heads, head_dim), (kv_heads, head_dim)) for keys and values.

        budget_bytes: how much memory may be taken; None: what the device has free. KVCacheError, with the numbers, when it does
        not fit. dtype None: bfloat16.
        """
        import torch

        if min(num_blocks, block_size, layers, *(n for shape in shapes for n in shape)) < 1:
            raise KVCacheError(f"{num_blocks} blocks of {block_size} tokens, {layers} layers of {shapes}; use at least 1 of each")
        self.num_blocks, self.block_size, self.layers, self.shapes = num_blocks, block_size, layers, tuple(map(tuple, shapes))
        self.dtype, self.device = torch.bfloat16 if dtype is None else dtype, torch.device(device)
        self.bytes_per_block = bytes_of_a_block(block_size, layers, self.shapes, self.dtype.itemsize)
        room, whose = (free_bytes(self.device), "free") if budget_bytes is None else (budget_bytes, "the budget")
        if room is not None and self.total_bytes > room:
            raise KVCacheError(
                f"{num_blocks} blocks of {self.bytes_per_block} bytes are {self.total_bytes / 1e9:.3f} GB, {whose} on "
                f"{self.device} is {room / 1e9:.3f} GB; use at most {room // self.bytes_per_block} blocks"
            )
        with torch.inference_mode(False):  # else nobody outside of it could write
            self.tensors = [
                tuple(torch.empty(num_blocks, block_size, *shape, dtype=self.dtype, device=self.device) for shape in self.shapes)
                for _ in range(layers)
            ]

    @classmethod
    def of(
        cls, config: Sizes, pool: BlockPool, *, dtype: "torch.dtype | None" = None, device: "torch.device | str" = "cpu",
        budget_bytes: int | None = None,
    ) -> "KVStorage":  # fmt: skip
        """Memory for every block of a pool, in a model's sizes."""
        return cls(pool.num_blocks, pool.block_size, layers=config.layers, shapes=config.cache_shapes, dtype=dtype, device=device,
                   budget_bytes=budget_bytes)  # fmt: skip

    @property
    def total_bytes(self) -> int:
        return self.num_blocks * self.bytes_per_block

    @property
    def bytes_per_token(self) -> int:
        """Of one token over all layers."""
        return self.bytes_per_block // self.block_size

    def keys(self, layer: int) -> "Tensor":
        """[num_blocks, block_size, kv_heads, head_dim]"""
        return self.tensors[layer][0]

    def values(self, layer: int) -> "Tensor":
        """[num_blocks, block_size, kv_heads, head_dim]; MLA keeps none beside its latents."""
        return self.tensors[layer][1]

    def write(self, layer: int, slots: "Tensor", new: "Sequence[Tensor]") -> None:
        """new: [tokens, *shape] each, to the rows `slots` (int64 [tokens], each at most once). Values only: no gradient flows.

        KVCacheError for a slot outside the storage; on a GPU nobody looks.
        """
        self._known(slots)
        for blocks, values in zip(self.tensors[layer], new, strict=True):
            blocks.flatten(0, 1)[slots] = values.detach().to(self.dtype)

    def read(self, layer: int, slots: "Tensor", dead: "Tensor | None" = None) -> "tuple[Tensor, ...]":
        """The rows `slots` (int64, any shape) -> [*slots.shape, *shape] each. dead: bool like slots, zeros are read there."""
        self._known(slots if dead is None or self.device.type != "cpu" else slots[~dead])
        found = [blocks.flatten(0, 1)[slots] for blocks in self.tensors[layer]]
        if dead is not None:
            found = [values.masked_fill(dead[..., None, None], 0) for values in found]
        return tuple(found)

    def _known(self, slots: "Tensor") -> None:
        """Torch counts a row -1 from the end, and a missing block is written -1."""
        if slots.device.type == "cpu" and slots.numel():
            places = self.num_blocks * self.block_size
            low, high = (int(bound) for bound in slots.aminmax())
            if low < 0 or high >= places:
                raise KVCacheError(f"slots {low} to {high} of a storage of {places}; use 0 to {places - 1}")

    def copy_blocks(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Copy (source, destination) blocks in all layers, with the result of doing one pair after the other."""
        import torch

        for block in (block for pair in pairs for block in pair):
            if not 0 <= block < self.num_blocks:
                raise KVCacheError(f"block {block} in a copy; there are 0 to {self.num_blocks - 1}")
        for run in _independent_runs(pairs):
            sources, targets = (torch.tensor(blocks, device=self.device) for blocks in zip(*run, strict=True))
            for blocks in (blocks for layer in self.tensors for blocks in layer):
                blocks[targets] = blocks[sources]


def bytes_of_a_block(block_size: int, layers: int, shapes: Sequence[tuple[int, ...]], bytes_per_value: int) -> int:
    """course-target, bf16, blocks of 16 tokens: 16 * 6 layers * 2 * (4 heads * 64) * 2 bytes = 98304."""
    values = 0
    for shape in shapes:
        size = 1
        for n in shape:
            size *= n
        values += size
    return block_size * layers * values * bytes_per_value


def free_bytes(device: "torch.device") -> int | None:
    """Memory that can be taken now on a device; None where nobody says."""
    import torch

    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    try:
        with open("/proc/meminfo") as file:
            return next((int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable:")), None)
    except OSError:
        return None


def _independent_runs(pairs: Sequence[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Cut where a pair reads or writes what an earlier one of its run has written, so that a run can be copied at once."""
    runs: list[list[tuple[int, int]]] = []
    written: set[int] = set()
    for source, target in pairs:
        if not runs or source in written or target in written:
            runs.append([])
            written = set()
        runs[-1].append((source, target))
        written.add(target)
    return runs
