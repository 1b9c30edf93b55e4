"""Decode attention over a paged cache, and over a contiguous one: checks, plans where no plan is given, runs.

Layout   q, out [rows, q_heads, head_dim] or [rows, 1, q_heads, head_dim]; lse float32 [rows, q_heads] or [rows, q_heads, 1]
         k, v [num_blocks, block_size, kv_heads, head_dim] with tables int32 [rows, max_blocks]; contiguous: [rows, kv_len, ...]
"""

from typing import Any

import torch
from torch import Tensor

from . import paged_checks as checks
from .decode_plan import DecodePlan


def paged_decode(
    q: Tensor, k_blocks: Tensor, v_blocks: Tensor, block_tables: Tensor, kv_lengths: Any = None, *,
    plan: DecodePlan | None = None, scale: float | None = None, return_lse: bool = False, out: Tensor | None = None,
    impl: str = "auto",
) -> Any:  # fmt: skip
    """One query token for each row over the row's first kv_lengths tokens -> out, or (out, lse).

    plan  reads the lengths that it was last updated with (kv_lengths may then be left out), and nothing waits for the device.
          Without one, the lengths are fetched, a plan is made, and the block tables are checked: convenient, and slow on a GPU
    impl  "triton": the kernel (on a CPU in the interpreter); "dense": gather and plain torch; "auto": "triton" on a GPU
    Raises ValueError or TypeError with the numbers for what does not fit; a row without tokens gives zeros and lse -inf.
    """
    q3 = without_length(q)
    checks.check_cache(q3, k_blocks, v_blocks, block_tables)
    impl = checks.choose_impl(impl, q, k_blocks.shape[1], k_blocks, v_blocks)
    scale = checks.check_scale(scale, q.shape[-1])
    if block_tables.shape[0] != len(q3):
        raise ValueError(f"q has {len(q3)} rows, the block tables have {block_tables.shape[0]}; give one for each row")
    checks.check_out(out, q, k_blocks, v_blocks)
    if plan is not None:
        plan.check(q3, k_blocks, v_blocks, block_tables)
    lengths = kv_lengths
    if plan is None and lengths is None:
        raise ValueError("without a plan, kv_lengths says how many tokens each row has; give one of the two")
    if plan is None or not q.is_cuda:
        lengths = checks.host_lengths(plan.lengths if lengths is None else lengths)  # type: ignore[union-attr]
        checks.check_tables(block_tables, lengths, k_blocks.shape[0], k_blocks.shape[1])
        if plan is not None and list(plan.lengths) != list(lengths):
            planned, given = list(plan.lengths)[:8], list(lengths)[:8]
            raise ValueError(f"kv_lengths {given} are not those of the plan, {planned}; plan.update(kv_lengths)")
    if impl == "triton":
        plan = plan or plan_for(q3, k_blocks, block_tables, lengths)
        flat = None if out is None else without_length(out)
        result, lse = plan.run(q3, k_blocks, v_blocks, block_tables, scale=scale, out=flat)
    else:
        from .paged_reference import dense_decode

        known = torch.as_tensor(plan.lengths if lengths is None else lengths)  # type: ignore[union-attr]
        result, lse = dense_decode(q3, k_blocks, v_blocks, block_tables, known, scale)
        if out is not None:
            without_length(out).copy_(result)
    result = out if out is not None else result.view(q.shape)
    return (result, lse if q.ndim == 3 else lse[..., None]) if return_lse else result


def plan_for(q: Tensor, k_blocks: Tensor, block_tables: Tensor, kv_lengths: Any, **options: Any) -> DecodePlan:
    """A plan for these tensors; options as in DecodePlan.plan."""
    return DecodePlan.plan(
        kv_lengths, q_heads=q.shape[-2], kv_heads=k_blocks.shape[2], head_dim=q.shape[-1], block_size=k_blocks.shape[1],
        max_len=block_tables.shape[1] * k_blocks.shape[1], dtype=q.dtype, device=q.device, **options,
    )  # fmt: skip


def contiguous_decode(
    q: Tensor, k: Tensor, v: Tensor, kv_lengths: Any = None, *, plan: DecodePlan | None = None, scale: float | None = None,
    return_lse: bool = False,
) -> Any:  # fmt: skip
    """The same kernel over k, v [rows, kv_len, kv_heads, head_dim] without a block table: what paging is compared with."""
    q3 = without_length(q)
    if plan is None:
        plan = DecodePlan.plan(
            [k.shape[1]] * len(q3) if kv_lengths is None else kv_lengths, q_heads=q3.shape[1], kv_heads=k.shape[2],
            head_dim=k.shape[3], block_size=None, max_len=k.shape[1], dtype=q.dtype, device=q.device,
        )  # fmt: skip
    result, lse = plan.run(q3, k, v, scale=scale)
    result = result.view(q.shape)
    return (result, lse if q.ndim == 3 else lse[..., None]) if return_lse else result


def without_length(q: Tensor) -> Tensor:
    if q.ndim == 4 and q.shape[1] == 1:
        return q[:, 0]
    if q.ndim != 3:
        raise ValueError(f"decode takes q [rows, q_heads, head_dim] or [rows, 1, q_heads, head_dim], got {tuple(q.shape)}")
    return q
