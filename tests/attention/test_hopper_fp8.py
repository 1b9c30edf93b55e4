"""FP8 attention: what its numbers stand for, the order of keys, and the kernel's own source run by threads, against float64."""

import pytest
import torch

from course_lib.attention.hopper_fp8 import hopper_attention_fp8, quantise_heads, rotated, transpose_values
from course_lib.attention.hopper_ladder import EVERY_STEP
from course_lib.attention.hopper_launch import EIGHT_TILES, Work, shared_bytes
from course_lib.attention.reference import attention_reference

from .flash_cases import random_qkv
from .test_hopper_protocol import run


def dequantised(x8, scale):
    return x8.float() * scale[:, None, :, None]


def test_numbers_come_back_within_a_sixteenth_and_the_largest_is_448():
    x = torch.randn(2, 50, 3, 128) * torch.tensor([1.0, 100.0, 1e-4])[:, None]
    x8, scale = quantise_heads(x)
    assert scale.shape == (2, 3)
    assert (x8.float().abs().amax((1, 3)) == 448).all()
    large = x.abs() > scale[:, None, :, None] * 2**-6  # smaller ones lose bits
    assert ((dequantised(x8, scale) - x).abs() <= x.abs() / 16)[large].all()
    assert (quantise_heads(torch.zeros(1, 2, 1, 128))[1] == 1).all()


def test_values_are_transposed_in_the_order_of_an_operand():
    rows = torch.arange(20.0).view(1, 20, 1, 1).expand(1, 20, 1, 128)
    found = transpose_values(rows.to(torch.float8_e4m3fn))
    assert found.shape == (1, 1, 128, 32)
    order = [0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15, 16, 17, 0, 0, 18, 19] + [0] * 10
    expected = torch.tensor(order, dtype=torch.float32).to(torch.float8_e4m3fn).float()
    assert (found.float()[0, 0] == expected).all()


def test_a_rotation_changes_no_score_and_spreads_an_outlier():
    q, k = torch.randn(1, 6, 2, 128), torch.randn(1, 7, 2, 128)
    q[..., 5] *= 100
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k)
    torch.testing.assert_close(torch.einsum("bqhd,bkhd->bhqk", rotated(q), rotated(k)), scores, rtol=1e-3, atol=1e-2)
    assert rotated(q).abs().max() < q.abs().max() / 5
    half = rotated(q.bfloat16(), seed=1)
    assert half.dtype == torch.bfloat16
    assert (half - rotated(q)).abs().max() > 1  # other signs
    with pytest.raises(ValueError, match="got head_dim 96"):
        rotated(torch.zeros(1, 1, 1, 96))


@pytest.mark.parametrize("causal", [False, True])
def test_the_kernel_is_attention_of_the_dequantised(causal):
    """What is left is the rounding of weights to 3 bits behind the point: each by at most 1/16 of itself, at random."""
    q, k, v = random_qkv(2, 200, 300, 4, 2, 128, torch.float32)
    v[:, :, 1] *= 50
    (q8, qs), (k8, ks), (v8, vs) = (quantise_heads(x) for x in (q, k, v))
    expected, expected_lse = attention_reference(*(dequantised(x, s) for x, s in ((q8, qs), (k8, ks), (v8, vs))), causal=causal)
    out, lse = torch.full(q.shape, torch.nan, dtype=torch.bfloat16), torch.full((2, 4, 200), torch.nan)
    work = Work(q8, k8, transpose_values(v8), out, lse, causal, 128**-0.5, 200, 300, None, (qs, ks, vs))
    run(work, None, 2, EVERY_STEP, EIGHT_TILES[128])
    for heads in (slice(0, 2), slice(2, 4)):
        error = (out.double() - expected)[:, :, heads].norm() / expected[:, :, heads].norm()
        assert error < 0.04, error
    torch.testing.assert_close(lse.double(), expected_lse, rtol=1e-5, atol=1e-4)


def test_a_wrong_order_would_be_seen():
    """The same without the order of keys is far off."""
    q, k, v = random_qkv(1, 64, 64, 1, 1, 128, torch.float32)
    (q8, qs), (k8, ks), (v8, vs) = (quantise_heads(x) for x in (q, k, v))
    expected, _ = attention_reference(*(dequantised(x, s) for x, s in ((q8, qs), (k8, ks), (v8, vs))))
    out = torch.full(q.shape, torch.nan, dtype=torch.bfloat16)
    plain = v8.view(torch.uint8).permute(0, 2, 3, 1).contiguous().view(torch.float8_e4m3fn)
    run(Work(q8, k8, plain, out, None, False, 128**-0.5, 64, 64, None, (qs, ks, vs)), None, 1, EVERY_STEP, EIGHT_TILES[128])
    assert (out.double() - expected).norm() / expected.norm() > 0.3


def test_bad_input_is_refused_in_words():
    x = torch.zeros(1, 20, 2, 128).to(torch.float8_e4m3fn)
    vt, scale = transpose_values(x), torch.ones(1, 2)
    for change, words in (
        ({"q": x[..., :64]}, "must be .batch, rows, heads, 128."), ({"v": x}, r"as transpose_values makes it, \[1, 2, 128, 32\]"),
        ({"k": x.float()}, "k must be contiguous float8_e4m3fn"), ({"q_scale": torch.ones(2)}, r"must be float32 \[1, 2\]"),
        ({"q": x[:, ::2]}, "q must be contiguous"), ({"q": x.expand(2, -1, -1, -1)}, "of one batch"),
        ({"q": torch.cat([x, x[:, :, :1]], 2)}, "q_heads be a multiple of kv_heads"),
    ):  # fmt: skip
        given = {"q": x, "k": x, "v": vt, "q_scale": scale, "k_scale": scale, "v_scale": scale} | change
        with pytest.raises(ValueError, match=words):
            hopper_attention_fp8(**given)
    with pytest.raises(RuntimeError, match="q is on cpu"):
        hopper_attention_fp8(x, x, vt, scale, scale, scale)
    assert shared_bytes(EIGHT_TILES[128], 128) // 2 <= 232_448
