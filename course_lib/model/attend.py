"""Attention over given queries, keys and values: the path in use, and the oracle beside it.

attend_dense      torch's fused attention, on CPU and GPU
attend_reference  every score written out, in the precision of its inputs: give it float64 and compare

Layout   q: [batch, q_len, heads, head_dim]; k: [batch, keys, kv_heads, head_dim]; v: [batch, keys, kv_heads, v_dim]
         -> [batch, q_len, heads, v_dim]; query head h reads KV head h // (heads // kv_heads)
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from .span import Span


def attend_dense(q: Tensor, k: Tensor, v: Tensor, span: Span, scale: float) -> Tensor:
    """softmax(q k^T * scale, over the keys that `span` lets a query see) v. A query that sees no key gives zeros."""
    batch, q_len, heads, _ = q.shape
    kv_heads = k.shape[2]
    if span.sees_all:  # one token: the queries of a group read the same keys, so they stand in for a query length
        grouped = q.reshape(batch, kv_heads, heads // kv_heads, q.shape[-1])
        out = F.scaled_dot_product_attention(grouped, k.transpose(1, 2), v.transpose(1, 2), scale=scale)
        return out.reshape(batch, q_len, heads, v.shape[-1])
    mask = None if span.is_causal_square else span.mask()
    out = F.scaled_dot_product_attention(
        q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), attn_mask=mask, is_causal=mask is None, scale=scale,
        enable_gqa=kv_heads != heads,
    )  # fmt: skip
    if span.padded:
        out = out.masked_fill(~span.mask().any(-1, keepdim=True), 0.0)
    return out.transpose(1, 2)


def attend_reference(q: Tensor, k: Tensor, v: Tensor, span: Span, scale: float) -> Tensor:
    """The same, head by head and with every score in memory."""
    group = q.shape[2] // k.shape[2]
    seen = span.mask()[:, 0]
    heads = []
    for head in range(q.shape[2]):
        keys, values = k[:, :, head // group], v[:, :, head // group]
        scores = (q[:, :, head] @ keys.transpose(1, 2) * scale).masked_fill(~seen, -torch.inf)
        largest = scores.amax(-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).min)  # finite where no key is seen
        weights = (scores - largest).exp()
        total = weights.sum(-1, keepdim=True)
        heads.append(weights / total.where(total > 0, torch.ones_like(total)) @ values)
    return torch.stack(heads, dim=2)
