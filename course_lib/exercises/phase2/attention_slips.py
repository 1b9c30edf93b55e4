"""Slips that several exercises about attention see: in the scale of scores, in the map of heads, in a walk in tiles."""

import math
from collections.abc import Iterator
from typing import Any

VERY_LOW = -5000  # scores below what a number in place of -inf may be
FALLS = "Scores are high first and far lower behind. m must never fall: it is the larger of the old maximum and the tile's own."
NOT_STORED = "Was this row stored? And can an exponential overflow? inf / inf is NaN."
BASE_TWO = "These are weights of 2 ** s. What makes e ** s of them?"
LSE_BASE_TWO = "This is the logarithm in base 2. lse is the natural one."
NOT_DIVIDED = "Is acc divided by the sum of the weights?"
OTHER_HEADS = "Head h reads KV head h // group; that of h % kv_heads is another one."
NOT_RESCALED = "When m rises, what was summed before is too large: {}."


def wrong_scales(head_dim: int) -> Iterator[tuple[str, float]]:
    """(hint, the scale that scores have with this slip)"""
    yield "Nothing divides by sqrt(head_dim) yet: scores are q . k * head_dim ** -0.5.", 1.0
    yield BASE_TWO, head_dim**-0.5 * math.log(2)
    yield "log2(e) stands in the scores once too often.", head_dim**-0.5 / math.log(2)


def walks(scores: Any, values: Any, tile: int) -> tuple[dict[str, Any], Any]:
    """What a walk in tiles leads to that forgets to rescale one of its sums, or both: ({hint: out [rows, dim]}, lse [rows]).

    scores [rows, n], values [rows, n, dim]; lse where l was not rescaled. A row without a key: zeros.
    """
    import torch

    behind = -scores.shape[1] % tile
    tiles = torch.nn.functional.pad(scores, (0, behind), value=-math.inf).unflatten(1, (-1, tile))  # [rows, tiles, tile]
    m = tiles.amax(2).cummax(1).values
    weights = (tiles - torch.where(m == -math.inf, 0.0, m)[..., None]).exp()
    l = weights.sum(2)
    acc = torch.einsum("rtn,rtnd->rtd", weights, torch.nn.functional.pad(values, (0, 0, 0, behind)).unflatten(1, (-1, tile)))
    last = m[:, -1:]
    rescale = (m - torch.where(last == -math.inf, 0.0, last)).exp()
    right_l, right_acc, plain_l, plain_acc = (rescale * l).sum(1), (rescale[..., None] * acc).sum(1), l.sum(1), acc.sum(1)
    right_l, divisor = (total.where(total > 0, 1.0)[:, None] for total in (right_l, plain_l))
    found = {
        "l was not rescaled": right_acc / divisor,
        "acc was not rescaled": plain_acc / right_l,
        "neither l nor acc was rescaled": plain_acc / divisor,
    }
    return {NOT_RESCALED.format(what): out for what, out in found.items()}, last[:, 0] + plain_l.log()
