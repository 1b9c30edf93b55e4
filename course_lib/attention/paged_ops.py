"""The paged operations as torch operators, which torch.compile and its graphs accept: torch.ops.course.paged_decode, ...

Each has a fake version that knows shapes and dtypes of the results without any data. A plan is no tensor, so an operator takes
its number, `handle(plan)`; the plan lives as long as its owner keeps it. Importing this module registers the operators.
"""

import weakref
from typing import Any

import torch
from torch import Tensor

from .cascade import CascadePlan, cascade_decode
from .decode import paged_decode as _paged_decode
from .decode_plan import DecodePlan
from .paged_prefill import paged_prefill as _paged_prefill
from .paged_write import paged_write as _paged_write

_plans: "weakref.WeakValueDictionary[int, DecodePlan | CascadePlan]" = weakref.WeakValueDictionary()
_numbers: "weakref.WeakKeyDictionary[DecodePlan | CascadePlan, int]" = weakref.WeakKeyDictionary()
_made = 0


def handle(plan: DecodePlan | CascadePlan) -> int:
    """The number by which operators know this plan; the same one each time."""
    global _made
    if plan not in _numbers:
        _made += 1
        _numbers[plan] = _made
        _plans[_made] = plan
    return _numbers[plan]


def _planned(number: int, kind: type) -> DecodePlan | CascadePlan:
    plan = _plans.get(number)
    if not isinstance(plan, kind):
        raise ValueError(f"{number} is the handle of no living {kind.__name__}; keep the plan, and pass handle(plan)")
    return plan


def _three_axes(q: Tensor) -> None:
    """What the fake version says of lse is right for these only."""
    if q.ndim != 3:
        raise ValueError(f"the operators take q [rows, q_heads, head_dim], got {tuple(q.shape)}; pass q[:, 0]")


def _like(q: Tensor) -> Tensor:
    """Contiguous, as the results are, wherever q's rows lie."""
    return torch.empty(q.shape, dtype=q.dtype, device=q.device)


@torch.library.custom_op("course::paged_decode", mutates_args=())
def paged_decode_op(
    q: Tensor, k_blocks: Tensor, v_blocks: Tensor, block_tables: Tensor, plan: int, scale: float | None = None
) -> tuple[Tensor, Tensor]:
    """q [rows, q_heads, head_dim], plan: handle of a DecodePlan -> (out as q, lse [rows, q_heads])"""
    _three_axes(q)
    made = _planned(plan, DecodePlan)
    return _paged_decode(q, k_blocks, v_blocks, block_tables, plan=made, scale=scale, return_lse=True)


@torch.library.custom_op("course::cascade_decode", mutates_args=())
def cascade_decode_op(
    q: Tensor, k_blocks: Tensor, v_blocks: Tensor, block_tables: Tensor, plan: int, scale: float | None = None
) -> tuple[Tensor, Tensor]:
    """The same with the handle of a CascadePlan."""
    _three_axes(q)
    made = _planned(plan, CascadePlan)
    return cascade_decode(q, k_blocks, v_blocks, block_tables, plan=made, scale=scale, return_lse=True)


@paged_decode_op.register_fake
@cascade_decode_op.register_fake
def _(q: Tensor, *_others: Any) -> tuple[Tensor, Tensor]:
    return _like(q), q.new_empty(q.shape[:2], dtype=torch.float32)


@torch.library.custom_op("course::paged_prefill", mutates_args=())
def paged_prefill_op(
    q: Tensor, cu_q: Tensor, k_blocks: Tensor, v_blocks: Tensor, block_tables: Tensor, kv_lengths: Tensor, max_q: int,
    causal: bool = True, scale: float | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """-> (out as q, lse [q_heads, total_q])"""
    return _paged_prefill(
        q, cu_q, k_blocks, v_blocks, block_tables, kv_lengths, causal=causal, max_q=max_q, scale=scale, return_lse=True
    )


@paged_prefill_op.register_fake
def _(q: Tensor, *_others: Any) -> tuple[Tensor, Tensor]:
    return _like(q), q.new_empty((q.shape[1], q.shape[0]), dtype=torch.float32)


@torch.library.custom_op("course::paged_write", mutates_args=("k_blocks", "v_blocks"))
def paged_write_op(k: Tensor, v: Tensor, k_blocks: Tensor, v_blocks: Tensor, slots: Tensor) -> None:
    """K and V as they are."""
    _paged_write(k, v, k_blocks, v_blocks, slots)


@paged_write_op.register_fake
def _(*_inputs: Any) -> None:
    return None


@torch.library.custom_op("course::paged_write_rope", mutates_args=("k_blocks", "v_blocks"))
def paged_write_rope_op(
    q: Tensor, k: Tensor, v: Tensor, k_blocks: Tensor, v_blocks: Tensor, slots: Tensor, cos: Tensor, sin: Tensor
) -> Tensor:
    """K turned by its position, and V, into the cache -> q turned."""
    turned = _paged_write(k, v, k_blocks, v_blocks, slots, cos=cos, sin=sin, q=q)
    assert turned is not None
    return turned


@paged_write_rope_op.register_fake
def _(q: Tensor, *_others: Any) -> Tensor:
    return _like(q)
