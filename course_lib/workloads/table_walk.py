"""Blocks in memory, and tables of one level and of two that name them in the same random order: what table_walk_kernel reads.

Layout   words int32 [num_blocks, words]; flat int32 [rows, blocks]; directories int32 [rows, ceil(blocks / leaf)];
         leaves int32 [number, leaf], padded with -1, as in kvcache/two_level.py
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class TableWalk:
    """One shape of walk; `parts` programs share a row."""

    words: Tensor
    flat: Tensor
    directories: Tensor
    leaves: Tensor
    sums: Tensor

    @property
    def read_bytes(self) -> int:
        """Of the blocks; the tables come on top."""
        return self.words.nbytes

    def run(self, two_levels: bool) -> Tensor:
        """-> sums [rows, parts, words]: int32, wrapping around."""
        from .table_walk_kernel import table_walk_kernel

        rows, parts, words = self.sums.shape
        tables = self.directories if two_levels else self.flat
        table_walk_kernel[(rows, parts)](
            self.words, tables, self.leaves, self.sums, self.flat.shape[1], tables.shape[1],
            TWO_LEVELS=two_levels, LEAF=self.leaves.shape[1], PARTS=parts, WORDS=words, num_warps=8 if words >= 2048 else 1,
        )  # fmt: skip
        return self.sums


def table_walk(rows: int, blocks: int, words: int, leaf: int, parts: int, device: str = "cuda", seed: int = 0) -> TableWalk:
    """Every row has `blocks` blocks of `words` int32 (a power of two) anywhere in memory; leaves lie anywhere as well."""
    if words & (words - 1) or min(rows, blocks, words, leaf, parts) < 1:
        raise ValueError(
            f"{rows} rows, {blocks} blocks, leaves of {leaf}, {parts} parts: at least 1; {words} words: a power of two"
        )
    draw = torch.Generator(device=device).manual_seed(seed)
    flat = torch.randperm(rows * blocks, generator=draw, device=device).to(torch.int32).view(rows, blocks)
    width = -(-blocks // leaf)
    padded = torch.full((rows, width * leaf), -1, dtype=torch.int32, device=device)
    padded[:, :blocks] = flat
    order = torch.randperm(rows * width, generator=draw, device=device)  # number of each leaf
    leaves = torch.empty(rows * width, leaf, dtype=torch.int32, device=device)
    leaves[order] = padded.view(rows * width, leaf)
    contents = torch.randint(-(2**31), 2**31 - 1, (rows * blocks, words), generator=draw, device=device, dtype=torch.int32)
    sums = torch.empty(rows, parts, words, dtype=torch.int32, device=device)
    return TableWalk(contents, flat, order.to(torch.int32).view(rows, width), leaves, sums)
