"""FP8 attention on a Hopper GPU against float64 of what the FP8 numbers stand for; the same bits every time."""

import random

import pytest
import torch

from course_lib.attention import attention_reference, hopper_launch
from course_lib.attention.hopper_fp8 import hopper_attention_fp8, quantise_heads, rotated, transpose_values
from tests.attention.flash_cases import random_qkv

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def _needs_hopper():
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("blocked: needs a Hopper GPU")


def quantised(q, k, v):
    (q8, qs), (k8, ks), (v8, vs) = (quantise_heads(x) for x in (q, k, v))
    stands_for = [x8.double() * scale.double()[:, None, :, None] for x8, scale in ((q8, qs), (k8, ks), (v8, vs))]
    return (q8, k8, transpose_values(v8), qs, ks, vs), stands_for


@pytest.mark.parametrize("processors", [132, 3])
@pytest.mark.parametrize("causal", [False, True])
def test_twenty_random_shapes_equal_the_oracle(causal, processors, monkeypatch):
    """Weights sum to 1 and are rounded by at most 1/16 of each: the result is off by at most 1/16 of the largest |v|, and by a
    few hundredths of itself where many add up. Scores are summed with about 14 bits: |q| |k| is about 128, scaled 11, so they
    and the log-sum-exp are off by up to 11 * 2**-13 = 1.4e-3; a key too many among 100 would change it by 1e-2."""
    monkeypatch.setattr(hopper_launch, "processors_of", lambda device: processors)
    dice = random.Random(processors + causal)
    for seed in range(20):
        q_len, kv_len = (
            dice.choice([1, dice.randrange(2, 900), 128 * dice.randrange(1, 6) + dice.choice([-1, 0, 1])]) for _ in "qk"
        )  # fmt: skip
        group = dice.choice([1, 2, 4])
        q, k, v = random_qkv(dice.randrange(1, 3), q_len, kv_len, 2 * group, 2, 128, torch.float32, seed, "cuda")
        v[:, :, 1] *= 100
        arguments, stands_for = quantised(q, k, v)
        expected, expected_lse = attention_reference(*stands_for, causal=causal)
        out, lse = hopper_attention_fp8(*arguments, causal=causal, return_lse=True)
        seen = ~expected_lse.isneginf()
        assert torch.equal(lse.isneginf(), ~seen)
        torch.testing.assert_close(lse[seen].double(), expected_lse[seen], rtol=0, atol=2.0**-9)
        for kv_head in range(2):
            heads = slice(kv_head * group, (kv_head + 1) * group)
            error, largest = (out.double() - expected)[:, :, heads], stands_for[2][:, :, kv_head].abs().max()
            assert error.abs().max() <= (2.0**-4 + 2.0**-7) * largest, (seed, q_len, kv_len, kv_head)
            assert kv_len < 64 or error.norm() < 0.06 * expected[:, :, heads].norm(), (seed, q_len, kv_len, kv_head)


def test_the_same_bits_every_time():
    arguments, _ = quantised(*random_qkv(2, 2049, 3100, 8, 2, 128, torch.float32, 0, "cuda"))
    first = hopper_attention_fp8(*arguments, causal=True, return_lse=True)
    for _ in range(40):
        assert all(map(torch.equal, hopper_attention_fp8(*arguments, causal=True, return_lse=True), first))


def test_a_rotation_mends_what_outliers_cost():
    """Entries N(0, 1), one in a thousand with N(0, 100) added: table 3 of arXiv 2407.08608."""
    q, k, v = random_qkv(1, 2048, 2048, 4, 4, 128, torch.float32, 0, "cuda")
    generator = torch.Generator("cuda").manual_seed(1)
    for x in (q, k):
        outliers = torch.rand(x.shape, generator=generator, device="cuda") < 0.001
        x += outliers * torch.randn(x.shape, generator=generator, device="cuda") * 10
    expected, _ = attention_reference(q, k, v)
    errors = []
    for turn in (lambda x: x, rotated):
        arguments, _ = quantised(turn(q), turn(k), v)
        errors.append((hopper_attention_fp8(*arguments).double() - expected).pow(2).mean().sqrt().item())
    assert errors[1] < 0.7 * errors[0], errors
