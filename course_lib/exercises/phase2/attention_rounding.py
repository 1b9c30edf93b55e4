"""How far roundings may carry a right answer to 2.4, 2.8 and 2.9 from the oracle."""

from typing import Any

ROUNDINGS = 4  # of the weights, of the result, and of q where the scale is folded into it, each half a unit in the last place
EXPONENT = 8 * 2.0**-24  # of a score's size: the sum over head_dim, the scale and the maximum are rounded to float32


def largest_score(q: Any, k: Any) -> float:
    """At most; q and k [..., head_dim]. Slots that hold no token, NaN, count as zeros."""
    longest_q, longest_k = (float(x.double().nan_to_num().norm(dim=-1).max()) for x in (q, k))
    return longest_q * longest_k / q.shape[-1] ** 0.5


def tolerance(q: Any, k: Any, v: Any) -> tuple[float, float]:
    """(rtol, atol) of out. Weights may be rounded to the dtype of v before the second product: an error is one of the largest
    value, not of out."""
    import torch

    unit = torch.finfo(q.dtype).eps / 2
    return unit, (ROUNDINGS * unit + EXPONENT * largest_score(q, k)) * float(v.double().nan_to_num().abs().max())
