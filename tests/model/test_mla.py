"""Latent attention: the absorbed path equals the explicit one, and both equal formulas written out from the paper."""

from dataclasses import replace

import pytest
import torch

from course_lib.model.attend import attend_reference
from course_lib.model.rope import inverse_frequencies, rotate, turns

from .tiny import decoder, tokens

BOTH = ["mla", "mla, queries compressed"]


def logits(model, path, ids, cuts=()):
    model.parts = replace(model.parts, latent_path=path)
    cache = model.new_cache(len(ids), ids.shape[1])
    return torch.cat([model(piece, cache) for piece in ids.tensor_split(list(cuts), dim=1)], 1)


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-4)])
def test_absorbed_equals_explicit(kind, dtype, tolerance):
    model, ids = decoder(kind, dtype=dtype), tokens(2, 11)
    expected = logits(model, "explicit", ids)
    for cuts in ((), (4,), range(1, 11)):
        assert (logits(model, "absorbed", ids, cuts) - expected).abs().max() < tolerance
        assert (logits(model, "auto", ids, cuts) - expected).abs().max() < tolerance


@pytest.mark.parametrize("kind", BOTH)
def test_a_layer_equals_the_papers_formulas(kind):
    """Head by head, token by token: k = [W_uk c; rotated shared key], v = W_uv c, c an RMSNorm of the compressed input."""
    model = decoder(kind, dtype=torch.float64, layers=1)
    layer, m, x = model.layers[0], model.config.mla, torch.randn(1, 6, 64, dtype=torch.float64)
    norm = lambda x, weight: x * (x.pow(2).mean(-1, keepdim=True) + 1e-5).rsqrt() * weight  # noqa: E731
    f = inverse_frequencies(model.config)
    cos, sin = turns(torch.arange(6)[None], f, torch.float64)
    made_of, up_to = (x, layer.q) if m.q_rank is None else (norm(x @ layer.q_down.weight.T, layer.q_norm.weight), layer.q_up)
    q = made_of @ up_to.weight.T
    down = x @ layer.kv_down.weight.T
    latent, shared = norm(down[..., :32], layer.kv_norm.weight), rotate(down[..., None, 32:], cos, sin)[:, :, 0]
    outs = []
    for head in range(4):
        of_head = q[..., head * 24 : (head + 1) * 24]
        turned = rotate(of_head[..., None, 16:], cos, sin)[:, :, 0]
        up = layer.kv_up.weight[head * 28 : (head + 1) * 28]
        scores = of_head[..., :16] @ (latent @ up[:16].T).transpose(1, 2) + turned @ shared.transpose(1, 2)
        scores = (scores / 24**0.5).masked_fill(~torch.ones(6, 6, dtype=torch.bool).tril(), -torch.inf)
        outs.append(scores.softmax(-1) @ (latent @ up[16:].T))
    expected = torch.cat(outs, -1) @ layer.o.weight.T
    from course_lib.model.layers import Step
    from course_lib.model.span import Span

    for path in ("explicit", "absorbed"):
        step = Step(Span(torch.arange(6)[None], 6, start=0), cos, sin, None, attend_reference, path)
        torch.testing.assert_close(layer.attention(x, step), expected, rtol=1e-10, atol=1e-10)


def test_the_cache_keeps_one_latent_and_one_key_a_token():
    model = decoder("mla")
    cache = model.new_cache(2, 7)
    assert [buffer.shape for layer in cache.buffers for buffer in layer] == [(2, 7, 1, 40)] * 2
    model(tokens(2, 5), cache)
    assert cache.held_bytes == 2 * 5 * model.config.kv_bytes_per_token(4) == 2 * 5 * 2 * 40 * 4


def test_an_unknown_path_is_refused():
    with pytest.raises(ValueError, match="latent_path is 'fast'; use 'auto', 'explicit' or 'absorbed'"):
        logits(decoder("mla"), "fast", tokens(1, 2))
