"""Parts of a softmax merge in any order and grouping to the whole; the empty part changes nothing."""

import functools
import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.attention import Partial, finish, merge, merge_parts, merge_states, partial
from course_lib.attention.online_softmax import empty


def whole(scores, values):
    return (torch.softmax(scores, -1)[..., None, :] @ values).squeeze(-2), torch.logsumexp(scores, -1)


def given_scores(rows, keys, seed):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(rows, keys, generator=generator, dtype=torch.float64) * 30
    return scores, torch.randn(rows, keys, 3, generator=generator, dtype=torch.float64)


@settings(max_examples=40, deadline=None)
@given(cuts=st.lists(st.integers(0, 20), max_size=4), order=st.randoms(use_true_random=False), seed=st.integers(0, 99))
def test_any_split_in_any_order_and_grouping_gives_the_whole(cuts, order, seed):
    scores, values = given_scores(5, 20, seed)
    edges = [0, *sorted(cuts), 20]
    parts = [partial(scores[:, a:b], values[:, a:b]) for a, b in itertools.pairwise(edges)]
    order.shuffle(parts)
    while len(parts) > 1:  # merge two neighbours, whichever
        i = order.randrange(len(parts) - 1)
        parts[i : i + 2] = [merge(parts[i], parts[i + 1])]
    torch.testing.assert_close(finish(parts[0]), whole(scores, values))


def test_the_empty_part_changes_nothing_and_alone_gives_zeros():
    scores, values = given_scores(5, 7, 0)
    one, none = partial(scores, values), empty((5,), 3, torch.float64)
    for left, right in ((one, none), (none, one)):
        assert all(map(torch.equal, merge(left, right), one))
    out, lse = finish(merge(none, none))
    assert (out == 0).all()
    assert lse.isneginf().all()


def test_masked_keys_weigh_nothing_even_beside_a_score_of_minus_20000():
    scores = torch.tensor([[-20000.0, -torch.inf]])
    values = torch.tensor([[[1.0, 2.0], [5.0, 5.0]]])
    out, lse = finish(partial(scores, values))
    assert out.tolist() == [[1.0, 2.0]]
    assert lse.tolist() == [-20000.0]


def test_scores_of_1e4_do_not_overflow():
    scores, values = torch.tensor([[1e4, 1e4 - 1]]), torch.ones(1, 2, 1)
    out, lse = finish(functools.reduce(merge, [partial(scores[:, :1], values[:, :1]), partial(scores[:, 1:], values[:, 1:])]))
    torch.testing.assert_close(out, torch.ones(1, 1))
    torch.testing.assert_close(lse, torch.logsumexp(scores, -1))


def test_finished_parts_merge_and_what_an_empty_one_holds_does_not_matter():
    scores, values = given_scores(4, 12, 3)
    parts = [finish(partial(scores[:, a:b], values[:, a:b])) for a, b in ((0, 1), (1, 1), (1, 12))]
    outs, lses = (torch.stack(x) for x in zip(*parts, strict=True))
    outs[1] = torch.nan
    torch.testing.assert_close(merge_states(outs, lses), whole(scores, values))
    out, lse = merge_states(torch.full((2, 4, 3), torch.nan), torch.full((2, 4), -torch.inf))
    assert (out == 0).all()
    assert lse.isneginf().all()


def test_merged_results_have_the_dtype_of_the_parts():
    outs, lses = torch.ones(2, 3, 5, dtype=torch.bfloat16), torch.zeros(2, 3)
    out, lse = merge_states(outs, lses)
    assert (out.dtype, lse.dtype) == (torch.bfloat16, torch.float32)


def test_shapes_that_do_not_fit_are_named():
    with pytest.raises(ValueError, match=r"got \[2, 4, 3\] and \[2, 3\]"):
        merge_states(torch.zeros(2, 4, 3), torch.zeros(2, 3))
    with pytest.raises(ValueError, match="at least one part"):
        merge_states(torch.zeros(0, 4, 3), torch.zeros(0, 4))


def test_many_parts_merge_as_one_after_the_other():
    """Of 5 parts of 3 rows one is empty and holds what its memory held; in the last row all are."""
    torch.manual_seed(4)
    parts = Partial(torch.randn(5, 3).double(), torch.rand(5, 3).double(), torch.randn(5, 3, 7).double())
    parts.m[1, 0] = parts.m[:, 2] = -torch.inf
    expected = Partial(*(x[0] for x in parts))
    expected.l[2], expected.acc[2] = 0, 0
    for i in range(1, 5):
        one = Partial(*(x[i].clone() for x in parts))
        one.l[one.m == -torch.inf] = 0
        one.acc[one.m == -torch.inf] = 0
        expected = merge(expected, one)
    parts.l[parts.m == -torch.inf] = torch.nan
    parts.acc[parts.m == -torch.inf] = torch.nan
    for found, wanted in zip(merge_parts(parts), expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
    assert not merge_parts(parts).acc[2].any()
