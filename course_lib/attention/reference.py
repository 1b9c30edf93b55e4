"""Attention with every score written out, in float64: the oracle of everything else in this folder.

Layout   q [batch, q_len, q_heads, head_dim], k and v [batch, kv_len, kv_heads, head_dim]; head h reads KV head h // group
         -> out [batch, q_len, q_heads, head_dim] and lse [batch, q_heads, q_len], both float64
Causal   bottom-right: query i sees the keys up to i + kv_len - q_len. A row without a key: zeros, lse -inf.
"""

import torch
from torch import Tensor


def attention_reference(
    q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False, scale: float | None = None, window: int | None = None
) -> tuple[Tensor, Tensor]:
    """softmax(q k^T * scale) v and the natural log-sum-exp of the scaled scores. scale: head_dim ** -0.5 unless given.

    window  with causal: a query sees only its last `window` keys, its own position included
    """
    if window is not None and (not causal or window < 1):
        raise ValueError(f"window must be 1 or more and needs causal=True, got window={window}, causal={causal}")
    q_len, kv_len, group = q.shape[1], k.shape[1], q.shape[2] // k.shape[2]
    q, k, v = (x.double().transpose(1, 2) for x in (q, k, v))
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)  # head h reads KV head h // group
    scores = q @ k.transpose(2, 3) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        newest = torch.arange(q_len, device=q.device)[:, None] + kv_len - q_len  # last key that each query sees
        keys = torch.arange(kv_len, device=q.device)[None, :]
        seen = (keys <= newest) if window is None else (keys <= newest) & (keys > newest - window)
        scores = scores.masked_fill(~seen, -torch.inf)
    lse = torch.logsumexp(scores, -1) if kv_len else scores.new_full(scores.shape[:-1], -torch.inf)
    weights = torch.exp(scores - lse.where(lse > -torch.inf, 0.0)[..., None])  # a row without a key: exp(-inf - 0) = 0
    return (weights @ v).transpose(1, 2), lse


def packed_reference(
    q: Tensor, k: Tensor, v: Tensor, cu_q: Tensor, cu_k: Tensor, *, causal: bool = False, scale: float | None = None,
    window: int | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The same for sequences behind each other: q [total_q, q_heads, head_dim], k, v [total_k, kv_heads, head_dim].

    cu_q, cu_k  [batch + 1], where each sequence starts
    -> out as q, lse [q_heads, total_q], float64; rows of no sequence are 0 and -inf
    """
    out = torch.zeros(q.shape, dtype=torch.float64, device=q.device)
    lse = torch.full((q.shape[1], q.shape[0]), -torch.inf, dtype=torch.float64, device=q.device)
    starts_q, starts_k = cu_q.tolist(), cu_k.tolist()
    for i in range(len(starts_q) - 1):
        rows, keys = slice(starts_q[i], starts_q[i + 1]), slice(starts_k[i], starts_k[i + 1])
        one = attention_reference(q[None, rows], k[None, keys], v[None, keys], causal=causal, scale=scale, window=window)
        out[rows], lse[:, rows] = one[0][0], one[1][0]
    return out, lse
