"""Exercise 2.1, the merge of partial softmaxes: what is asked, and how an answer is judged. Its cases are in merge_cases.py."""

from typing import Any

from ...grading.criteria import Case, Correct
from ...grading.exercise import Exercise
from ...grading.outcome import Mistake
from .merge_cases import empty_cases, group_cases, key_cases, large_cases, unwritten_cases

# float32: exp rounds by |score - m| * 6e-8, which weighs at most 1e-6 here, and a sum of 129 terms by less
RTOL = 1e-5
NAMES = ("m", "l", "acc")
UNWRITTEN = "A weight of 0 does not silence a NaN: 0 * NaN is NaN."
NOTHING_MINUS_NOTHING = "What is -inf - (-inf), and in which rows does it come up?"
FINITE = "Does a finite number stand in for -inf? A score may be lower still."


def _check(case: Case, output: Any) -> Mistake | None:
    from ...attention.online_softmax import Partial, merge_parts
    from ...grading.compare import compare_tensor, describe

    if not isinstance(output, (tuple, list)) or len(output) != 3:
        return Mistake(f"expected three tensors (m, l, acc), got {describe(output)}")
    expected = merge_parts(Partial(*(case[name].double() for name in NAMES)))
    for name, got, want in zip(NAMES, output, expected, strict=True):
        want = want.float()
        # what is left of acc after values of both signs cancel is small beside the sum of weights, and its error is not
        atol = RTOL * float(expected[1].max()) if name == "acc" else 0.0
        if mistake := compare_tensor(got, want, rtol=0.0 if name == "m" else RTOL, atol=atol):
            return Mistake(f"{name}: {mistake.reason}", _known_slip(case, name, got) or mistake.hint)
    return None


def _known_slip(case: Case, name: str, got: Any) -> str:
    """The hint for the slip that explains every value of an answer, or ""."""
    import torch

    from ...grading.compare import compare_tensor

    if not isinstance(got, torch.Tensor) or got.dtype != torch.float32:
        return ""
    if got.isnan().any():
        return UNWRITTEN if case["l"].isnan().any() else NOTHING_MINUS_NOTHING
    if case["l"].isnan().any():
        return ""
    if name == "l" and (got == 0).any() and not (got > 0).any():
        return FINITE
    for part, hint, slip in SLIPS:
        value = _merged(case, slip)[NAMES.index(name)] if part == name else None
        if value is not None and compare_tensor(got, value.float(), rtol=1e-4, atol=1e-6) is None:
            return hint
    return "A result of merge is a part as well, of all keys of its group." if "groups" in case else ""


def _merged(case: Case, slip: Any) -> tuple[Any, Any, Any]:
    """What comes of a case when every merge is done as in `slip`, groups first where the case has some."""
    import torch

    parts = tuple(case[name].double() for name in NAMES)
    if "groups" not in case:
        return _with(slip, *parts)
    merged = [_with(slip, *(part[group] for part in parts)) for group in case["groups"]]
    return _with(slip, *(torch.stack([one[place] for one in merged]) for place in range(3)))


def _with(slip: Any, m: Any, l: Any, acc: Any) -> tuple[Any, Any, Any]:
    """A merge in which `slip` replaces some of m, l and acc. Parts without a key weigh nothing."""
    import torch

    largest = m.amax(0)
    weight = (m - torch.where(largest.isinf(), 0.0, largest)).exp()
    right = {"m": largest, "l": (weight * l).sum(0), "acc": (weight[..., None] * acc).sum(0)}
    return tuple((right | slip(m, l, acc, weight)).values())


SLIPS: tuple[tuple[str, str, Any], ...] = (  # (part, hint, what the slip makes of (m, l, acc, weights))
    ("m", "The largest of the parts, or their sum?", lambda m, l, acc, weight: {"m": m.sum(0)}),
    ("m", "The largest of the parts, or the smallest?", lambda m, l, acc, weight: {"m": m.amin(0)}),
    ("l", "Each part's l was summed as if all parts had the same maximum.", lambda m, l, acc, weight: {"l": l.sum(0)}),
    (
        "l",
        "How many keys does a part stand for? Its l says it, and it need not be 1.",
        lambda m, l, acc, weight: {"l": weight.sum(0)},
    ),
    ("l", "Which of m - m_max and m_max - m is at most 0?", lambda m, l, acc, weight: {"l": (l / weight).sum(0)}),
    ("acc", "l was rescaled, acc was not.", lambda m, l, acc, weight: {"acc": acc.sum(0)}),
    (
        "acc",
        "Divide by l at the very end, not here: a merged part has to be merged again.",
        lambda m, l, acc, weight: {"acc": _divided((weight[..., None] * acc).sum(0), (weight * l).sum(0)[..., None])},
    ),
    (
        "acc",
        "acc already contains its part's weights; is l in it once more?",
        lambda m, l, acc, weight: {"acc": (weight[..., None] * l[..., None] * acc).sum(0)},
    ),
)


def _divided(acc: Any, l: Any) -> Any:
    return acc / l.where(l > 0, 1.0)


def _correct(name: str, claim: str, points: float, cases: Any, run: str = "merge") -> Correct:
    return Correct(name=name, claim=claim, points=points, cases=cases, check=_check, run=run, may_alias=True)


MERGE = Exercise(
    id="2.1",
    title="Online softmax and its merge",
    entry="merge",
    params=("m", "l", "acc"),
    returns="(m [rows], l [rows], acc [rows, dim]), float32",
    runner="phase2_merge",
    criteria=(
        _correct("keys", "parts that are single keys give the softmax's maximum, sum and weighted values", 2.0, key_cases),
        _correct("groups", "what was merged can be merged again, in any grouping", 1.5, group_cases, "merge_in_groups"),
        _correct("empty parts", "a part without a key changes nothing, and rows without any stay empty", 1.0, empty_cases),
        _correct("unwritten memory", "what an empty part holds in l and acc does not matter", 0.5, unwritten_cases),
        _correct("large scores", "scores of any size, without overflow", 1.0, large_cases),
    ),
)
