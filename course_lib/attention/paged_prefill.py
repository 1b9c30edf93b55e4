"""Attention of the new tokens of each row over its paged cache, new tokens included: prefill in one go or in chunks.

Layout   q, out packed [total_q, q_heads, head_dim]; cu_q int32 [rows + 1]: row i owns cu_q[i] .. cu_q[i + 1] - 1
         kv_lengths int32 [rows] counts the tokens in the cache, the new ones among them (paged_write comes first)
         lse float32 [q_heads, total_q]
Chunks   row i's new tokens are the last cu_q[i + 1] - cu_q[i] of its kv_lengths[i] tokens. A prompt of 5 in chunks of 3 and 2:
         the second call has 2 new tokens and kv_length 5, and its first sees 4 tokens.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from . import paged_checks as checks
from .checks import capability_of, launching_on
from .decode_plan import LOG2_E


@dataclass(frozen=True, slots=True)
class PrefillTile:
    """Rows (new tokens times the query heads of a KV head), tokens of the cache at a time, warps, buffers in flight + 1."""

    rows: int
    tokens: int
    warps: int
    stages: int


def prefill_tile(max_q: int, group: int, head_dim: int, capability: tuple[int, int] = (9, 0)) -> PrefillTile:
    """As many rows as a few tokens need: 1 token with 4 heads -> 16; 16 -> 64; 512 -> 64 on Hopper, 128 on an A100.

    Two programs of 64 rows share an SM of Hopper; an A100 has the registers for 128 rows of head_dim 128 and 32 tokens at a time.
    """
    need, large, hopper = max_q * group, head_dim > 128, (9, 0) <= capability < (12, 0)
    rows = max(16 if need <= 16 else 64 if need <= 64 or large or hopper else 128, 1 << (group - 1).bit_length())
    tokens = 32 if large or (rows >= 64 and not hopper) else 64
    return PrefillTile(rows, tokens, 8 if rows >= 128 or (rows >= 64 and large) else 4, 3)


def paged_prefill(
    q: Tensor, cu_q: Tensor, k_blocks: Tensor, v_blocks: Tensor, block_tables: Tensor, kv_lengths: Tensor, *,
    causal: bool = True, max_q: int | None = None, scale: float | None = None, return_lse: bool = False,
    out: Tensor | None = None, impl: str = "auto", tile: PrefillTile | None = None,
) -> Any:  # fmt: skip
    """-> out, or (out, lse). A new token without any token to see gives zeros and -inf.

    max_q  most new tokens of a row; with it a call on a GPU does not wait. Without it cu_q, lengths and tables are looked at
    impl   "triton" | "dense" | "auto" as in paged_decode; tile: in place of the one that `prefill_tile` takes
    Raises ValueError or TypeError with the numbers for shapes, and, where values are looked at, for lengths and tables.
    """
    checks.check_cache(q, k_blocks, v_blocks, block_tables)
    impl = checks.choose_impl(impl, q, k_blocks.shape[1], k_blocks, v_blocks)
    scale = checks.check_scale(scale, q.shape[-1])
    if q.ndim != 3:
        raise ValueError(f"q is packed [total_q, q_heads, head_dim], got {tuple(q.shape)}")
    checks.check_out(out, q, k_blocks, v_blocks)
    batch = block_tables.shape[0]
    for name, tensor, size in (("cu_q", cu_q, batch + 1), ("kv_lengths", kv_lengths, batch)):
        if tensor.dtype != torch.int32 or tensor.shape != (size,) or tensor.device != q.device:
            found = f"{tensor.dtype} {tuple(tensor.shape)} on {tensor.device}"
            raise ValueError(f"{name} is int32 [{size}] on {q.device} for {batch} block tables, got {found}")
    if max_q is None or not q.is_cuda:
        most = _check_values(q, cu_q, k_blocks, block_tables, kv_lengths)
        if max_q is not None and max_q < most:
            raise ValueError(f"max_q is {max_q}, and a row has {most} new tokens; those behind would not be computed")
        max_q = most
    elif len(q) and not (isinstance(max_q, int) and max_q > 0):
        raise ValueError(f"max_q is {max_q!r} for {len(q)} rows of q; give the most new tokens of a row, 1 at least")
    if impl == "triton":
        result, lse = _launch(q, cu_q, k_blocks, v_blocks, block_tables, kv_lengths, causal, max_q, scale, out, tile)
    else:
        from .paged_reference import dense_paged

        result, lse = dense_paged(q, cu_q, k_blocks, v_blocks, block_tables, kv_lengths, causal, scale)
        if out is not None:
            result = out.copy_(result)
    return (result, lse) if return_lse else result


def _check_values(q: Tensor, cu_q: Tensor, k_blocks: Tensor, block_tables: Tensor, kv_lengths: Tensor) -> int:
    bounds = cu_q.tolist()
    new = [after - before for before, after in pairwise(bounds)]
    if bounds[0] != 0 or bounds[-1] != q.shape[0] or any(n < 0 for n in new):
        raise ValueError(f"cu_q must rise from 0 to {q.shape[0]}, the rows of q; got {bounds}")
    checks.check_tables(block_tables, kv_lengths, k_blocks.shape[0], k_blocks.shape[1])
    return max(new, default=0)


def _launch(q, cu_q, k, v, tables, lengths, causal, max_q, scale, out, tile):  # type: ignore[no-untyped-def]
    head_dim, block_size, kv_heads = q.shape[2], k.shape[1], k.shape[2]
    checks.check_sizes(head_dim, block_size)
    checks.check_dtype(q.dtype, q.device)
    checks.check_group(q.shape[1] // kv_heads, head_dim)
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device) if out is None else out
    lse = torch.empty(q.shape[1], q.shape[0], dtype=torch.float32, device=q.device)
    if not q.shape[0] or not max_q:
        return out, lse
    from .paged_prefill_kernel import paged_prefill_kernel

    group = q.shape[1] // kv_heads
    tile = tile or prefill_tile(max_q, group, head_dim, capability_of(q) if q.is_cuda else (9, 0))
    positions = tile.rows // group
    grid = (-(-max_q // positions), kv_heads, tables.shape[0])
    with launching_on(q):
        paged_prefill_kernel[grid](
            q, k, v, tables, out, lse, cu_q, lengths,
            q.stride(0), q.stride(1), out.stride(0), out.stride(1), lse.stride(0),
            k.stride(0), k.stride(1), k.stride(2), tables.stride(0), scale * LOG2_E,
            GROUP=group, POSITIONS=positions, BLOCK_SIZE=block_size, CAUSAL=causal, HEAD_DIM=head_dim,
            BLOCK_D=1 << (head_dim - 1).bit_length(), ROWS=tile.rows, TILE=tile.tokens, STAGES=tile.stages, PRECISION="ieee",
            num_warps=tile.warps,
        )  # fmt: skip
    return out, lse
