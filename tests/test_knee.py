"""The arithmetic of the benchmark knee, on numbers whose result is known."""

import pytest

from benchmarks.knee import TOKENS, knee_tokens, tokens_at_share

ROOFLINE = [min(600.0, 2.0 * tokens) for tokens in TOKENS]  # 2 TFLOP/s a token, 600 at most


def test_the_knee_is_where_slope_and_roof_meet():
    assert knee_tokens(TOKENS, ROOFLINE) == pytest.approx(300)


@pytest.mark.parametrize(("share", "tokens"), [(0.3, 90), (0.5, 150), (1 / 300, 1)])
def test_tokens_at_a_share_of_the_roof(share, tokens):
    assert tokens_at_share(TOKENS, ROOFLINE, share, 600.0) == pytest.approx(tokens)


def test_a_share_that_was_not_reached_is_an_error():
    with pytest.raises(ValueError, match="not reached with 4096 tokens"):
        tokens_at_share(TOKENS, ROOFLINE, 0.9, 800.0)
