"""The decode step of `decode_stack` as one writes it first: plain torch, operation by operation, some two dozen kernels a layer.

It works on a stack's weights and caches, so that both do the same work and differ in what they launch. `layer` is a function of
its own, for torch.compile.

Layout   as decode_stack's
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .decode_stack import EPS, DecodeStack

if TYPE_CHECKING:
    from torch import Tensor


def rotated(x: "Tensor", cos: "Tensor", sin: "Tensor") -> "Tensor":
    """RoPE, half-split. x: [batch, heads, 1, head_dim]; cos, sin: [head_dim], each half the same."""
    import torch

    low, high = x.chunk(2, -1)
    return x * cos + torch.cat([-high, low], -1) * sin


def plain_layer(
    x: "Tensor", norm1: "Tensor", qkv: "Tensor", out: "Tensor", norm2: "Tensor", gate_up: "Tensor", down: "Tensor",
    k_cache: "Tensor", v_cache: "Tensor", cos: "Tensor", sin: "Tensor",
) -> "Tensor":  # fmt: skip
    """x: [batch, hidden] -> [batch, hidden]; writes the new token into the last slot of both caches."""
    from torch.nn.functional import linear, rms_norm, scaled_dot_product_attention, silu

    batch, kv_heads, _, dim = k_cache.shape
    heads = qkv.shape[0] // dim - 2 * kv_heads
    normed = rms_norm(x, x.shape[-1:], norm1, EPS)
    q, k, v = linear(normed, qkv).view(batch, heads + 2 * kv_heads, 1, dim).split([heads, kv_heads, kv_heads], 1)
    k_cache[:, :, -1:] = rotated(k, cos, sin)
    v_cache[:, :, -1:] = v
    attended = scaled_dot_product_attention(rotated(q, cos, sin), k_cache, v_cache, enable_gqa=True)
    x = x + linear(attended.reshape(batch, heads * dim), out)
    gate, up = linear(rms_norm(x, x.shape[-1:], norm2, EPS), gate_up).chunk(2, -1)
    return x + linear(silu(gate) * up, down)


class PlainStep:
    """The step of a stack by plain torch; layer: plain_layer, or what torch.compile made of it."""

    def __init__(self, stack: DecodeStack, layer: Callable[..., Any] = plain_layer) -> None:
        import torch

        self.stack, self.layer = stack, layer
        self.cos, self.sin = (torch.cat([half, half]).to(stack.embedded.dtype) for half in (stack.cos, stack.sin))

    def step(self) -> "Tensor":
        """-> logits [batch, vocab] bf16, in fresh memory"""
        import torch
        from torch.nn.functional import linear, rms_norm

        with torch.no_grad():
            x = self.stack.embedded
            for w, (k_cache, v_cache) in zip(self.stack.weights.layers, self.stack.caches, strict=True):
                x = self.layer(x, w["norm1"], w["qkv"], w["out"], w["norm2"], w["gate_up"], w["down"],
                               k_cache, v_cache, self.cos, self.sin)  # fmt: skip
            x = rms_norm(x, x.shape[-1:], self.stack.weights.layers[0]["norm1"], EPS)
            return linear(x, self.stack.weights.head)
