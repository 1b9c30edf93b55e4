"""The outlier twin: the same function, with a few channels as loud as those of large models.

Large models have a handful of hidden channels whose activations are tens of times larger than the others, and these make 8-bit
activations hard (LLM.int8(), arXiv 2208.07339). Our small ones are not trained long enough to be counted on for that. The twin
scales a few channels up in every norm's weight and divides the weights that read them by the same factor: SmoothQuant (arXiv
2211.10438) run backwards. The factors are powers of two, so nothing is rounded where the range of the dtype holds.
"""

import copy

import torch
from torch import nn

from .decoder import Decoder

FACTORS = (64.0, 32.0, 16.0)  # taken in turns by the channels
READERS = {
    "attention_norm": ("q", "k", "v", "q_down", "kv_down"),
    "mlp_norm": ("gate", "up"),
}  # norm -> the products that read what it gives


@torch.no_grad()
def outlier_twin(model: Decoder, channels: int = 6, seed: int = 0) -> Decoder:
    """A copy of `model` with `channels` loud channels, the same in every layer as in large models; its parts are the model's.

    ValueError for more channels than the model has.
    """
    if not isinstance(channels, int) or not 1 <= channels <= model.config.hidden:
        raise ValueError(f"{channels!r} outlier channels; use 1 to {model.config.hidden}, a few as large models have them")
    twin = copy.deepcopy(model)
    factors = outlier_factors(model.config.hidden, channels, seed).to(model.device)
    for layer in twin.layers:
        for norm, readers in READERS.items():
            weight = getattr(layer, norm).weight
            weight.mul_(factors.to(weight.dtype))
            for name in readers:
                if isinstance(linear := getattr(layer, name, None), nn.Module):
                    linear.weight.div_(factors.to(linear.weight.dtype))
    return twin


def outlier_factors(hidden: int, channels: int, seed: int = 0) -> torch.Tensor:
    """[hidden] float32: 1, and a factor at each of the channels that `seed` chooses."""
    chosen = torch.randperm(hidden, generator=torch.Generator().manual_seed(seed))[:channels]
    factors = torch.ones(hidden)
    factors[chosen] = torch.tensor([FACTORS[i % len(FACTORS)] for i in range(channels)])
    return factors
