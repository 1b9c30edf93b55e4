"""Slips of exercise 2.9 that a hint can name: each is computed, and stands when it explains every value of an answer."""

import math
from collections.abc import Iterator
from typing import Any

from ...grading.criteria import Case
from .attention_slips import FALLS, LSE_BASE_TWO, NOT_STORED, VERY_LOW, wrong_scales
from .split_decode_cases import inputs

DEAD = "NaN lies wherever no token does. A weight of 0 does not silence it: load only rows of K and V that exist."
EMPTY = "A part without a token, or a pair without parts: what is -inf - (-inf), and what is 0 / 0?"
LOW = "The scores are very low here, and something was higher: does a maximum begin at a number, or does one stand for -inf?"
PARTS = (1, 8, 16, 32, 64, 128)  # that a merge may take at a time
VIEWS = "q, K and V are views of wider buffers here. If the other criteria pass: which strides does each pointer take?"


def known_slip(case: Case, name: str, output: Any, wanted: tuple[Any, Any], within: tuple[float, float]) -> str:
    """The hint for the slip that explains every value of `name` in (out, lse), or "". within: rtol and atol."""
    import torch

    from ...grading.compare import compare_tensor

    got, want = (pair[("out", "lse").index(name)] for pair in (output, wanted))
    if not isinstance(got, torch.Tensor) or got.shape != want.shape:
        return ""
    if got.isnan().any():
        return _why_nan(case, got)
    low = (wanted[1] < VERY_LOW) & wanted[1].isfinite()
    if name == "out" and low.any() and not got[low].any():
        return LOW
    for part, hint, value in _slips(case, wanted):
        if part == name and compare_tensor(got, value.to(got.dtype), rtol=within[0], atol=within[1]) is None:
            return hint
    return VIEWS if "wide" in case else ""


def _why_nan(case: Case, got: Any) -> str:
    """Where the NaN is: only in sequences that have no token, or none in some part, or also elsewhere."""
    import torch

    nan = got.isnan().flatten(1).any(1)
    if nan.nonzero().flatten().tolist() == [case.get("falls")]:
        return FALLS
    without = case["kv_lengths"] == 0
    for sequence, _, first, end in case["items"].tolist():
        without[sequence] |= first == end
    if not (nan & ~without).any():
        return EMPTY
    if "wide" in case:
        return VIEWS
    whole = torch.tensor([length % inputs(case)[1].shape[1] == 0 for length in case["kv_lengths"].tolist()])
    return NOT_STORED if (nan & whole).any() else DEAD


def _slips(case: Case, wanted: tuple[Any, Any]) -> Iterator[tuple[str, str, Any]]:
    """(part, hint, what this slip leads to)"""
    import torch

    from ...attention.paged_reference import decode_reference

    out, lse = wanted
    q, k, v = (part.double() for part in inputs(case))
    tables, lengths = case["block_tables"], case["kv_lengths"]
    yield "lse", LSE_BASE_TWO, lse / math.log(2)
    for hint, scale in wrong_scales(q.shape[-1]):
        other = decode_reference(q, k, v, tables, lengths, scale=scale)
        yield "out", hint, other[0]
        yield "lse", hint, other[1]
    kv_heads = k.shape[2]
    if 1 < kv_heads < q.shape[1]:
        pick = torch.arange(q.shape[1]) % kv_heads
        back = torch.argsort(pick, stable=True)
        hint = "The query heads of KV head j are j * group to j * group + group - 1; j, j + kv_heads, ... are others."
        other = decode_reference(q[:, back], k, v, tables, lengths)
        for name, value in zip(("out", "lse"), other, strict=True):
            yield name, hint, torch.empty_like(value).index_copy_(1, back, value)
            yield name, hint, value
    if kv_heads > 1:
        for hint, keys, values in (
            ("K is that of KV head 0 throughout.", k[:, :, :1].expand_as(k), v),
            ("V is that of KV head 0 throughout.", k, v[:, :, :1].expand_as(v)),
            ("K and V are those of KV head 0 throughout.", k[:, :, :1].expand_as(k), v[:, :, :1].expand_as(v)),
        ):
            yield from zip(("out", "lse"), (hint, hint), decode_reference(q, keys, values, tables, lengths), strict=True)
    longer = case["items"].clone()
    longer[:, 3] = k.shape[1] * len(k)
    to_the_end = _parts({**case, "items": longer}, q, k, v)
    yield (
        "out",
        "Every part goes on to its sequence's end. Which two numbers say where it stops?",
        _whole(to_the_end, _of, out, kv_heads),
    )
    parts = _parts(case, q, k, v)
    yield from _merges(parts, out, lse, kv_heads)
    yield from _wrong_parts(case, (q, k, v), parts, out, lse)


def _partials(case: Case, q: Any, k: Any, v: Any, late: int = 0, early: int = 0) -> list[list[Any]]:
    """For each pair of sequence and KV head the Partial of each of its parts, without its first and last so many tokens."""
    import torch

    from ...attention.online_softmax import partial

    size, kv_heads = k.shape[1], k.shape[2]
    group = q.shape[1] // kv_heads
    found: list[list[Any]] = [[] for _ in range(len(q) * kv_heads)]
    for sequence, head, first, end in case["items"].tolist():
        tokens = torch.arange(first * size, max(min(end * size, int(case["kv_lengths"][sequence])), first * size))
        tokens = tokens[late : len(tokens) - early]
        rows = case["block_tables"][sequence].long()[tokens // size], tokens % size, head
        scores = q[sequence, head * group : (head + 1) * group] @ k[rows].T * q.shape[-1] ** -0.5
        found[sequence * kv_heads + head].append(partial(scores, v[rows]))
    return found


def _parts(*args: Any, **trimmed: int) -> list[list[tuple[Any, Any]]]:
    """For each pair of sequence and KV head: (out [group, head_dim], lse [group]) of each of its parts."""
    from ...attention.online_softmax import finish

    return [[finish(part) for part in of_pair] for of_pair in _partials(*args, **trimmed)]


def _wrong_parts(case: Case, qkv: Any, parts: Any, out: Any, lse: Any) -> Iterator[tuple[str, str, Any]]:
    """What a right merge makes of parts that are wrong."""
    import torch

    kv_heads = qkv[1].shape[2]
    made = [list(zip(whole, part, strict=True)) for whole, part in zip(parts, _partials(case, *qkv), strict=True)]
    from_zero = case["items"].clone()
    from_zero[:, 2] = 0
    for hint, wrong in (
        (
            "A part's out is divided by its own sum of weights before it is merged by lse.",
            [[(p.acc, l) for (_, l), p in x] for x in made],
        ),
        ("A part's lse is its maximum alone. Where is the logarithm of its sum?", [[(o, p.m) for (o, _), p in x] for x in made]),
        (
            "A part's lse adds a maximum in base 2 and a natural logarithm of its sum. Is it log2?",
            [[(o, p.m + math.log(2) * (l - p.m).nan_to_num()) for (o, l), p in x] for x in made],
        ),
        (
            "A part without a token weighs something. Its lse is -inf.",
            [[(o, torch.where(l > -math.inf, l, 0.0)) for (o, l), _ in x] for x in made],
        ),
        ("Every part begins at token 0 of its sequence. Where does an item begin?", _parts({**case, "items": from_zero}, *qkv)),
        ("The first token of each part is missing.", _parts(case, *qkv, late=1)),
        ("The last token of each part is missing.", _parts(case, *qkv, early=1)),
    ):
        yield "out", hint, _whole(wrong, _of, out, kv_heads)
        yield "lse", hint, _whole(wrong, lambda _, l: l.logsumexp(0), lse, kv_heads)


def _whole(parts: Any, merge: Any, like: Any, kv_heads: int) -> Any:
    """The parts of each pair that have a token, merged by `merge(outs [parts, group, head_dim], lses [parts, group])`."""
    import torch

    made, group = torch.zeros_like(like) if like.ndim == 3 else torch.full_like(like, -math.inf), like.shape[1] // kv_heads
    for pair, of_pair in enumerate(parts):
        seen = [(o, l) for o, l in of_pair if (l > -math.inf).all()]
        if seen:
            outs, lses = (torch.stack(side) for side in zip(*seen, strict=True))
            first = pair % kv_heads * group
            made[pair // kv_heads, first : first + group] = merge(outs, lses)
    return made


def _merges(parts: Any, out: Any, lse: Any, kv_heads: int) -> Iterator[tuple[str, str, Any]]:
    """What a merge leads to that weighs parts in a way of its own."""
    bases = "lse is in base e in one kernel and in base 2 in the other."
    for hint, merge in (
        ("Parts are averaged as if each had seen as much. What does a part's lse say?", lambda o, l: o.mean(0)),
        ("Only the first part of each pair is there.", lambda o, l: o[0]),
        ("Only the last part of each pair is there. Do all of them write to the same place?", lambda o, l: o[-1]),
        ("The last part of each pair is missing.", lambda o, l: _of(o[:-1], l[:-1]) if len(o) > 1 else 0 * o[0]),
        (
            "The merged parts are not divided by the sum of their weights.",
            lambda o, l: ((l - l.amax(0)).exp()[..., None] * o).sum(0),
        ),
        (bases, lambda o, l: _of(o, l / math.log(2))),
        (bases, lambda o, l: _of(o, l * math.log(2))),
    ):
        yield "out", hint, _whole(parts, merge, out, kv_heads)
    yield from _merges_in_tiles(parts, out, kv_heads)
    for hint, merge in (
        ("This is the largest lse of the parts. Where is the sum of their weights?", lambda o, l: l.amax(0)),
        ("This is the sum of the parts' lse. Sums of exponentials add up, their logarithms do not.", lambda o, l: l.sum(0)),
    ):
        yield "lse", hint, _whole(parts, merge, lse, kv_heads)


def _merges_in_tiles(parts: Any, out: Any, kv_heads: int) -> Iterator[tuple[str, str, Any]]:
    """What a merge of finished parts leads to that ends after one tile of parts, or does not rescale acc from tile to tile."""
    missing = "Only the first {} parts of each pair are there. Does your loop over tiles of parts go on to first[p + 1]?"
    import torch

    rescale = "When a later tile of parts raises m, acc of the merge is too large. What is it multiplied by?"

    def walked(outs: Any, lses: Any, tile: int) -> Any:
        acc, m = torch.zeros_like(outs[0]), lses[0]
        for o, l in zip(outs.split(tile), lses.split(tile), strict=True):
            m = m.maximum(l.amax(0))
            acc = acc + ((l - m).exp()[..., None] * o).sum(0)
        return acc / (lses - m).exp().sum(0)[..., None]

    for tile in PARTS:
        if max(map(len, parts), default=0) > tile:
            yield "out", missing.format(tile), _whole(parts, lambda o, l, n=tile: _of(o[:n], l[:n]), out, kv_heads)
            yield "out", rescale, _whole(parts, lambda o, l, n=tile: walked(o, l, n), out, kv_heads)


def _of(outs: Any, lses: Any) -> Any:
    return (lses.softmax(0)[..., None] * outs).sum(0)
