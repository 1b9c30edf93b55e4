"""Sampling: every edge of temperature, top-k and top-p, and the numbers in between."""

import math
import re

import pytest
import torch

from course_lib.model.sampling import GREEDY, Sampling, choose, generators, token_probs

LOGITS = torch.tensor([[2.0, 1.0, 3.0, 0.0]])
SOFTMAX = [math.exp(x) / sum(map(math.exp, (2, 1, 3, 0))) for x in (2, 1, 3, 0)]  # 0.237, 0.087, 0.644, 0.032


def probs(logits=LOGITS, **options):
    return token_probs(logits, Sampling(**options))[0].tolist()


def close(values):
    return pytest.approx(values, abs=1e-9)


def test_temperature_0_and_almost_0_are_greedy():
    assert probs() == probs(temperature=0) == [0, 0, 1, 0]
    assert probs(temperature=1e-6) == close([0, 0, 1, 0])
    assert probs(temperature=1e-320) == close([0, 0, 1, 0])
    near = torch.tensor([[1.0, 1.0 + 2**-23]])  # one step of float32 apart
    assert probs(near, temperature=1e-6)[1] == close(1 / (1 + math.exp(-(2**-23) / 1e-6)))
    assert probs(torch.tensor([[-1e30, 1e30]]), temperature=1e-6) == [0, 1]


def test_temperature_divides_the_logits():
    assert probs(temperature=1) == close(SOFTMAX)
    assert probs(temperature=0.5) == close([p**2 / sum(q**2 for q in SOFTMAX) for p in SOFTMAX])
    assert probs(temperature=1e9) == pytest.approx([0.25] * 4, abs=1e-8)


def test_top_k_0_is_off_1_is_greedy_and_beyond_the_vocabulary_is_all_of_it():
    for off in (0, 4, 5, 10**9):
        assert probs(temperature=1, top_k=off) == close(SOFTMAX)
    assert probs(temperature=1, top_k=1) == [0, 0, 1, 0]
    total = SOFTMAX[0] + SOFTMAX[2]
    assert probs(temperature=1, top_k=2) == close([SOFTMAX[0] / total, 0, SOFTMAX[2] / total, 0])


def test_top_p_keeps_the_token_that_crosses_the_line():
    """Sorted: 0.644, 0.237, 0.087, 0.032; sums 0.644, 0.881, 0.968, 1."""
    kept = lambda p: [place for place, value in enumerate(probs(temperature=1, top_p=p)) if value]  # noqa: E731
    assert kept(0) == kept(0.5) == kept(0.64) == [2]
    assert kept(0.65) == kept(0.88) == [0, 2]
    assert kept(0.89) == [0, 1, 2]
    assert kept(0.97) == kept(1) == [0, 1, 2, 3]
    assert probs(temperature=1, top_p=0.65) == probs(temperature=1, top_k=2)


def test_top_p_works_on_what_top_k_left():
    """Top 2 are 0.731 and 0.269 of what is left: 0.7 keeps one of them, of all four it would keep two."""
    assert probs(temperature=1, top_k=2, top_p=0.7) == [0, 0, 1, 0]
    assert [p > 0 for p in probs(temperature=1, top_p=0.7)] == [True, False, True, False]


def test_equal_logits_go_to_the_lower_ids():
    equal = torch.zeros(1, 5)
    assert probs(equal) == [1, 0, 0, 0, 0]
    assert probs(equal, temperature=1) == close([0.2] * 5)
    assert probs(equal, temperature=1, top_k=2) == close([0.5, 0.5, 0, 0, 0])
    assert probs(equal, temperature=1, top_p=0.5) == close([1 / 3, 1 / 3, 1 / 3, 0, 0])
    assert probs(equal, temperature=1, top_p=0) == [1, 0, 0, 0, 0]
    assert probs(equal, temperature=1e-6) == close([0.2] * 5)
    many = probs(torch.zeros(1, 5000), temperature=1, top_k=3)
    assert [place for place, value in enumerate(many) if value] == [0, 1, 2]


def test_a_large_vocabulary_keeps_its_tail_at_p_1():
    """Rounded sums pass 1 before the end: p = 1 must not cut there."""
    assert all(value > 0 for value in probs(torch.randn(1, 100_000), temperature=1, top_p=1.0))


@pytest.mark.parametrize(
    "options", [{}, {"temperature": 1}, {"temperature": 1e-6}, {"temperature": 1, "top_k": 3, "top_p": 0.999}]
)
def test_a_token_at_minus_infinity_is_never_drawn(options):
    found = probs(torch.tensor([[-math.inf, 1.0, -math.inf, 0.0]]), **options)
    assert found[0] == found[2] == 0
    assert sum(found) == close(1)
    assert probs(torch.tensor([[-math.inf, -5.0]]), **options) == [0, 1]


@pytest.mark.parametrize("bad", [[math.nan, 1.0], [math.inf, 1.0], [-math.inf, -math.inf]])
def test_logits_without_a_meaning_are_refused_with_their_row(bad):
    for options in ({}, {"temperature": 1}):
        with pytest.raises(ValueError, match="row 1 of the logits has the maximum"):
            token_probs(torch.tensor([[1.0, 2.0], bad]), Sampling(**options))


@pytest.mark.parametrize(("options", "words"), [
    ({"temperature": -0.1}, "temperature is -0.1; use a number from 0"), ({"temperature": math.nan}, "temperature is nan"),
    ({"temperature": math.inf}, "temperature is inf"), ({"top_k": -1}, "top_k is -1; use a whole number from 1 up, or 0"),
    ({"top_k": 2.5}, "top_k is 2.5"), ({"top_p": 1.01}, "top_p is 1.01; use 0"), ({"top_p": -0.1}, "top_p is -0.1"),
    ({"top_p": math.nan}, "top_p is nan"), ({"top_k": math.nan}, "top_k is nan"), ({"top_k": math.inf}, "top_k is inf"),
    ({"top_k": 5.0}, "top_k is 5.0"), ({"temperature": "1"}, "temperature is '1'"), ({"top_p": None}, "top_p is None"),
    ({"seed": 1.5}, "seed is 1.5; use a whole number from 0 to 4294967295"), ({"seed": None}, "seed is None"),
    ({"seed": -1}, "seed is -1"), ({"seed": 2**32}, "seed is 4294967296"),
])  # fmt: skip
def test_options_out_of_range_name_value_and_limit(options, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        Sampling(**options)


def test_arguments_are_left_as_they_were():
    logits = torch.randn(2, 50)
    before = logits.clone()
    token_probs(logits, Sampling(temperature=0.7, top_k=5, top_p=0.5))
    assert torch.equal(logits, before)


def test_half_precision_logits_work():
    assert token_probs(LOGITS.bfloat16(), Sampling(temperature=1))[0].tolist() == close(SOFTMAX)


def test_draws_follow_the_probabilities_and_never_a_zero():
    """4000 draws: a share's standard deviation is below 0.008."""
    wanted = torch.tensor([[0.0, 0.5, 0.0, 0.2, 0.3, 0.0]], dtype=torch.float64)
    stream = generators(Sampling(seed=3), 1)
    drawn = torch.cat([choose(wanted, stream) for _ in range(4000)])
    shares = torch.bincount(drawn, minlength=6) / 4000
    assert shares[[0, 2, 5]].tolist() == [0, 0, 0]
    torch.testing.assert_close(shares.double(), wanted[0], rtol=0, atol=0.035)


def test_a_row_draws_the_same_whatever_its_neighbours_do():
    wanted = torch.full((3, 90), 1 / 90)
    row = lambda streams, rows: [int(choose(wanted[:rows], streams)[1]) for _ in range(20)]  # noqa: E731
    alone = [int(choose(wanted[:1], stream)) for stream in [generators(Sampling(seed=8), 1)] for _ in range(20)]
    assert row(generators(Sampling(seed=7), 2), 2) == row(generators(Sampling(seed=7), 3), 3) == alone
    assert row(generators(Sampling(seed=6), 2), 2) != alone


@pytest.mark.parametrize("uniform", [0.0, 1 - 2**-53, 1.0])  # never drawn, but the product with the sum may round up to it
def test_the_ends_of_the_uniform_numbers_draw_possible_tokens(uniform, monkeypatch):
    monkeypatch.setattr(torch, "rand", lambda *a, **k: torch.tensor([uniform], dtype=torch.float64))
    wanted = torch.tensor([[0.0, 0.1, 0.2, 0.7 - 1e-17, 0.0]], dtype=torch.float64)
    assert int(choose(wanted, [None])) in (1, 3)


def test_greedy_is_the_default():
    assert Sampling() == GREEDY


def test_every_seed_that_is_taken_draws_something_else():
    """Torch's generator would read 32 bits of a longer seed, so those are refused. The last one's rows go on from 0."""
    drawn = lambda seed: tuple(torch.rand(4, generator=generators(Sampling(seed=seed), 1)[0]).tolist())  # noqa: E731
    assert len({drawn(seed) for seed in (0, 1, 2**31, 2**32 - 1)}) == 4
    first, second = generators(Sampling(seed=2**32 - 1), 2)
    assert torch.rand(1, generator=second) == torch.rand(1, generator=generators(Sampling(seed=0), 1)[0])
    assert first.initial_seed() == 2**32 - 1
