"""Slips of exercise 2.2 that a hint can name: each is computed, and stands when it explains every value of an answer."""

import math
from collections.abc import Iterator
from typing import Any

from ...grading.criteria import Case
from .attention_slips import BASE_TWO, LSE_BASE_TWO, NOT_RESCALED, walks

UNWRITTEN = "A weight of 0 does not silence a NaN: 0 * NaN is NaN."
NOTHING_MINUS_NOTHING = "What is -inf - (-inf), and in which block does it come up?"
ZERO_BY_ZERO = "This row has no key: l is 0. What is 0 / 0?"
NO_NUMBER = "Did a program store this row's result? And does an exponential overflow? inf / inf is NaN."
BESIDE = "NaN lies behind the end of each row. Which lanes of the last block are real, and how far apart do rows begin?"
PADDED = "Lanes from n on must weigh nothing: which `other`?"
LOW_PRECISION = "The values agree to 16 bits. In which dtype are weights and sums? In float32, whatever the scores are."
BLOCKS = [2**exponent for exponent in range(4, 15)]  # in which an answer may have walked
ROUNDED = 4e-3  # of float16 and bfloat16 alike


def known_slip(case: Case, name: str, output: Any, wanted: tuple[Any, Any], within: tuple[float, float]) -> str:
    """The hint for the slip that explains every value of `name` in (out, lse), or "". within: the check's rtol and atol."""
    import torch

    from ...grading.compare import compare_tensor

    got = output[("out", "lse").index(name)]
    if not isinstance(got, torch.Tensor) or got.shape != wanted[0].shape or got.dtype != torch.float32:
        return ""
    if got.isnan().any():
        return _why_nan(case, got, output[1] if name == "out" else None)
    for part, hint, value in _slips(case, wanted):
        if part == name and compare_tensor(got, value.float(), rtol=2 * within[0], atol=2 * within[1]) is None:
            return hint
    want = wanted[("out", "lse").index(name)].float()
    short = any(case[key].element_size() < 4 for key in ("scores", "values"))
    near = ROUNDED * float(case["values"].double().nan_to_num().abs().max())
    return LOW_PRECISION if short and compare_tensor(got, want, rtol=ROUNDED, atol=near) is None else ""


def _why_nan(case: Case, got: Any, lse: Any) -> str:
    import torch

    nan, masked = got.isnan(), case["scores"] == -torch.inf
    if "keys" in case:
        return BESIDE
    if case["values"].isnan().any():
        return UNWRITTEN
    if not masked.any(1)[nan].all():
        return NO_NUMBER
    alone = isinstance(lse, torch.Tensor) and lse.shape == got.shape and masked.all(1)[nan].all()
    return ZERO_BY_ZERO if alone and (lse[nan] == -torch.inf).all() else NOTHING_MINUS_NOTHING


def _slips(case: Case, wanted: tuple[Any, Any]) -> Iterator[tuple[str, str, Any]]:
    """(part, hint, what this slip leads to)"""
    out, lse = wanted
    scores = case["scores"].double()[:, : case.get("keys")]
    largest = scores.amax(1)
    yield "lse", LSE_BASE_TWO, lse / math.log(2)
    in_base_two = "m is in base 2 here, the logarithm of l is not. Bring both to one base, and lse is the natural logarithm."
    yield "lse", in_base_two, largest / math.log(2) + (lse - largest)
    yield "lse", in_base_two, largest + (lse - largest) / math.log(2)
    yield "lse", "This is the largest score of the row. Where is the sum?", largest
    yield "lse", "The logarithm of the sum is there. Where is the maximum?", lse - largest
    yield "out", "Is out divided by the sum of the weights?", out * (lse - largest).exp()
    seen = (scores > -math.inf).any(0)
    values = case["values"].double().where(seen, 0.0)
    yield "out", BASE_TWO, (scores * math.log(2)).softmax(1) @ values
    for block in BLOCKS:
        lanes = -scores.shape[1] % block
        sum_with = lse.exp() + lanes
        if lanes:
            yield "lse", PADDED, sum_with.log()
            yield "out", PADDED, out * (lse - sum_with.log()).exp()
        if block < scores.shape[1]:
            outs, unrescaled = walks(scores, values.expand(len(scores), -1)[..., None], block)
            yield from (("out", hint, value[:, 0]) for hint, value in outs.items())
            yield "lse", NOT_RESCALED.format("l was not rescaled"), unrescaled
