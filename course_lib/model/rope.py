"""Rotary positions with half-split pairing: value i of a head turns together with value i + dim / 2.

Source   RoFormer, arXiv 2104.09864. Its pairs are neighbours (2i, 2i + 1); Llama's released code pairs them so, and the weights
         in Hugging Face's layout are permuted for the half-split pairing. The two differ by a fixed order of a head's values.
Layout   x: [batch, length, heads, dim]; cos and sin: [batch or 1, length, dim / 2]
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from .config import Llama3Scaling, ModelConfig


def inverse_frequencies(config: ModelConfig) -> Tensor:
    """Radians a position that each pair turns by: theta ** (-2i / dim), float32 [rope_dim / 2]; stretched where scaled."""
    dim = config.rope_dim
    plain = 1.0 / config.rope_theta ** (torch.arange(0, dim, 2, dtype=torch.float32, device="cpu") / dim)
    return plain if config.rope_scaling is None else llama3_scaled(plain, config.rope_scaling)


def llama3_scaled(frequencies: Tensor, scaling: Llama3Scaling) -> Tensor:
    """Slow pairs turn `factor` times slower, fast pairs as before, those between by a share of both.

    A pair turns original_context * frequency / 2 pi times over the original context. From high_freq_factor turns on it stays as
    it is; up to low_freq_factor turns it is slowed down in full; between, the share that stays grows evenly with the turns.
    """
    turns = scaling.original_context * frequencies / (2 * math.pi)
    stays = (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor)
    stays = stays.clamp(0, 1)
    return frequencies * (stays + (1 - stays) / scaling.factor)


def scaling_of(data: Mapping[str, Any] | None) -> Llama3Scaling | None:
    """A config.json's rope_scaling. ValueError for a kind that is not implemented, by name.

    >>> scaling_of({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    ...             "original_max_position_embeddings": 8192})
    Llama3Scaling(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_context=8192)
    """
    if data is None:
        return None
    kind = data.get("rope_type", data.get("type"))
    if kind == "default":
        return None
    if kind != "llama3":
        raise ValueError(f"rope scaling {kind!r} is not implemented; 'llama3' is, and a model without scaling")
    names = {
        "factor": "factor", "low_freq_factor": "low_freq_factor", "high_freq_factor": "high_freq_factor",
        "original_context": "original_max_position_embeddings",
    }  # fmt: skip
    if missing := [name for name in names.values() if name not in data]:
        raise ValueError(f"rope scaling 'llama3' lacks {missing}; take the whole rope_scaling of the released config.json")
    return Llama3Scaling(**{ours: data[theirs] for ours, theirs in names.items()})


def turns(positions: Tensor, frequencies: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """cos and sin of every pair's angle. positions [batch or 1, length] -> two [batch or 1, length, dim / 2] of dtype."""
    angles = positions.to(torch.float32)[..., None] * frequencies
    return angles.cos().to(dtype), angles.sin().to(dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x turned by its position: (a, b) -> (a cos - b sin, b cos + a sin) for a in the first half, b in the second."""
    cos, sin = cos[..., None, :], sin[..., None, :]  # for all heads
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)
