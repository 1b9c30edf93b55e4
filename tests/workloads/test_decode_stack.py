"""The decode stack computes a decode step: equal to the same layers in float64, at shapes a CPU can do."""

import pytest
import torch

from course_lib.interpreter import switch
from course_lib.roofline import LLAMA_3_8B
from course_lib.workloads.decode_stack import EPS, LLAMA_3_8B_NUMBERS, ROPE_BASE, DecodeStack, StackWeights, stack_bytes

TINY = {"layers": 2, "hidden": 128, "mlp_hidden": 192, "heads": 4, "kv_heads": 2, "head_dim": 32, "vocab": 320}


def norm(x):
    return x / (x.pow(2).mean(-1, keepdim=True) + EPS).sqrt()


def turned(x, position):
    """RoPE in the half-split pairing as a complex product."""
    half = x.shape[-1] // 2
    angle = position * ROPE_BASE ** (-torch.arange(half, dtype=torch.float64) / half)
    pairs = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat([pairs.real, pairs.imag], -1)


def reference(stack):
    """The step in float64, written plainly; the caches are read, not written."""
    m, b, position = stack.model, stack.batch, stack.context
    heads, kv_heads, dim = m["heads"], m["kv_heads"], m["head_dim"]
    x = stack.embedded.double()
    for layer, (k_cache, v_cache) in zip(stack.weights.layers, stack.caches, strict=True):
        w = {name: weight.double() for name, weight in layer.items()}
        q, k, v = (norm(x) @ w["qkv"].T).split([heads * dim, kv_heads * dim, kv_heads * dim], -1)
        q, k = turned(q.view(b, heads, dim), position), turned(k.view(b, kv_heads, dim), position)
        keys = torch.cat([k_cache[:, :, :position].double(), k[:, :, None]], 2).repeat_interleave(heads // kv_heads, 1)
        values = torch.cat([v_cache[:, :, :position].double(), v.view(b, kv_heads, 1, dim)], 2)
        weights = torch.softmax(torch.einsum("bhd,bhsd->bhs", q, keys) / dim**0.5, -1)
        seen = torch.einsum("bhs,bhsd->bhd", weights, values.repeat_interleave(heads // kv_heads, 1))
        x = x + seen.reshape(b, -1) @ w["out"].T
        gate, up = (norm(x) @ w["gate_up"].T).chunk(2, -1)
        x = x + (torch.nn.functional.silu(gate) * up) @ w["down"].T
    return norm(x) @ stack.weights.head.double().T


@pytest.mark.parametrize(("batch", "context"), [(1, 5), (3, 40), (17, 8)])  # 17: a library's product in place of ours
def test_a_step_equals_the_same_layers_in_float64(batch, context):
    torch.manual_seed(batch)
    stack = DecodeStack(TINY, 2, batch, context, device="cpu")
    for k_cache, v_cache in stack.caches:  # the slot of the new token holds nothing yet, and is written before it is read
        k_cache[:, :, context:], v_cache[:, :, context:] = float("nan"), float("nan")
    with switch.interpreting():  # Triton's own interpreter has no bf16 products
        logits, expected = stack.step().double(), reference(stack)
        again = stack.step()
    error = (logits - expected).norm() / expected.norm()
    assert error < 0.02  # bf16 rounds at 4e-3, some ten times along the way; a wrong head or norm gives 0.3 and more
    assert torch.equal(again, logits.to(torch.bfloat16))  # a step may be repeated, as a graph's replay does


def test_stacks_share_weights():
    weights = StackWeights.random(TINY, 2, "cpu")
    first, second = (DecodeStack(TINY, 2, batch, 4, device="cpu", weights=weights) for batch in (1, 2))
    assert first.weights is second.weights
    with pytest.raises(ValueError, match="2 layers, not 3"):
        DecodeStack(TINY, 3, 1, 4, device="cpu", weights=weights)


def test_the_numbers_are_the_8b_models_and_so_are_the_bytes():
    assert all(getattr(LLAMA_3_8B, name) == number for name, number in LLAMA_3_8B_NUMBERS.items())
    params = LLAMA_3_8B.linear_params + LLAMA_3_8B.head_params
    assert stack_bytes(LLAMA_3_8B_NUMBERS, 32, 2, 1023) == 2 * params + 2 * 1024 * LLAMA_3_8B.kv_bytes_per_token()
