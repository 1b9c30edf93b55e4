"""A learner's part in any slot, and the same tokens come out."""

from collections import Counter
from dataclasses import replace
from typing import ClassVar

import pytest
import torch
from torch import nn

from course_lib.model import Parts, generate
from course_lib.model.cache import DenseCache

from .tiny import decoder, tokens

PROMPTS = [[3, 14, 15], [9, 26, 5, 35, 8]]


def plain_attention(q, k, v, span, scale):
    """As a learner would write it from the signature alone."""
    group = q.shape[2] // k.shape[2]
    k, v = k.repeat_interleave(group, 2), v.repeat_interleave(group, 2)
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * scale
    weights = scores.masked_fill(~span.mask(), -torch.inf).softmax(-1).nan_to_num(0)
    return torch.einsum("bhqk,bkhd->bqhd", weights, v)


class CountingLinear(nn.Linear):
    calls: ClassVar = Counter()

    def forward(self, x):
        CountingLinear.calls[x.shape[1]] += 1
        return torch.einsum("bli,oi->blo", x, self.weight) + (0 if self.bias is None else self.bias)


class GrowingCache(DenseCache):
    """A cache without slots, for one row: it grows by what comes."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.buffers = [[buffer[:, :0] for buffer in layer] for layer in self.buffers]

    def append(self, layer, new, span):
        held = [torch.cat((old, values), 1) for old, values in zip(self.buffers[layer], new, strict=True)]
        self.buffers[layer] = held
        return tuple(held)


def made(model, prompts=PROMPTS):
    return [(new.row, new.token) for new in generate(model, prompts, max_new_tokens=12)]


@pytest.mark.parametrize("kind", ["grouped", "window", "mla", "qwen2.5"])
def test_other_parts_make_the_same_tokens(kind):
    model = decoder(kind)
    expected = made(model)
    assert len({token for _, token in expected}) > 4  # no model that repeats one token would notice
    calls = []
    attend = lambda *a: calls.append(a[3].q_len) or plain_attention(*a)  # noqa: E731
    other = decoder(kind, parts=Parts(attend=attend, linear=CountingLinear))
    other.load_state_dict(model.state_dict())
    CountingLinear.calls.clear()
    assert made(other) == expected
    assert Counter(calls) == {5: 2, 1: 22}  # a prompt and 11 steps, through two layers
    products = sum(isinstance(module, CountingLinear) for module in other.modules())
    single = products - (2 if kind == "mla" else 0)  # absorbed, kv_up is no product of its own
    assert CountingLinear.calls == {5: products, 1: 11 * single}


def test_a_part_can_be_changed_in_a_loaded_model():
    model = decoder()
    expected = made(model)
    model.parts = replace(model.parts, attend=plain_attention)
    assert made(model) == expected
    model.parts = replace(model.parts, attend=lambda q, k, v, span, scale: torch.zeros_like(q))
    assert made(model) != expected


def test_another_cache_makes_the_same_tokens():
    for kind in ("grouped", "mla"):
        model = decoder(kind)
        expected = made(model, PROMPTS[0])
        model.parts = replace(model.parts, cache=GrowingCache)
        assert made(model, PROMPTS[0]) == expected
        assert isinstance(model.new_cache(1, 4), GrowingCache)


@pytest.mark.parametrize(("kind", "products"), [("grouped", 14), ("multi-head, head apart", 15), ("mla", 14)])
def test_swap_linears_reaches_every_product_by_name(kind, products):
    model, names = decoder(kind), []
    expected = model(tokens(1, 5))

    def make(name, linear):
        names.append(name)
        other = CountingLinear(linear.in_features, linear.out_features, bias=linear.bias is not None)
        other.load_state_dict(linear.state_dict())
        return other

    model.swap_linears(make)
    assert len(set(names)) == len(names) == products
    assert not [module for module in model.modules() if type(module) is nn.Linear]
    torch.testing.assert_close(model(tokens(1, 5)), expected, rtol=1e-4, atol=1e-4)
