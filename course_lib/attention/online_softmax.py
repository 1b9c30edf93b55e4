"""Softmax in one pass, and the merge of partial results that makes it possible.

Of some keys, (m, l, acc) is all that a query has to remember: m the largest score, l the sum of exp(score - m), acc the sum of
exp(score - m) * value. Two such parts, of disjoint keys, merge into the part of all their keys; the merge is associative and
commutative, and the part of no keys, (-inf, 0, 0), changes nothing. So keys may come in any order, in tiles (FlashAttention), or
be split over programs whose parts are merged at the end (split-KV decoding).

Source   Milakov and Gimelshein, "Online normalizer calculation for softmax", arXiv 1805.02867, section 3.1
Layout   scores [..., keys], values [..., keys, v_dim] -> m, l [...], acc [..., v_dim]; natural exponentials.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class Partial(NamedTuple):
    """What is known of a softmax-weighted sum after some of its keys."""

    m: Tensor  # largest score, -inf before the first key
    l: Tensor  # sum of exp(score - m)
    acc: Tensor  # sum of exp(score - m) * value


def empty(shape: tuple[int, ...], v_dim: int, dtype: torch.dtype = torch.float32) -> Partial:
    """The part of no keys, which changes nothing in a merge."""
    zeros = torch.zeros(*shape, v_dim, dtype=dtype)
    return Partial(torch.full(shape, -torch.inf, dtype=dtype), zeros.sum(-1), zeros)


def partial(scores: Tensor, values: Tensor) -> Partial:
    """The part of these keys. A score of -inf is a key that is not seen; its value must be finite."""
    if scores.shape[-1] == 0:
        return Partial(
            scores.new_full(scores.shape[:-1], -torch.inf), scores.new_zeros(scores.shape[:-1]),
            scores.new_zeros(*scores.shape[:-1], values.shape[-1]),
        )  # fmt: skip
    m = scores.amax(-1)
    weights = torch.exp(scores - _finite(m)[..., None])
    return Partial(m, weights.sum(-1), (weights[..., None, :] @ values).squeeze(-2))


def merge(a: Partial, b: Partial) -> Partial:
    """The part of the keys of both. The part with the smaller maximum is scaled down to the other's."""
    m = torch.maximum(a.m, b.m)
    of_a, of_b = torch.exp(a.m - _finite(m)), torch.exp(b.m - _finite(m))
    return Partial(m, a.l * of_a + b.l * of_b, a.acc * of_a[..., None] + b.acc * of_b[..., None])


def finish(p: Partial) -> tuple[Tensor, Tensor]:
    """-> (out [..., v_dim], lse [...]). Without a key: zeros and -inf."""
    out = p.acc / p.l.where(p.l > 0, 1.0)[..., None]
    return out, p.m + torch.log(p.l)


def merge_parts(parts: Partial) -> Partial:
    """`merge` of many parts at once: m, l [parts, ...], acc [parts, ..., v_dim] -> the part of all their keys.

    One with m = -inf has no key and counts for nothing, whatever its l and acc hold: 0 * NaN would be NaN.
    """
    m = parts.m.amax(0)
    weights, live = torch.exp(parts.m - _finite(m)), parts.m > -torch.inf
    l, acc = parts.l.where(live, 0.0), parts.acc.where(live[..., None], 0.0)
    return Partial(m, (weights * l).sum(0), (weights[..., None] * acc).sum(0))


def merge_states(outs: Tensor, lses: Tensor) -> tuple[Tensor, Tensor]:
    """Finished parts of disjoint keys -> the result of all. outs [parts, ..., v_dim], lses [parts, ...], as `finish` gives them.

    An lse is a part with m = lse, l = 1 and acc = out, so this is `merge` of all parts at once. All empty: zeros and -inf.
    """
    if outs.shape[:-1] != lses.shape:
        raise ValueError(f"outs must be lses with an axis of values behind, got {[*outs.shape]} and {[*lses.shape]}")
    if lses.shape[0] == 0:
        raise ValueError("merge_states needs at least one part, got none")
    out, lse = finish(merge_parts(Partial(lses, torch.ones_like(lses), outs)))
    return out.to(outs.dtype), lse


def _finite(m: Tensor) -> Tensor:
    """m, and 0 where it is -inf: -inf - -inf would be NaN."""
    return m.where(m > -torch.inf, 0.0)
