"""Exercise 2.4, FlashAttention forward in Triton: exact at every edge, K and V read once a tile, on tensor cores, near cuDNN.

Cases and the oracle are in flash_cases.py, the bounds of traffic in flash_traffic.py.
"""

import math
from collections.abc import Iterator
from typing import Any

from ...grading.criteria import Case, Compiled, Correct, Counted, Timed
from ...grading.exercise import Exercise
from ...grading.outcome import Mistake
from ..kernel_criteria import confirmed
from .attention_rounding import tolerance
from .attention_slips import NOT_DIVIDED, NOT_STORED, OTHER_HEADS, VERY_LOW, wrong_scales
from .flash_cases import (
    apart_cases,
    causal_cases,
    compile_cases,
    device_cases,
    expected,
    head_cases,
    inputs,
    length_cases,
    score_cases,
    traffic_cases,
)
from .flash_traffic import flash_bounds, flash_hint

BAR = 0.65  # right answers reach 0.736 to 0.749 on an H200: timed_bars.json
ZERO_AT = 0.3
GOAL = 0.8
OF_ITS_OWN = "k and v lie in different places and orders here. Whose strides lead to a row of v?"
BESIDE = "NaN lies behind the last row of q, k and v, and a weight of 0 does not silence it. Load only rows of V that exist."
NO_KEY = "The first rows see no key at all. What is -inf - (-inf), and what is acc / l there?"
NOT_INFINITE = "Rows that see no key got something. A mask that is a number, however low, is that row's largest: weight 1."
LOW = "The scores are very low here. Was something in the row higher: a mask other than -inf, a maximum that began at a number?"


def _check(case: Case, output: Any) -> Mistake | None:
    from ...grading.compare import compare_tensor

    q, k, v = inputs(case)
    want = expected(case)
    relative, absolute = tolerance(q, k, v)
    mistake = compare_tensor(output, want.to(q.dtype), rtol=relative, atol=absolute)
    if mistake is None:
        return None
    return Mistake(f"out: {mistake.reason}", _known_slip(case, output, want, (2 * relative, 2 * absolute)) or mistake.hint)


def _known_slip(case: Case, got: Any, want: Any, within: tuple[float, float]) -> str:
    """The hint for the slip that explains every value of an answer, or ""."""
    import torch

    from ...grading.compare import compare_tensor

    if not isinstance(got, torch.Tensor) or got.shape != want.shape:
        return ""
    if got.isnan().any():
        if "buffer" in case:
            return OF_ITS_OWN if "values" in case else BESIDE
        blind = _blind_rows(want.shape[1], inputs(case)[1].shape[1], case["causal"])
        lost = got.isnan().any(3).any(2).any(0).nonzero().max()
        return NO_KEY if lost < blind else NOT_STORED
    if not bool(got.any()) and _largest(*(part.double() for part in inputs(case)[:2]), case["causal"]).max() < VERY_LOW:
        return LOW
    for hint, value in _slips(case, want):
        if compare_tensor(got, value.to(got.dtype), rtol=within[0], atol=within[1]) is None:
            return hint
    blind = _blind_rows(want.shape[1], inputs(case)[1].shape[1], case["causal"])
    if blind and compare_tensor(got[:, blind:], want[:, blind:].to(got.dtype), rtol=within[0], atol=within[1]) is None:
        return NOT_INFINITE
    return OF_ITS_OWN if "values" in case else ""


def _blind_rows(q_len: int, kv_len: int, causal: bool) -> int:
    return max(q_len - kv_len, 0) if causal else 0


def _slips(case: Case, want: Any) -> Iterator[tuple[str, Any]]:
    """(hint, what this slip leads to)"""
    import torch

    from ...attention.reference import attention_reference

    q, k, v = (part.double() for part in inputs(case))
    causal = case["causal"]
    q_len, kv_len, q_heads, kv_heads = q.shape[1], k.shape[1], q.shape[2], k.shape[2]
    out, lse = attention_reference(q, k, v, causal=causal)

    for hint, scale in wrong_scales(q.shape[-1]):
        yield hint, attention_reference(q, k, v, causal=causal, scale=scale)[0]
    if causal:
        yield "Every key is seen. Which may query i see?", attention_reference(q, k, v, causal=False)[0]
        if q_len != kv_len:
            order = torch.arange(max(q_len, kv_len))
            yield "The mask is aligned at the first key. Query i sees the keys up to i + kv_len - q_len.", _masked(
                q, k, v, order[None, :kv_len] <= order[:q_len, None]
            )
        newest = torch.arange(q_len)[:, None] + kv_len - q_len
        keys = torch.arange(kv_len)[None]
        yield "A query sees its own position, too: <=, not <.", _masked(q, k, v, keys < newest)
        yield "The last key that query i sees is i + kv_len - q_len, not the one behind it.", _masked(q, k, v, keys <= newest + 1)
    if 1 < kv_heads < q_heads:
        pick = torch.arange(q_heads) % kv_heads
        yield OTHER_HEADS, attention_reference(q, k[:, :, pick], v[:, :, pick], causal=causal)[0]
    blind = _blind_rows(q_len, kv_len, causal)
    if blind:
        yield "A row without a key gives zeros, not the mean of all values.", out.index_fill(
            1, torch.arange(blind), 0.0
        ) + v.mean(1, keepdim=True).repeat_interleave(q_heads // kv_heads, 2) * (torch.arange(q_len) < blind)[None, :, None, None]
    if kv_len:
        largest = _largest(q, k, causal)
        yield NOT_DIVIDED, out * torch.exp(lse - largest).transpose(1, 2)[..., None].nan_to_num()


def _masked(q: Any, k: Any, v: Any, seen: Any) -> Any:
    """Attention in double precision with any mask [q_len, kv_len]; zeros where a row sees nothing."""
    weights = _scores(q, k).masked_fill(~seen, -math.inf).softmax(-1).nan_to_num()
    return (weights @ v.transpose(1, 2).repeat_interleave(q.shape[2] // k.shape[2], 1)).transpose(1, 2)


def _scores(q: Any, k: Any) -> Any:
    keys = k.transpose(1, 2).repeat_interleave(q.shape[2] // k.shape[2], 1)
    return q.transpose(1, 2) @ keys.transpose(2, 3) * q.shape[-1] ** -0.5


def _largest(q: Any, k: Any, causal: bool) -> Any:
    import torch

    scores = _scores(q, k)
    if causal:
        q_len, kv_len = scores.shape[-2:]
        scores = scores.masked_fill(torch.ones(q_len, kv_len).triu(kv_len - q_len + 1) > 0, -math.inf)
    return scores.amax(-1)


def _correct(name: str, claim: str, points: float, cases: Any, run: str = "flash_attention") -> Correct:
    return Correct(name=name, claim=claim, points=points, cases=cases, check=_check, run=run, launches=True)


FLASH = Exercise(
    id="2.4",
    title="FlashAttention forward in Triton",
    entry="flash_attention",
    params=("q", "k", "v", "causal"),
    returns="out, as q",
    runner="phase2_flash",
    may_import=frozenset({"math", "torch", "triton"}),
    seconds=120.0,  # the interpreter takes its time for small tiles
    criteria=(
        _correct("lengths", "any number of queries and keys, both head dims, fp16 and bf16", 2.0, length_cases),
        _correct("causal", "the mask is bottom-right, and a row without a key gives zeros", 2.0, causal_cases),
        _correct("heads", "each query head reads the KV head of its group", 1.0, head_cases),
        _correct("scores", "scores of any size, -20,000 on the only key among them", 0.5, score_cases),
        _correct("rows apart", "views of one buffer; nothing between or behind is used", 1.0, apart_cases, "flash_views"),
        Counted(
            name="traffic",
            claim="K and V are read at most once for 64 queries, and no tile is touched that nobody sees",
            points=2.0,
            cases=traffic_cases,
            check=_check,
            run="flash_attention",
            bounds=flash_bounds,
            hint=flash_hint,
            launches=True,
        ),
        Compiled(
            name="compiled",
            claim="compiles for A100 and H100 with tensor cores, without spills, within shared memory",
            points=1.5,
            cases=compile_cases,
            check=_check,
            run="flash_attention",
            targets=("sm_80", "sm_90"),
            tensor_cores=True,
            launches=True,
        ),
        Timed(
            name="this device",
            claim="near cuDNN's attention at 4096 tokens, and right for keys beyond 2**31 elements",
            points=4.0,
            cases=device_cases,
            check=_check,
            run="flash_attention",
            observe="flash_on_this_device",
            confirm=confirmed(
                wrong="out was not the attention of q, k and v",
                fresh="q has",
                far="keys that begin 2**31 elements behind the first were not attended to right",
                offset="batch * stride",
            ),
            bar=BAR,
            zero_at=ZERO_AT,
            goal=GOAL,
            devices=("NVIDIA H200",),
        ),
    ),
)
