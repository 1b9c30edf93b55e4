"""Exercise 2.1, the merge of partial softmaxes: what is asked, and how an answer is judged. Its cases are in merge_cases.py."""

from collections.abc import Iterator
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

    if isinstance(got, torch.Tensor) and got.isnan().any():
        return UNWRITTEN if case["l"].isnan().any() else NOTHING_MINUS_NOTHING
    if "groups" in case:
        return "A result of merge stands for all keys of its group. Is its l treated as more than one key?"
    slips = ((hint, value) for slip, hint, value in _slips(case) if slip == name)
    return next((hint for hint, value in slips if compare_tensor(got, value.float(), rtol=1e-4, atol=1e-6) is None), "")


def _slips(case: Case) -> Iterator[tuple[str, str, Any]]:
    """(part, hint, what this slip leads to)"""
    m, l, acc = (case[key].double() for key in NAMES)
    largest = m.amax(0)
    weight = (m - largest).exp()
    yield "m", "The largest of the parts, or their sum?", m.sum(0)
    yield "m", "The largest of the parts, or the smallest?", m.amin(0)
    yield "l", "Each part's l was summed as if all parts had the same maximum.", l.sum(0)
    yield "l", "How many keys does a part stand for? Its l says it, and it need not be 1.", weight.sum(0)
    yield "l", "Which of m - m_max and m_max - m is at most 0?", ((largest - m).exp() * l).sum(0)
    yield "acc", "l was rescaled, acc was not.", acc.sum(0)
    yield "acc", "Divide by l at the very end, not here: a merged part has to be merged again.", (
        (weight[..., None] * acc).sum(0) / (weight * l).sum(0)[..., None]
    )
    yield "acc", "acc already contains its part's weights; is l in it once more?", (weight[..., None] * l[..., None] * acc).sum(0)


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
