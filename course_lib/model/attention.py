"""Grouped-query attention in a layer: makes q, k and v, turns q and k by their positions, and lets `attend` do the rest."""

from typing import TYPE_CHECKING

from torch import Tensor

from .config import ModelConfig
from .layers import Layer, RMSNorm, Step
from .rope import rotate

if TYPE_CHECKING:
    from .parts import Parts


class GroupedLayer(Layer):
    """A layer whose cache keeps (kv_heads, head_dim) keys, already rotated, and as many values."""

    def __init__(self, config: ModelConfig, index: int, parts: "Parts") -> None:
        super().__init__(config, index, parts)
        width, kv_width = config.heads * config.head_dim, config.kv_heads * config.head_dim
        self.q = parts.linear(config.hidden, width, bias=config.qkv_bias)
        self.k = parts.linear(config.hidden, kv_width, bias=config.qkv_bias)
        self.v = parts.linear(config.hidden, kv_width, bias=config.qkv_bias)
        self.o = parts.linear(width, config.hidden, bias=False)
        if config.qk_norm:
            self.q_norm = RMSNorm(config.head_dim, config.rms_eps)
            self.k_norm = RMSNorm(config.head_dim, config.rms_eps)

    def attention(self, x: Tensor, step: Step) -> Tensor:
        """x: [batch, length, hidden], normalised -> the same shape."""
        head_dim = self.config.head_dim
        q, k, v = (made.unflatten(-1, (-1, head_dim)) for made in (self.q(x), self.k(x), self.v(x)))
        if self.config.qk_norm:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k = rotate(q, step.cos, step.sin), rotate(k, step.cos, step.sin)
        if step.cache is not None:
            k, v = step.cache.append(self.index, (k, v), step.span)
        out = step.attend(q, k, v, step.span, head_dim**-0.5)
        return self.o(out.flatten(-2))
