"""Attention: the fused path against one written out in float64, over every span that a decoder makes."""

import pytest
import torch

from course_lib.model.attend import attend_dense, attend_reference
from course_lib.model.layers import RMSNorm, Step, rms_norm_reference
from course_lib.model.rope import inverse_frequencies, rotate, turns
from course_lib.model.span import Span

from .tiny import decoder


def spans():
    ragged = torch.tensor([[0, 1, 2, -1], [4, 5, 6, 7], [-1, -1, -1, -1]])
    whole = torch.arange(9)[None]
    return {
        "whole prompt": Span(whole, 9, start=0),
        "whole prompt, window": Span(whole, 9, window=3, start=0),
        "goes on": Span(whole[:, 5:], 9, start=5),
        "one token": Span(whole[:, 8:], 9, start=8),
        "one token, window": Span(whole[:, 8:], 9, window=4, start=8),
        "ragged, a row without any token": Span(ragged, 8),
        "ragged, window": Span(ragged, 8, window=2),
        "no cache, padded": Span(ragged, 4, key_positions=ragged),
    }


def inputs(span, kv_heads, v_dim=8, dtype=torch.float64):
    made = torch.Generator().manual_seed(3)
    shapes = ((3, span.q_len, 4, 8), (3, span.keys, kv_heads, 8), (3, span.keys, kv_heads, v_dim))
    return [torch.randn(shape, generator=made, dtype=torch.float64).to(dtype) for shape in shapes]


@pytest.mark.parametrize("name", spans())
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_the_fused_path_equals_every_score_written_out(name, kv_heads):
    span = spans()[name]
    q, k, v = inputs(span, kv_heads)
    expected = attend_reference(q, k, v, span, 0.3)
    torch.testing.assert_close(attend_dense(q, k, v, span, 0.3), expected, rtol=1e-12, atol=1e-12)
    single = attend_dense(q.float(), k.float(), v.float(), span, 0.3)
    torch.testing.assert_close(single.double(), expected, rtol=1e-5, atol=1e-5)  # sums of 9 terms: 10 times the rounding


def test_grouped_heads_equal_keys_repeated_for_each_query_head():
    span = spans()["goes on"]
    q, k, v = inputs(span, 2)
    for_each = [x.repeat_interleave(2, dim=2) for x in (k, v)]
    torch.testing.assert_close(
        attend_dense(q, k, v, span, 0.3), attend_reference(q, *for_each, span, 0.3), rtol=1e-12, atol=1e-12
    )
    other_order = [x.repeat(1, 1, 2, 1) for x in (k, v)]  # head h reads h % kv_heads: the usual mistake
    assert (attend_dense(q, k, v, span, 0.3) - attend_reference(q, *other_order, span, 0.3)).abs().max() > 0.1


def test_values_may_be_narrower_than_keys():
    for name, span in spans().items():
        q, k, v = inputs(span, 2, v_dim=5)
        torch.testing.assert_close(attend_dense(q, k, v, span, 0.3), attend_reference(q, k, v, span, 0.3), msg=name)


def test_the_mask_is_aligned_bottom_right():
    seen = Span(torch.tensor([[3, 4]]), 5, start=3).mask()[0, 0]
    assert seen.tolist() == [[True, True, True, True, False], [True] * 5]
    seen = Span(torch.tensor([[3, 4]]), 5, window=2, start=3).mask()[0, 0]
    assert seen.tolist() == [[False, False, True, True, False], [False, False, False, True, True]]


def test_a_query_without_a_key_gives_zeros():
    span = spans()["ragged, a row without any token"]
    for kv_heads in (2, 4):
        for way in (attend_dense, attend_reference):
            out = way(*inputs(span, kv_heads), span, 0.3)
            assert (out[2] == 0).all()
            assert (out[0, 3] == 0).all()
            assert (out[1] != 0).any(-1).all()


def test_shortcuts_are_taken_only_where_they_are_true():
    named = spans()
    assert [name for name, span in named.items() if span.sees_all] == ["one token"]
    assert [name for name, span in named.items() if span.is_causal_square] == ["whole prompt"]
    assert Span(torch.tensor([[8]]), 9, window=9, start=8).sees_all
    assert not Span(torch.tensor([[8]]), 9, window=8, start=8).sees_all


def test_the_norm_equals_its_formula_and_sums_in_float32():
    norm = RMSNorm(70, 1e-5)
    norm.weight.data.normal_()
    x = torch.randn(3, 5, 70) * 30
    torch.testing.assert_close(norm(x), rms_norm_reference(x, norm.weight, 1e-5), rtol=1e-5, atol=1e-6)
    half = RMSNorm(70, 1e-5).to(torch.bfloat16)
    given = (x * 1e3).to(torch.bfloat16)  # squares summed in bf16 would be off by several of its steps
    torch.testing.assert_close(half(given), rms_norm_reference(given, half.weight, 1e-5), rtol=2**-7, atol=0)


@pytest.mark.parametrize("kind", ["grouped", "qwen2.5", "qwen3"])
def test_a_grouped_layer_equals_its_formulas(kind):
    """Projections with their biases, a norm of each head before its rotation, q and k with weights of their own, scale 1/4."""
    model = decoder(kind, dtype=torch.float64, layers=1)
    layer, x = model.layers[0], torch.randn(1, 6, 64, dtype=torch.float64)
    cos, sin = turns(torch.arange(6)[None], inverse_frequencies(model.config), torch.float64)
    made = {name: x @ getattr(layer, name).weight.T for name in "qkv"}
    if kind == "qwen2.5":
        made = {name: value + getattr(layer, name).bias for name, value in made.items()}
    q, k, v = (value.unflatten(-1, (-1, 16)) for value in made.values())
    if kind == "qwen3":
        q = q * (q.pow(2).mean(-1, keepdim=True) + 1e-5).rsqrt() * layer.q_norm.weight
        k = k * (k.pow(2).mean(-1, keepdim=True) + 1e-5).rsqrt() * layer.k_norm.weight
    span = Span(torch.arange(6)[None], 6, start=0)
    out = attend_reference(rotate(q, cos, sin), rotate(k, cos, sin), v, span, 1 / 4)
    expected = out.flatten(-2) @ layer.o.weight.T
    ours = layer.attention(x, Step(span, cos, sin, None, attend_dense))
    torch.testing.assert_close(ours, expected, rtol=1e-10, atol=1e-10)
