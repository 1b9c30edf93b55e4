"""The merge of partial softmaxes, written out: what every split, tile and shared prefix of this package relies on.

A partial is (m, l, acc) of some of a row's keys: m the largest score, l the sum of exp(score - m), acc the sum of
exp(score - m) * value. One key with score s and value v is (s, 1, v); no key at all is (-inf, 0, 0).
Source   Milakov and Gimelshein, "Online normalizer calculation for softmax", arXiv 1805.02867, section 3.1
"""

from torch import Tensor


def merge_parts_reference(m: Tensor, l: Tensor, acc: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """m, l [parts, rows], acc [parts, rows, dim] -> (m [rows], l [rows], acc [rows, dim]) in float64.

    A part with m = -inf counts as having no key, whatever its l and acc hold, NaN included.
    """
    m, l, acc = m.double(), l.double(), acc.double()
    live = m > float("-inf")
    largest = m.amax(0)
    finite = largest.masked_fill(largest == float("-inf"), 0.0)
    weight = (m - finite).exp()
    total = (weight * l).masked_fill(~live, 0.0).sum(0)
    merged = (weight[..., None] * acc).masked_fill(~live[..., None], 0.0).sum(0)
    return largest, total, merged
