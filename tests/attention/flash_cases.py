"""Inputs and budgets that the tests of the forward kernel share, here and on a device."""

import torch

EPS = {torch.float32: 2.0**-23, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}


def random_qkv(batch, q_len, kv_len, q_heads, kv_heads, head_dim, dtype, seed=0, device="cpu"):
    generator = torch.Generator(device).manual_seed(seed)
    shapes = (batch, q_len, q_heads, head_dim), (batch, kv_len, kv_heads, head_dim), (batch, kv_len, kv_heads, head_dim)
    return tuple(torch.randn(shape, generator=generator, device=device).to(dtype) for shape in shapes)


def assert_within_budget(found, expected, v, dtype, lse_error=2.0**-17):
    """found, expected: (out, lse). The budget for out: half a unit in the last place of the result, and of every weight.

    Weights sum to 1 and are rounded to the inputs' dtype, each by at most eps / 2 of itself, so out moves by at most eps / 2 of
    the largest |v|; rounding the result adds eps / 2 of it. float32 sums and exponentials add some 2**-20.
    lse is never rounded to the inputs' dtype: it shows a key too many or too few where the budget for out would hide it.
    """
    (out, lse), (expected_out, expected_lse) = found, expected
    assert out.dtype == dtype
    assert lse.dtype == torch.float32
    largest = v.double().abs().max().item() if v.numel() else 0.0
    budget = (EPS[dtype] + 2.0**-19) * max(largest, 2.0**-10)
    assert not out.isnan().any()
    worst = (out.double() - expected_out).abs().max().item() if out.numel() else 0.0
    assert worst <= budget, f"out differs by {worst}, the budget is {budget}"
    blind = expected_lse.isneginf()
    assert torch.equal(lse.isneginf(), blind)
    seen = ~blind
    torch.testing.assert_close(lse[seen].double(), expected_lse[seen], rtol=lse_error / 4, atol=lse_error)
