"""What every layer of the decoder has, whatever its attention: two norms, a gated MLP, and two residual additions.

Source   RMSNorm: arXiv 1910.07467. SwiGLU: arXiv 2002.05202. Their order in a layer: Llama, arXiv 2302.13971.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .config import ModelConfig
from .span import Span

if TYPE_CHECKING:
    from .parts import Attend, KeyValues, Parts


@dataclass(slots=True)
class Step:
    """One forward pass, as its layers see it. cos, sin: rope.turns of the queries' positions."""

    span: Span
    cos: Tensor
    sin: Tensor
    cache: "KeyValues | None"
    attend: "Attend"
    latent_path: str = "auto"


class RMSNorm(nn.Module):
    """x / sqrt(mean(x ** 2) + eps) * weight over the last dimension; statistics in float32 whatever x is."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        # under autocast x may be bfloat16 and the weight float32, which the fused kernel does not take
        return F.rms_norm(x, self.weight.shape, self.weight.to(x.dtype), self.eps)


def rms_norm_reference(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """The same in float64, rounded to x's dtype at the end. x: [..., size], weight: [size] -> [..., size]"""
    mean_square = x.double().pow(2).mean(-1, keepdim=True)
    return (x.double() * (mean_square + eps).rsqrt() * weight.double()).to(x.dtype)


class Layer(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)). The attention: attention.GroupedLayer or mla.LatentLayer."""

    def __init__(self, config: ModelConfig, index: int, parts: "Parts") -> None:
        super().__init__()
        self.config, self.index = config, index
        self.attention_norm = RMSNorm(config.hidden, config.rms_eps)
        self.mlp_norm = RMSNorm(config.hidden, config.rms_eps)
        self.gate = parts.linear(config.hidden, config.mlp_hidden, bias=False)
        self.up = parts.linear(config.hidden, config.mlp_hidden, bias=False)
        self.down = parts.linear(config.mlp_hidden, config.hidden, bias=False)

    def forward(self, x: Tensor, step: Step) -> Tensor:
        """x: [batch, length, hidden] -> the same shape."""
        x = x + self.attention(self.attention_norm(x), step)
        h = self.mlp_norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))

    def attention(self, x: Tensor, step: Step) -> Tensor:
        raise NotImplementedError("a layer's attention: GroupedLayer or LatentLayer")
