"""The decoder: tokens in, logits out, over layers whose attention, products and KV cache can be replaced (parts.py).

Parameters   embed.weight [vocab, hidden]; final_norm.weight; head.weight [vocab, hidden], absent when tied
             layers.N.: attention_norm, q, k, v, o, mlp_norm, gate, up, down, each with .weight
             where the config asks for them: q_norm.weight, k_norm.weight, q.bias, k.bias, v.bias
             MLA, instead of q, k, v: q (or q_down, q_norm, q_up), kv_down, kv_norm, kv_up
"""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .attention import GroupedLayer
from .config import ModelConfig
from .layers import RMSNorm, Step
from .mla import LatentLayer
from .parts import KeyValues, Parts
from .positions import span_of
from .rope import inverse_frequencies, turns


class Decoder(nn.Module):
    """A language model with fresh random weights; load.py reads trained ones."""

    def __init__(self, config: ModelConfig, parts: Parts | None = None) -> None:
        super().__init__()
        self.config, self.parts = config, parts or Parts()
        layer = LatentLayer if config.mla else GroupedLayer
        # given its weight, the embedding draws none: without a device (load.empty) that alone would import torch's compiler
        self.embed = nn.Embedding.from_pretrained(torch.empty(config.vocab, config.hidden), freeze=False)
        self.layers = nn.ModuleList(layer(config, index, self.parts) for index in range(config.layers))
        self.final_norm = RMSNorm(config.hidden, config.rms_eps)
        self.head = None if config.tied else self.parts.linear(config.hidden, config.vocab, bias=False)
        self._frequencies = inverse_frequencies(config)
        self.tokenizer_factory: Callable[[], Any] | None = None  # set by who loads weights
        self.init_weights()

    @torch.no_grad()
    def init_weights(self, std: float = 0.02) -> None:
        """Normal with std, and smaller for what is added to the residual stream: std / sqrt(2 layers); norms 1, biases 0."""
        for name, weight in self.named_parameters():
            if weight.is_meta or name.endswith("norm.weight"):
                continue
            if weight.dim() == 1:
                weight.zero_()
                continue
            added = name.endswith((".o.weight", ".down.weight"))
            weight.normal_(std=std / math.sqrt(2 * self.config.layers) if added else std)

    @property
    def dtype(self) -> torch.dtype:
        return self.embed.weight.dtype

    @property
    def device(self) -> torch.device:
        return self.embed.weight.device

    def forward(
        self, tokens: Tensor, cache: KeyValues | None = None, positions: Tensor | None = None, *, last: bool = False
    ) -> Tensor:
        """tokens [batch, length] int64 -> logits [batch, length, vocab], float32 (float64 of a float64 model).

        cache      from new_cache: the step's keys and values are appended to it. None: every call stands alone
        positions  [batch, length] int64, -1 for padding; None: each row goes on where its cache ends. See positions.span_of
        last       logits of each row's last token only: [batch, 1, vocab]
        """
        if tokens.dim() != 2 or not tokens.numel():
            raise ValueError(f"tokens have shape {tuple(tokens.shape)}; use [batch, length] with at least one token")
        span = span_of(tokens, cache, positions, self.config.sliding_window)
        if self._frequencies.device != tokens.device:
            self._frequencies = inverse_frequencies(self.config).to(tokens.device)
        x = self.embed(tokens)
        cos, sin = turns(span.positions, self._frequencies, x.dtype)
        step = Step(span, cos, sin, cache, self.parts.attend, self.parts.latent_path)
        for layer in self.layers:
            x = layer(x, step)
        if cache is not None:
            cache.advance(span)
        if last:
            x = self._last(x, span.positions if span.padded else None)
        x = self.final_norm(x)
        logits = F.linear(x, self.embed.weight) if self.head is None else self.head(x)
        return logits if logits.dtype == torch.float64 else logits.float()

    @property
    def weight_bytes_per_step(self) -> int:
        """Bytes of weights that one decode step reads: all of them once, but of an untied embedding only a row a token."""
        held = sum(tensor.nbytes for tensor in (*self.parameters(), *self.buffers()))
        return held if self.head is None else held - self.embed.weight.nbytes

    def tokenizer(self) -> Any:
        """The tokenizer that belongs to the loaded weights. ValueError for a model that came without one."""
        if self.tokenizer_factory is None:
            raise ValueError(f"{self.config.name} came without a tokenizer; hand one over, or load weights by name")
        return self.tokenizer_factory()

    def new_cache(self, batch: int, capacity: int) -> KeyValues:
        """An empty cache for `batch` rows of up to `capacity` tokens, in the model's dtype and on its device."""
        return self.parts.cache(self.config, batch, capacity, self.dtype, self.device)

    def swap_linears(self, make: Callable[[str, nn.Module], nn.Module]) -> None:
        """Replace each product of the layers (and an untied head) by make(name, module); "layers.0.q", ..., "head".

        What is not a product stays: embedding, norms. MLA's absorbed path reads kv_up.weight as a matrix.
        """
        names = ("q", "k", "v", "o", "gate", "up", "down", "q_down", "q_up", "kv_down", "kv_up")
        for index, layer in enumerate(self.layers):
            for name in names:
                if isinstance(module := getattr(layer, name, None), nn.Module):
                    setattr(layer, name, make(f"layers.{index}.{name}", module))
        if self.head is not None:
            self.head = make("head", self.head)

    @staticmethod
    def _last(x: Tensor, positions: Tensor | None) -> Tensor:
        if positions is None:
            return x[:, -1:]
        place = positions.argmax(-1)
        return x[torch.arange(x.shape[0], device=x.device), place][:, None]
