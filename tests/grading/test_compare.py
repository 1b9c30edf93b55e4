"""An output is compared element by element, and the message says where and how it differs."""

import pytest
import torch

from course_lib.grading.compare import compare_tensor
from course_lib.grading.inside.border import Opaque

WANT = torch.tensor([[1.0, 2.0, float("nan")], [4.0, float("inf"), -6.0]], dtype=torch.float64)


def compare(got, rtol=1e-6, **more):
    return compare_tensor(got, WANT, rtol=rtol, **more)


def test_equal_tensors_pass_and_nan_and_inf_must_stand_in_their_places():
    assert compare(WANT.clone()) is None
    assert compare(WANT * (1 + 5e-7)) is None
    for place, value in (((0, 2), 0.0), ((0, 0), float("nan")), ((1, 1), 1e300), ((1, 1), -float("inf")), ((0, 2), float("inf"))):
        wrong = WANT.clone()
        wrong[place] = value
        mistake = compare(wrong)
        assert mistake is not None, (place, value)
        assert f"first at {list(place)}" in mistake.reason


@pytest.mark.parametrize(
    ("got", "words"),
    [
        (None, "got None (is a return missing?)"),
        (3.5, "got float 3.5"),
        ("text", "got str 'text'"),
        (WANT.tolist(), "got a list of 2"),
        (Opaque("builtins.object"), "got builtins.object"),
        (Opaque("torch.Tensor", "9 bytes, more than the 3 that cross"), "more than the 3"),
        (WANT[:1], "expected shape [2, 3], got [1, 3]"),
        (WANT.T, "got [3, 2]"),
        (WANT.flatten(), "got [6]"),
        (WANT.float(), "expected dtype float64, got float32"),
        (torch.tensor(1.0, dtype=torch.float64), "got []"),
    ],
    ids=lambda v: str(type(v).__name__),
)
def test_what_has_the_wrong_form_is_described(got, words):
    assert words in compare(got).reason


def test_the_first_wrong_element_and_its_distance_are_named():
    wrong = WANT.clone()
    wrong[1, 2] += 0.5
    mistake = compare(wrong, rtol=0.01)
    assert mistake.reason == (
        "1 of 6 values differ (rtol 0.01, atol 0); first at [1, 2]: got -5.5, expected -6, 8.3 times the tolerance"
    )
    assert "got 0.295, expected 295" in compare_tensor(torch.tensor(0.295), torch.tensor(295.0), rtol=1e-6).reason


@pytest.mark.parametrize(
    ("make", "hint"),
    [
        (lambda x: x / 1000, "0.001 times the right one"),
        (lambda x: 1 / x, "the inverse"),
        (lambda x: x.float().mul(1 + 1e-7).double(), "single precision only"),
        (lambda x: x * torch.nan, "where does the first nan"),
        (torch.zeros_like, "every wrong value is 0"),
        (lambda x: x + torch.arange(1.0, 6.0), ""),
    ],
)
def test_the_hint_names_the_kind_of_mistake(make, hint):
    want = torch.rand(5, dtype=torch.float64) + 2
    mistake = compare_tensor(make(want), want, rtol=1e-10)
    assert hint in mistake.hint.lower()
    assert bool(mistake.hint) == bool(hint)


def test_a_shuffled_shape_is_recognised():
    assert "another order" in compare(WANT.T).hint
    assert "number of values is right" in compare(WANT.flatten()).hint


def test_close_values_are_printed_with_enough_digits_to_differ():
    want = torch.tensor([295.343283582], dtype=torch.float64)
    reason = compare_tensor(want + 1e-7, want, rtol=1e-12).reason
    assert "got 295.343283682, expected 295.343283582" in reason
