"""Attention by torch, for machines where the Triton kernels cannot run, and for dtypes that they do not take.

Same conventions as the kernels: bottom-right causal, zeros and -inf for a row without a key. torch's fused attention gives no
log-sum-exp; where that is asked for, the scores are written out, a few hundred queries at a time.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

ROWS_AT_A_TIME = 512


def dense_attention(
    q: Tensor, k: Tensor, v: Tensor, *, causal: bool, scale: float, with_lse: bool
) -> tuple[Tensor, Tensor | None]:
    """q [batch, q_len, q_heads, head_dim] -> (out as q, contiguous; lse [batch, q_heads, q_len] float32, or None)."""
    batch, q_len, q_heads, _ = q.shape
    kv_len = k.shape[1]
    out = torch.zeros(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.full((batch, q_heads, q_len), -torch.inf, device=q.device) if with_lse else None
    blind = max(q_len - kv_len, 0) if causal else 0  # the first rows of a causal q that is longer than its keys see nothing
    if not kv_len or blind == q_len or not out.numel():
        return out, lse
    if lse is None:
        out[:, blind:] = _fused(q[:, blind:], k, v, causal, scale)
        return out, None
    for row in range(blind, q_len, ROWS_AT_A_TIME):
        rows = slice(row, min(row + ROWS_AT_A_TIME, q_len))
        seen = min(kv_len, rows.stop + kv_len - q_len) if causal else kv_len
        part = _written_out(q[:, rows], k[:, :seen], v[:, :seen], causal, scale)
        out[:, rows], lse[:, :, rows] = part
    return out, lse


def _fused(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float) -> Tensor:
    q_len, kv_len = q.shape[1], k.shape[1]
    square = causal and q_len == kv_len  # torch aligns its causal mask top-left: the same for a square only
    mask = None
    if causal and not square:
        mask = torch.ones(q_len, kv_len, dtype=torch.bool, device=q.device).tril(kv_len - q_len)
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    gqa = q.shape[1] != k.shape[1]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=square, scale=scale, enable_gqa=gqa).transpose(1, 2)


def _written_out(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float) -> tuple[Tensor, Tensor]:
    """Some rows whose last one sees the last key. In float32, whatever the inputs are."""
    group = q.shape[2] // k.shape[2]
    q, k, v = (x.float().transpose(1, 2) for x in (q, k, v))
    scores = q.unflatten(1, (-1, group)) @ k.transpose(2, 3)[:, :, None] * scale  # [batch, kv_heads, group, rows, keys]
    if causal:
        rows, keys = scores.shape[-2:]
        unseen = torch.ones(rows, keys, dtype=torch.bool, device=q.device).triu(keys - rows + 1)
        scores = scores.masked_fill(unseen, -torch.inf)
    lse = torch.logsumexp(scores, -1)
    out = torch.exp(scores - lse[..., None]) @ v[:, :, None]
    return out.flatten(1, 2).transpose(1, 2), lse.flatten(1, 2)
