"""Attention as torch operators, which torch.compile and its graphs accept: torch.ops.course.flash_attention, ..._packed.

An operator has a fake version that knows shapes, dtypes and strides of the results without any data; that is what a compiler
traces. Importing this module registers both.
"""

from typing import Any

import torch
from torch import Tensor

from .forward import flash_attention as _flash_attention
from .forward import flash_attention_packed as _flash_attention_packed


@torch.library.custom_op("course::flash_attention", mutates_args=())
def flash_attention_op(
    q: Tensor, k: Tensor, v: Tensor, causal: bool = False, scale: float | None = None
) -> tuple[Tensor, Tensor]:
    """-> (out as q, lse [batch, q_heads, q_len] float32)"""
    return _flash_attention(q, k, v, causal=causal, scale=scale, return_lse=True)


@flash_attention_op.register_fake
def _(q: Tensor, *_others: Any) -> tuple[Tensor, Tensor]:
    lse = torch.empty(q.shape[0], q.shape[2], q.shape[1], dtype=torch.float32, device=q.device)
    return torch.empty(q.shape, dtype=q.dtype, device=q.device), lse


@torch.library.custom_op("course::flash_attention_packed", mutates_args=())
def flash_attention_packed_op(
    q: Tensor, k: Tensor, v: Tensor, cu_q: Tensor, cu_k: Tensor, max_q: int, max_k: int, causal: bool = False,
    scale: float | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """-> (out as q, lse [q_heads, total_q] float32)"""
    return _flash_attention_packed(q, k, v, cu_q, cu_k, max_q=max_q, max_k=max_k, causal=causal, scale=scale, return_lse=True)


@flash_attention_packed_op.register_fake
def _(q: Tensor, *_others: Any) -> tuple[Tensor, Tensor]:
    lse = torch.empty(q.shape[1], q.shape[0], dtype=torch.float32, device=q.device)
    return torch.empty(q.shape, dtype=q.dtype, device=q.device), lse
