"""Slips of exercise 2.8 that a hint can name: each is computed, and stands when it explains every value of an answer."""

import math
from collections.abc import Iterator
from typing import Any

from ...grading.criteria import Case
from .attention_slips import FALLS, NOT_DIVIDED, OTHER_HEADS, walks, wrong_scales
from .paged_cases import written

UNWRITTEN = (
    "NaN lies in every slot that no token holds, and a weight of 0 does not silence it. Is the block of token p "
    "table[p // block_size], and is nothing loaded from behind the last token?"
)
PADDED = "Lanes behind the last token weigh something. Which score has a weight of 0?"
NO_TOKEN = "A sequence without tokens gives zeros. What is acc / l when l is 0, or was the row not stored?"
NO_NUMBER = "Was this row stored? Which heads and sequences does a program have, and how many programs are there?"
NOT_YET = "The newest tokens' slots hold NaN until they are written. If the other decodes pass, look at the write."
LOW = "The score is very low here, and something was higher: a mask other than -inf, or a maximum that began at a number?"
HALF = "The score is -20,000 here. Is everything from the products on float32? Half precision ends at 65,504."
STRIDES = "K and V have strides of their own here. If the other criteria pass: which ones does each pointer take?"
SIDE_BY_SIDE = "K and V of a block lie side by side here. How far apart do two blocks begin?"
ITS_OWN = "V lies in another order than K here. Whose strides lead to a slot of V?"
MISSING = "What is wrong was not written at all. Which tokens and heads does a program have, and how many programs are there?"
TILES = (16, 32, 64, 128, 256)


def decode_slip(case: Case, got: Any, want: Any, within: tuple[float, float]) -> str:
    """The hint for the slip that explains every value of a decode best, or "". within: the check's rtol and atol."""
    import torch

    from ...grading.compare import compare_tensor

    if not isinstance(got, torch.Tensor) or got.shape != want.shape or got.dtype != case["q"].dtype:
        return ""
    if not bool(got.any()) and "-20,000" in case["name"]:
        return LOW
    if "-20,000" in case["name"] and got.isnan().any():
        return HALF
    if case.get("falls") and got.isnan().any():
        return FALLS
    explains: list[tuple[float, str]] = []
    for hint, value in _decode_slips(case, want):
        if compare_tensor(got, value.to(got.dtype), rtol=2 * within[0], atol=2 * within[1]) is None:
            explains.append((float((got.double() - value).nan_to_num().abs().max()), hint))
    seen = ~got.isnan()[case["lengths"] > 0].any(-1)
    if explains and (seen.all() or (seen.any() and len({hint for _, hint in explains}) == 1)):  # NaN alone tells nothing
        return min(explains, key=lambda one: one[0])[1]
    if seen.all():
        return NO_TOKEN if got.isnan().any() else ""
    if "k" in case:
        return NOT_YET
    if case["layout"] != "plain":
        return STRIDES
    return UNWRITTEN if (got.isnan().all(-1) == got.isnan().any(-1)).all() else NO_NUMBER


def _decode_slips(case: Case, want: Any) -> Iterator[tuple[str, Any]]:
    """(hint, what this slip leads to), NaN where it meets a slot that no token holds"""
    import torch

    k, v = written(case) if "k" in case else (case["k_blocks"], case["v_blocks"])
    k, v, q = k.double(), v.double(), case["q"].double()
    tables, lengths, size = case["tables"], case["lengths"].tolist(), k.shape[1]
    q_heads, kv_heads, dim = q.shape[1], k.shape[2], q.shape[2]

    def of(row: int, slots: Any, *, scale: float = dim**-0.5, heads: Any = None, divided: bool = True, kv: Any = (k, v)) -> Any:
        """One row's attention over tokens at these slots."""
        if not len(slots):
            return torch.zeros(q_heads, dim, dtype=torch.float64)
        pick = torch.arange(q_heads) // (q_heads // kv_heads) if heads is None else heads
        at = (slots[:, None] * kv_heads + pick).clamp(max=k.shape[:3].numel() - 1)  # behind the last head begins the next slot
        keys, values = (x.flatten(0, 2)[at] for x in kv)
        scores = torch.einsum("hd,nhd->hn", q[row], keys) * scale
        weights = (scores - scores.amax(1, keepdim=True)).exp()
        total = weights.sum(1, keepdim=True) if divided else 1.0
        return torch.einsum("hn,nhd->hd", weights, values) / total

    def slots(row: int, length: int, table: Any = None) -> Any:
        token = torch.arange(max(length, 0))
        entries = (tables[row] if table is None else table)[token // size].long()
        return (entries * size + token % size).clamp(0, k.shape[0] * size - 1)

    def every(**more: Any) -> Any:
        return torch.stack([of(row, slots(row, length), **more) for row, length in enumerate(lengths)])

    def other(where: Any) -> Any:
        return torch.stack([of(row, where(row, length)) for row, length in enumerate(lengths)])

    for hint, scale in wrong_scales(dim):
        yield hint, every(scale=scale)
    if dim != 64:
        yield "The scale is head_dim ** -0.5, and head_dim is not always 64.", every(scale=64**-0.5)
    yield NOT_DIVIDED, every(divided=False)
    if 1 < kv_heads < q_heads:
        heads = torch.arange(q_heads) % kv_heads
        yield OTHER_HEADS, every(heads=heads)
    group = q_heads // kv_heads
    if group > 1 and case["layout"] == "plain":
        yield "Head h reads KV head h // group; h % group is something else.", every(heads=torch.arange(q_heads) % group)
    if kv_heads > 1:
        yield "Every head reads KV head 0. Which one is its own, and where does it begin?", every(heads=torch.arange(q_heads) * 0)
    yield "The last token is left out. kv_lengths counts the newest one, too.", other(lambda row, n: slots(row, n - 1))
    yield "The tokens of the last block are left out when it is not full.", other(lambda row, n: slots(row, n // size * size))
    yield "There is no token at kv_lengths[i]: the last one is at kv_lengths[i] - 1.", other(lambda row, n: slots(row, n + 1))
    yield "Only the first block is read.", other(lambda row, n: slots(row, min(n, size)))
    for tile in TILES:
        if max(lengths) > tile != size:
            yield "Only the first tile is read. How far does the loop go?", other(lambda row, n, t=tile: slots(row, min(n, t)))
            yield (
                "The tokens of a last tile that is not full are left out.",
                other(lambda row, n, t=tile: slots(row, n // t * t)),
            )
    if len(lengths) > 1:
        yield "Every sequence reads the table of the first one.", other(lambda row, n: slots(row, n, tables[0]))
    straight = torch.arange(tables.shape[1]) % k.shape[0]
    yield "Is the table used? The block of token p is table[p // block_size].", other(lambda row, n: slots(row, n, straight))
    if case["layout"] != "plain":
        hint, kv = _laid_out_wrong(case)
        yield hint, every(kv=kv)
    yield from _walks(case, k, v, q, want)


def _laid_out_wrong(case: Case) -> tuple[str, tuple[Any, Any]]:
    """(hint, K and V as one sees them who takes one layout for another)"""
    from ..runners.phase2_paged import laid_out

    k, v, memory = laid_out(case)
    if case["layout"] == "together":
        _, size, heads, dim = k.shape
        strides = size * heads * dim, heads * dim, dim, 1
        return SIDE_BY_SIDE, tuple(x.as_strided(x.shape, strides, x.storage_offset()).double() for x in (k, v))
    room = memory[1].new_full((2 * memory[1].numel(),), math.nan)
    room[: memory[1].numel()] = memory[1].flatten()
    return ITS_OWN, (k.double(), room.as_strided(k.shape, k.stride(), v.storage_offset()).double())


def _walks(case: Case, k: Any, v: Any, q: Any, want: Any) -> Iterator[tuple[str, Any]]:
    """What a walk in tiles of several sizes leads to that rescales too little, or that lets lanes behind the last token weigh."""
    import torch

    size, group = k.shape[1], q.shape[1] // k.shape[2]
    for tile in TILES:
        found: dict[str, Any] = {}
        padded = []
        for row, length in enumerate(case["lengths"].tolist()):
            if not length:
                padded.append(torch.zeros_like(want[row]))
                continue
            token = torch.arange(length)
            at = case["tables"][row, token // size].long() * size + token % size
            keys, values = (x.flatten(0, 1)[at].repeat_interleave(group, 1) for x in (k, v))
            scores = torch.einsum("hd,nhd->hn", q[row], keys) * q.shape[2] ** -0.5
            lse = scores.logsumexp(1, keepdim=True)
            padded.append(want[row] * (lse - torch.logaddexp(lse, torch.tensor(float(-length % tile)).log())).exp())
            for hint, out in walks(scores, values.transpose(0, 1), tile)[0].items():
                found.setdefault(hint, torch.zeros_like(want).double())[row] = out
        yield from found.items()
        yield PADDED, torch.stack(padded)


def write_slip(case: Case, got_k: Any, got_v: Any) -> str:
    """The hint for the slip that explains a cache after a write, or ""."""
    right_k, right_v = written(case)
    before_k, before_v = case["k_blocks"], case["v_blocks"]

    def is_(k: Any, v: Any) -> bool:
        return _same(got_k, k) and _same(got_v, v)

    if is_(before_k, before_v):
        return "Nothing was written. The cache itself is to change, not a copy of it."
    if is_(right_k, before_v) or is_(before_k, right_v):
        return "One of K and V was written, the other was not."
    for hint, changed in _write_slips(case):
        if is_(*written(case | changed)):
            return hint
    wrong_k, wrong_v = _bits(got_k) != _bits(right_k), _bits(got_v) != _bits(right_v)
    if (_bits(got_k) == _bits(before_k))[wrong_k].all() and (_bits(got_v) == _bits(before_v))[wrong_v].all():
        slots = wrong_k.flatten(0, 1).flatten(1).any(1).nonzero().flatten().tolist()
        return "0 is a slot like any other. Only -1 says that there is none." if slots == [0] else MISSING
    held = case["slots"][case["slots"] >= 0]
    if all(_same(got.flatten(0, 1)[held], right.flatten(0, 1)[held]) for got, right in ((got_k, right_k), (got_v, right_v))):
        skipped = len(held) < len(case["slots"])
        return "A token whose slot is -1 is not written at all, wherever -1 may lead." if skipped else ""
    return ""


def _write_slips(case: Case) -> Iterator[tuple[str, dict[str, Any]]]:
    """(hint, what of the case this slip takes for something else)"""
    import torch

    k, v, slots = case["k"], case["v"], case["slots"]
    yield "K lies in V's cache, and V in K's.", {"k": v, "v": k}
    yield "V was written to both caches.", {"k": v}
    yield "K was written to both caches.", {"v": k}
    heads, tokens = torch.zeros(k.shape[1], dtype=torch.long), torch.zeros(len(k), dtype=torch.long)
    yield "Every head holds what belongs to the first one. Which head is copied?", {"k": k[:, heads], "v": v[:, heads]}
    yield "Every slot holds the first token. Which token does a program copy?", {"k": k[tokens], "v": v[tokens]}
    size = case["k_blocks"].shape[1]
    for other in (16, 32, 64):
        if other < size:
            hint = f"Blocks have {size} slots here, and slots were found as if they had {other}. k_blocks.shape says how many."
            yield hint, {"slots": torch.where(slots < 0, slots, slots // other * size + slots % other)}
    number = torch.arange(len(slots))
    place = "Token i was written at place i. Its place is slots[i]."
    yield place, {"slots": number}
    yield place, {"slots": torch.where(slots < 0, -1, number)}


def _same(a: Any, b: Any) -> bool:
    """Bit for bit, NaN included."""
    return a.shape == b.shape and a.dtype == b.dtype and bool((_bits(a) == _bits(b)).all())


def _bits(x: Any) -> Any:
    import torch

    return x.contiguous().view(torch.int16)
