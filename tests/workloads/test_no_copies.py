"""A learner's host code may allocate, fill and make views, and copies no input, whatever it copies with."""

import pytest
import torch

from course_lib.workloads.no_copies import without_copies

X = torch.arange(24, dtype=torch.float16).reshape(4, 6)
X[1, 2] = torch.nan  # a copy of a NaN is a copy


@pytest.mark.parametrize(
    "copy",
    [
        lambda x: x.clone(), lambda x: x.float(), lambda x: x * 1, lambda x: x + 0, lambda x: x.t().contiguous(),
        lambda x: torch.empty_like(x).copy_(x), lambda x: torch.cat([x, x]), lambda x: x[:, :3] * 1, lambda x: x.reshape(-1) + 0,
        lambda x: torch.where(torch.ones_like(x, dtype=torch.bool), x, x), lambda x: (x * 2) * 0.5, lambda x: x.neg().neg(),
        lambda x: torch.nn.functional.pad(x, (0, 1))[:, :-1], lambda x: torch.add(input=x, other=0),
    ],
)  # fmt: skip
def test_a_copy_of_an_input_is_refused(copy):
    with pytest.raises(ValueError, match="an input outside of your launches"):
        without_copies(copy, X.clone())


@pytest.mark.parametrize(
    "fine",
    [
        lambda x: torch.empty_like(x), lambda x: torch.zeros(4, 6), lambda x: x.contiguous(), lambda x: x[:, 1:4].t(),
        lambda x: x.reshape(2, 12), lambda x: (x.stride(), x.shape), lambda x: torch.full((3,), 7.0).clone(),
    ],
)  # fmt: skip
def test_what_moves_no_input_passes(fine):
    x = X.clone()
    without_copies(fine, x)
    torch.testing.assert_close(x, X, equal_nan=True)


@pytest.mark.parametrize(("copy", "does"), [
    (lambda x: x.clone(), "copies"), (lambda x: x.float(), "converts"), (lambda x: x.neg(), r"reads \(neg\)"),
])  # fmt: skip
def test_the_message_says_what_was_done(copy, does):
    with pytest.raises(ValueError, match=f"this {does} an input"):
        without_copies(copy, X.clone())


def test_an_input_is_no_place_for_a_result():
    with pytest.raises(ValueError, match=r"reads \(neg\)"):
        without_copies(lambda x: torch.neg(torch.ones(4, 6, dtype=x.dtype), out=x), X.clone())


def test_an_input_without_elements_is_not_every_tensor_without_elements():
    assert without_copies(lambda x: torch.empty(0).clone(), torch.empty(0, 6)).numel() == 0


def test_lengths_and_tables_may_be_looked_at():
    lengths = torch.tensor([3, 5])
    assert without_copies(lambda x, lengths: int(lengths.max()), X, lengths) == 5


def test_what_is_no_tensor_may_be_an_argument_too():
    assert without_copies(lambda x, causal: (x.shape[0], causal), X, True) == (4, True)
