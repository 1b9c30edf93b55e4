"""Decode of rows that share a prefix: read the prefix once for all of them, and each row's own tokens as usual.

64 rows with 16384 shared tokens and 256 of their own: flat decode reads 64 * 16640 tokens. The queries of all rows become the
rows of tiles over the shared blocks (decode_kernel.py with many queries an item). With 4 query heads for a KV head a tile of 128
rows takes 32 queries, so that the prefix is read twice: 2 * 16384 + 64 * 256 tokens, 22 times fewer. Both results are merged by
their lse, as splits are.
"""

from typing import Any

import torch
from torch import Tensor

from . import paged_checks as checks
from .checks import launching_on
from .decode import without_length
from .decode_plan import DecodePlan
from .decode_tile import DecodeTile


class CascadePlan:
    """Two DecodePlans: one row of `rows` queries over the shared tokens, and each row over its own."""

    def __init__(
        self, kv_lengths: Any, shared_tokens: int, *, q_heads: int, kv_heads: int, head_dim: int, block_size: int, max_len: int,
        dtype: torch.dtype, device: Any, tile: DecodeTile | None = None, programs: int | None = None,
    ) -> None:  # fmt: skip
        """kv_lengths count all tokens of a row, shared ones included; shared_tokens is a multiple of block_size."""
        check_shared_tokens(shared_tokens, block_size, max_len)
        shape: dict[str, Any] = {
            "q_heads": q_heads, "kv_heads": kv_heads, "head_dim": head_dim, "block_size": block_size, "dtype": dtype,
            "device": device, "tile": tile, "programs": programs,
        }  # fmt: skip
        self.shared_tokens, self.shared_blocks = shared_tokens, shared_tokens // block_size
        own = self._own(kv_lengths)
        shared = [shared_tokens] if len(own) else []
        self.prefix = DecodePlan.plan(shared, queries_per_row=max(1, len(own)), max_len=shared_tokens, **shape)
        self.suffix = DecodePlan.plan(own, max_len=max_len - shared_tokens, **shape)

    def update(self, kv_lengths: Any) -> None:
        """New lengths, shared tokens included; the shared prefix stays what it is."""
        self.suffix.update(self._own(kv_lengths))

    def _own(self, kv_lengths: Any) -> Any:
        lengths = checks.host_lengths(kv_lengths)
        if len(lengths) and lengths.min() < self.shared_tokens:
            row = int(lengths.argmin())
            raise ValueError(f"row {row} has {lengths[row]} tokens, fewer than the {self.shared_tokens} that all rows share")
        return lengths - self.shared_tokens

    def check_tables(self, block_tables: Tensor, num_blocks: int) -> None:
        """ValueError for rows that do not share their first blocks, or name no block. On a GPU this waits for the GPU."""
        check_shared(block_tables, self.shared_blocks)
        checks.check_tables(block_tables, self.suffix.lengths + self.shared_tokens, num_blocks, self.suffix.block_size or 0)

    def run(
        self, q: Tensor, k_blocks: Tensor, v_blocks: Tensor, block_tables: Tensor, *, scale: float | None = None,
        out: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """q [rows, q_heads, head_dim] -> (out, lse [rows, q_heads]). Waits for nothing; can be captured in a CUDA graph."""
        checks.check_out(out, q, k_blocks, v_blocks)
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device) if out is None else out
        if not len(q):
            return out, torch.empty(q.shape[:2], dtype=torch.float32, device=q.device)
        halves = torch.empty(2, *q.shape, dtype=torch.float32, device=q.device)
        own = block_tables[:, self.shared_blocks :]
        shared = block_tables[:1, : self.shared_blocks]
        _, shared_lse = self.prefix.run(q, k_blocks, v_blocks, shared, scale=scale, out=halves[0])
        _, own_lse = self.suffix.run(q, k_blocks, v_blocks, own, scale=scale, out=halves[1])
        from .merge_kernel import merge_pair_kernel

        lse = torch.empty_like(own_lse)
        result = out if out.is_contiguous() else torch.empty(q.shape, dtype=q.dtype, device=q.device)
        with launching_on(q):
            merge_pair_kernel[(q.shape[0] * q.shape[1],)](
                halves[0], shared_lse, halves[1], own_lse, result, lse,
                HEAD_DIM=q.shape[2], BLOCK_D=1 << (q.shape[2] - 1).bit_length(), num_warps=1,
            )  # fmt: skip
        return (out if result is out else out.copy_(result)), lse


def check_shared_tokens(shared_tokens: int, block_size: int, max_len: int) -> None:
    if shared_tokens < 0 or shared_tokens % block_size or shared_tokens > max_len:
        limit = f"a multiple of the block size {block_size}, at most {max_len}"
        raise ValueError(f"shared_tokens is {limit}: only whole blocks are shared; got {shared_tokens}")


def check_shared(block_tables: Tensor, shared_blocks: int) -> None:
    """ValueError for rows that do not begin with the same blocks. On a GPU this waits for the GPU."""
    first = block_tables[:, :shared_blocks].cpu()
    differ = (first != first[:1]).nonzero()
    if len(differ):
        row, column = differ[0].tolist()
        found = f"{int(first[row, column])}, row 0 has {int(first[0, column])}"
        raise ValueError(f"row {row}, entry {column} is {found}; the first {shared_blocks} blocks must be the same")


def cascade_decode(
    q: Tensor, k_blocks: Tensor, v_blocks: Tensor, block_tables: Tensor, kv_lengths: Any = None, *, shared_tokens: int = 0,
    plan: CascadePlan | None = None, scale: float | None = None, return_lse: bool = False, out: Tensor | None = None,
    impl: str = "auto",
) -> Any:  # fmt: skip
    """paged_decode for rows whose first shared_tokens tokens lie in the same blocks: the same result, the prefix read once.

    plan  a CascadePlan holds shared_tokens and lengths; without one they are fetched and checked, which on a GPU waits for it
    impl  "dense" ignores the sharing: each row alone, the slow path and the oracle of this one
    """
    from .decode import paged_decode

    q3 = without_length(q)
    checks.check_cache(q3, k_blocks, v_blocks, block_tables)
    if plan is None:
        check_shared_tokens(shared_tokens, k_blocks.shape[1], block_tables.shape[1] * k_blocks.shape[1])
    if not q.is_cuda:
        check_shared(block_tables, shared_tokens // k_blocks.shape[1] if plan is None else plan.shared_blocks)
    if checks.choose_impl(impl, q, k_blocks.shape[1], k_blocks, v_blocks) == "dense":
        lengths = kv_lengths if plan is None else plan.suffix.lengths + plan.shared_tokens
        return paged_decode(
            q, k_blocks, v_blocks, block_tables, lengths, scale=scale, return_lse=return_lse, out=out, impl="dense"
        )
    checks.check_out(out, q, k_blocks, v_blocks)
    made = plan is None
    plan = plan or cascade_plan_for(q3, k_blocks, block_tables, kv_lengths, shared_tokens)
    if made or not q.is_cuda:
        plan.check_tables(block_tables, k_blocks.shape[0])
    result, lse = plan.run(q3, k_blocks, v_blocks, block_tables, scale=scale, out=None if out is None else without_length(out))
    result = out if out is not None else result.view(q.shape)
    return (result, lse if q.ndim == 3 else lse[..., None]) if return_lse else result


def cascade_plan_for(
    q: Tensor, k_blocks: Tensor, block_tables: Tensor, kv_lengths: Any, shared_tokens: int, **options: Any
) -> CascadePlan:
    """A plan for these tensors; options: tile, programs."""
    return CascadePlan(
        kv_lengths, shared_tokens, q_heads=q.shape[-2], kv_heads=k_blocks.shape[2], head_dim=q.shape[-1],
        block_size=k_blocks.shape[1], max_len=block_tables.shape[1] * k_blocks.shape[1], dtype=q.dtype, device=q.device,
        **options,
    )  # fmt: skip
