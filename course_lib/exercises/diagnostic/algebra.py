"""Questions on linear algebra and attention: shapes, softmax, and attention in a few lines."""

import math
from typing import Any

from .question import Question, near


def _product(answer: Any) -> str:
    import torch

    shape, count = answer
    x, w = torch.empty(10, 64, device="meta"), torch.empty(64, 32, device="meta")
    if tuple(shape) != tuple((x @ w).shape):
        return "The shape is not right: the inner dimension is summed over and disappears."
    right = (x @ w).numel() * x.shape[1]
    if count == 2 * right:
        return "That counts additions as well; asked for are multiplications."
    return "" if count == right else "The shape is right. How many multiplications does one value of the result need?"


def _scores(answer: Any) -> str:
    import torch

    q, k = (torch.empty(2, 8, tokens, 64, device="meta") for tokens in (5, 9))
    scores = q @ k.mT
    first, second = (tuple(shape) for shape in answer)
    if first != tuple(scores.shape):
        return "Each query meets each key. Over which dimension does q @ k.mT sum?"
    if second != tuple((scores @ k).shape):
        return "The scores are right. Their last dimension meets the values, and is summed over."
    return ""


def _softmax(answer: Any) -> str:
    import torch

    scores = torch.tensor([0.0, math.log(2), math.log(5)], dtype=torch.float64)
    right, got = scores.softmax(0).tolist(), [float(value) for value in answer]
    if len(got) == 3 and all(near(a, b) for a, b in zip(got, scores.exp().tolist(), strict=True)):
        return "Those are the exponentials. What do they have to add up to?"
    return "" if len(got) == 3 and all(near(a, b) for a, b in zip(got, right, strict=True)) else "exp(ln 2) is 2."


def _overflow(answer: Any) -> str:
    import torch

    scores = torch.tensor([1000.0, 1000.0])
    naive = float(scores.exp()[0] / scores.exp().sum())
    shifted = float((scores - scores.max()).exp()[0] / (scores - scores.max()).exp().sum())
    for got, right, which in zip(map(float, answer), (naive, shifted), ("first", "second"), strict=True):
        if not (got == right or (math.isnan(got) and math.isnan(right))):
            return f"The {which} is not right. The largest number of float32 is about 3.4e38, and exp(1000) is about 1e434."
    return ""


def _attend(answer: Any) -> str:
    import torch

    draw = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, tokens, 16, generator=draw, dtype=torch.float64) for tokens in (3, 5, 5))
    got, scores = answer(q.clone(), k.clone(), v.clone()), q @ k.mT
    if tuple(got.shape) != (2, 3, 16):
        return f"The result has shape {tuple(got.shape)}, for queries of shape (2, 3, 16)."
    slips = {
        "": (scores / 4).softmax(-1) @ v,
        "The scores are not scaled by 1/sqrt(dim).": scores.softmax(-1) @ v,
        "The softmax runs over the queries; it has to run over the keys.": (scores / 4).softmax(-2) @ v,
        "There is no softmax in it.": scores / 4 @ v,
        "The scores are divided by dim, not by its square root.": (scores / 16).softmax(-1) @ v,
    }
    for told, right in slips.items():
        if torch.allclose(got.double(), right, rtol=1e-4, atol=1e-6):
            return told
    return "The shape is right, the values are not."


_MATRICES = "Deisenroth, Faisal, Ong, Mathematics for Machine Learning (free online), 2.2 Matrices"
_ATTENTION = "Vaswani et al., Attention Is All You Need (arXiv 1706.03762), 3.2.1 Scaled Dot-Product Attention"
_SOFTMAX = "Dive into Deep Learning (d2l.ai), 4.1 Softmax Regression; 4.5 has the overflow"
QUESTIONS = {
    "product": Question("((rows, columns), multiplications)", _product, _MATRICES),
    "scores": Question("(shape, shape), each of four numbers", _scores, _ATTENTION),
    "softmax": Question("three numbers", _softmax, _SOFTMAX),
    "overflow": Question('(number, number); float("nan") where it is one', _overflow, _SOFTMAX),
    "attend": Question("a function attend(q, k, v) that returns a tensor", _attend, _ATTENTION),
}
