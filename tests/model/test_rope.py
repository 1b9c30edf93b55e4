"""Rotary positions: against complex numbers, and the long-context stretch of Llama 3."""

import math

import pytest
import torch

from course_lib.model.config import Llama3Scaling
from course_lib.model.rope import inverse_frequencies, llama3_scaled, rotate, scaling_of, turns

from .tiny import config

RELEASED = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192}  # Llama 3.1's config.json  # fmt: skip


def test_a_rotation_is_a_product_of_complex_numbers():
    """The pair (x[i], x[i + dim / 2]) is one number, turned by position * theta ** (-2 i / dim)."""
    x = torch.randn(2, 7, 3, 16, dtype=torch.float64)
    positions = torch.tensor([[0, 1, 2, 3, 4, 5, 6], [11, 12, 500, 501, 3, 2, 900]])
    cos, sin = turns(positions, inverse_frequencies(config()), torch.float64)
    pair = torch.arange(8, dtype=torch.float64)
    angle = positions[..., None].double() * 10000.0 ** (-2 * pair / 16)
    numbers = torch.complex(x[..., :8], x[..., 8:]) * torch.polar(torch.ones_like(angle), angle)[:, :, None]
    expected = torch.cat((numbers.real, numbers.imag), -1)
    # angles are float32: a position of 900 has 6e-5 of rounding
    torch.testing.assert_close(rotate(x, cos, sin), expected, rtol=0, atol=4e-4)
    torch.testing.assert_close(rotate(x, cos, sin)[0], expected[0], rtol=0, atol=4e-6)


def test_scores_depend_on_the_distance_only():
    q, k = torch.randn(2, 1, 1, 1, 16)

    def score(at, distance):
        f = inverse_frequencies(config())
        turned = [rotate(x, *turns(torch.tensor([[p]]), f, torch.float32)) for x, p in ((q, at), (k, at - distance))]
        return float((turned[0] * turned[1]).sum())

    assert score(9, 4) == pytest.approx(score(57, 4), abs=1e-4)
    assert score(9, 4) != pytest.approx(score(9, 5), abs=1e-3)


def test_llama3_scaling_leaves_fast_pairs_slows_slow_ones_and_joins_between():
    """By wave lengths, as its authors write it: below 8192 / 4 as before, above 8192 / 1 eight times longer, between a mix."""
    plain = inverse_frequencies(config(head_dim=128, rope_theta=500000.0))
    scaled = llama3_scaled(plain, scaling_of(RELEASED))
    kinds = set()
    for before, after in zip(plain.tolist(), scaled.tolist(), strict=True):
        wave = 2 * math.pi / before
        if wave < 8192 / 4:
            expected, kind = before, "fast"
        elif wave > 8192 / 1:
            expected, kind = before / 8, "slow"
        else:
            smooth = (8192 / wave - 1) / (4 - 1)
            expected, kind = (1 - smooth) * before / 8 + smooth * before, "between"
        kinds.add(kind)
        assert after == pytest.approx(expected, rel=1e-5)
    assert kinds == {"fast", "slow", "between"}


def test_a_scaling_that_is_not_implemented_is_refused_by_name():
    assert scaling_of(None) is None
    assert scaling_of({"rope_type": "default"}) is None
    assert scaling_of(RELEASED) == Llama3Scaling(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_context=8192)
    for unknown in ({"type": "yarn", "factor": 4}, {"rope_type": "dynamic"}, {"factor": 2.0}):
        with pytest.raises(ValueError, match=r"rope scaling .* is not implemented; 'llama3' is"):
            scaling_of(unknown)
    with pytest.raises(ValueError, match=r"lacks \['factor'\]"):
        scaling_of({name: value for name, value in RELEASED.items() if name != "factor"})
