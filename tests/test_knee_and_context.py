"""The arithmetic of the benchmarks knee and context_sweep, on numbers whose result is known."""

import pytest

from benchmarks.context_sweep import line
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


def test_a_cliff_shows_as_a_distance_from_the_line():
    xs = [512, 1024, 2048, 4096, 8192, 16384]
    straight = [3.5 + 1e-4 * x for x in xs]
    assert line(xs, straight) == pytest.approx(straight)
    cliff = [y + (2.0 if x > 4096 else 0.0) for x, y in zip(xs, straight, strict=True)]
    assert max(abs(y / f - 1) for y, f in zip(cliff, line(xs, cliff), strict=True)) > 0.1
