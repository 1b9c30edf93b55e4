"""Paged attention the slow and obvious way: gather each row's blocks, then attend over contiguous K and V.

The gather is the bridge that lets any attention read a paged cache; it moves every live byte twice more (read the pool, write
the copy) before attention reads it. `paged_reference` is the float64 oracle, `dense_paged` the fallback in torch.
"""

import math
from typing import Any

import torch
from torch import Tensor

from .dense import dense_attention
from .reference import attention_reference


def gather_blocks(blocks: Tensor, table: Tensor, length: int) -> Tensor:
    """One row's tokens in order: a pool [num_blocks, block_size, ...] and a table [max_blocks] -> [length, ...].

    ValueError for a table too short, or an entry outside the pool: torch would read -1 as the last block.
    """
    used = -(-length // blocks.shape[1])
    if used > len(table):
        raise ValueError(f"{length} tokens need {used} blocks of {blocks.shape[1]}, the table has {len(table)}")
    outside = [block for block in table[:used].tolist() if not 0 <= block < blocks.shape[0]]
    if outside:
        raise ValueError(f"the table names block {outside[0]}, and the pool has blocks 0..{blocks.shape[0] - 1}")
    return blocks[table[:used].long()].flatten(0, 1)[:length]


def paged_reference(
    q: Tensor, cu_q: Any, k_blocks: Tensor, v_blocks: Tensor, block_tables: Tensor, kv_lengths: Any,
    *, causal: bool = True, scale: float | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Packed q [total_q, q_heads, head_dim] -> out of the same shape and lse [q_heads, total_q], both float64."""
    out = torch.zeros(q.shape, dtype=torch.float64, device=q.device)
    lse = torch.full((q.shape[1], q.shape[0]), -math.inf, dtype=torch.float64, device=q.device)
    bounds = [int(x) for x in cu_q]
    for row, length in enumerate(int(x) for x in kv_lengths):
        rows = slice(bounds[row], bounds[row + 1])
        k, v = (gather_blocks(blocks, block_tables[row], length)[None] for blocks in (k_blocks, v_blocks))
        one = attention_reference(q[None, rows], k, v, causal=causal, scale=scale)
        out[rows], lse[:, rows] = one[0][0], one[1][0]
    return out, lse


def decode_reference(
    q: Tensor, k_blocks: Tensor, v_blocks: Tensor, block_tables: Tensor, kv_lengths: Any, *, scale: float | None = None
) -> tuple[Tensor, Tensor]:
    """q [rows, q_heads, head_dim], one token for each row -> out, and lse [rows, q_heads], float64."""
    every = range(len(q) + 1)
    out, lse = paged_reference(q, every, k_blocks, v_blocks, block_tables, kv_lengths, causal=False, scale=scale)
    return out, lse.T.contiguous()


def dense_decode(
    q: Tensor, k_blocks: Tensor, v_blocks: Tensor, block_tables: Tensor, kv_lengths: Tensor, scale: float
) -> tuple[Tensor, Tensor]:
    """decode_reference for all rows at once, in float32 and without a look at a value: gathers whole tables.

    Blocks beyond a row's tokens are read from block 0 in place of -1, and what they hold is set to zero.
    """
    if not k_blocks.shape[0]:  # a pool without blocks holds no token
        return torch.zeros_like(q), torch.full(q.shape[:2], -math.inf, device=q.device)
    block_size = k_blocks.shape[1]
    entries = block_tables.shape[1]
    place = torch.arange(entries * block_size, device=q.device)
    live = place[None, :] < kv_lengths.to(q.device)[:, None]
    table = torch.where(live[:, ::block_size], block_tables, 0).long()

    def gathered(blocks: Tensor) -> Tensor:
        whole = blocks[table].flatten(1, 2).float()
        return whole.masked_fill(~live[:, :, None, None], 0.0)

    grouped = q.float().unflatten(1, (k_blocks.shape[2], -1))
    scores = torch.einsum("bhgd,bkhd->bhgk", grouped, gathered(k_blocks)) * scale
    scores = scores.masked_fill(~live[:, None, None, :], -math.inf)
    largest = scores.amax(-1, keepdim=True) if entries else scores.new_full((*scores.shape[:3], 1), -math.inf)
    largest = largest.masked_fill(largest == -math.inf, 0.0)
    p = torch.exp(scores - largest)
    total = p.sum(-1, keepdim=True)
    out = torch.einsum("bhgk,bkhd->bhgd", p, gathered(v_blocks)) / total.masked_fill(total == 0, 1.0)
    lse = (largest + total.log()).squeeze(-1)
    return out.flatten(1, 2).to(q.dtype), lse.flatten(1, 2)


def dense_paged(
    q: Tensor, cu_q: Any, k_blocks: Tensor, v_blocks: Tensor, block_tables: Tensor, kv_lengths: Any, causal: bool, scale: float
) -> tuple[Tensor, Tensor]:
    """paged_reference row by row in float32; looks at cu_q and kv_lengths, so on a GPU it waits."""
    out = torch.zeros_like(q)
    lse = torch.full((q.shape[1], q.shape[0]), -math.inf, dtype=torch.float32, device=q.device)
    bounds = [int(x) for x in cu_q]
    for row, length in enumerate(int(x) for x in kv_lengths):
        rows = slice(bounds[row], bounds[row + 1])
        k, v = (gather_blocks(blocks, block_tables[row], length)[None] for blocks in (k_blocks, v_blocks))
        one, one_lse = dense_attention(q[None, rows], k, v, causal=causal, scale=scale, with_lse=True)
        assert one_lse is not None
        out[rows], lse[:, rows] = one[0], one_lse[0]
    return out, lse
