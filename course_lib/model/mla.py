"""Multi-head latent attention (MLA): the cache keeps one small latent a token, and keys and values are made from it.

Source   DeepSeek-V2, arXiv 2405.04434, section 2.1 and appendix C; the norms of the latents: its released code.

A token's latent c (kv_rank values, after an RMSNorm) holds what all heads need: W_uk c is a head's key without rotation, W_uv c
its value. Rotation cannot go through the latent, since W_uk would then depend on the position, so one more key of rope_dim values
is rotated and shared by all heads. The cache keeps c and that key side by side.

Two ways to the same numbers
explicit   make every cached token's keys and values for every head, then attend as usual: least FLOPs for a long prompt
absorbed   q . (W_uk c) = (W_uk^T q) . c: carry the query into the latent space instead, attend over the latents as one KV head
           that is key and value at once, and carry the result out by W_uv. Decoding never makes keys: least bytes
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .config import ModelConfig
from .layers import Layer, RMSNorm, Step
from .rope import rotate

if TYPE_CHECKING:
    from .parts import Parts


class LatentLayer(Layer):
    """A layer whose cache keeps one row of kv_rank + rope_dim values for all heads."""

    def __init__(self, config: ModelConfig, index: int, parts: "Parts") -> None:
        super().__init__(config, index, parts)
        assert config.mla is not None, "LatentLayer is for a config with mla"
        self.mla = m = config.mla
        query = config.heads * (m.nope_dim + m.rope_dim)
        if m.q_rank is None:
            self.q = parts.linear(config.hidden, query, bias=False)
        else:
            self.q_down = parts.linear(config.hidden, m.q_rank, bias=False)
            self.q_norm = RMSNorm(m.q_rank, config.rms_eps)
            self.q_up = parts.linear(m.q_rank, query, bias=False)
        self.kv_down = parts.linear(config.hidden, m.kv_rank + m.rope_dim, bias=False)
        self.kv_norm = RMSNorm(m.kv_rank, config.rms_eps)
        self.kv_up = parts.linear(m.kv_rank, config.heads * (m.nope_dim + m.v_dim), bias=False)
        self.o = parts.linear(config.heads * m.v_dim, config.hidden, bias=False)

    def attention(self, x: Tensor, step: Step) -> Tensor:
        """x: [batch, length, hidden], normalised -> the same shape."""
        m = self.mla
        q = self.q(x) if m.q_rank is None else self.q_up(self.q_norm(self.q_down(x)))
        q = q.unflatten(-1, (self.config.heads, m.nope_dim + m.rope_dim))
        q_nope, q_rope = q.split((m.nope_dim, m.rope_dim), dim=-1)
        latent, key = self.kv_down(x).split((m.kv_rank, m.rope_dim), dim=-1)
        key = rotate(key.unsqueeze(2), step.cos, step.sin)
        kept = torch.cat((self.kv_norm(latent).unsqueeze(2), key), dim=-1)  # [batch, length, 1, kv_rank + rope_dim]
        if step.cache is not None:
            (kept,) = step.cache.append(self.index, (kept,), step.span)
        absorbed = x.shape[1] == 1 if step.latent_path == "auto" else step.latent_path == "absorbed"
        way = self.attend_absorbed if absorbed else self.attend_explicit
        return self.o(way(q_nope, rotate(q_rope, step.cos, step.sin), kept, step).flatten(-2))

    def attend_explicit(self, q_nope: Tensor, q_rope: Tensor, kept: Tensor, step: Step) -> Tensor:
        """Keys and values of every head for every kept token. -> [batch, length, heads, v_dim]"""
        m, heads = self.mla, self.config.heads
        latent, key = kept.split((m.kv_rank, m.rope_dim), dim=-1)
        made = self.kv_up(latent.squeeze(2)).unflatten(-1, (heads, m.nope_dim + m.v_dim))
        k_nope, v = made.split((m.nope_dim, m.v_dim), dim=-1)
        k = torch.cat((k_nope, key.expand(-1, -1, heads, -1)), dim=-1)
        return step.attend(torch.cat((q_nope, q_rope), dim=-1), k, v, step.span, self.scale)

    def attend_absorbed(self, q_nope: Tensor, q_rope: Tensor, kept: Tensor, step: Step) -> Tensor:
        """Queries carried into the latent space; the latents are one KV head. -> [batch, length, heads, v_dim]"""
        m = self.mla
        up = self.kv_up.weight.unflatten(0, (self.config.heads, m.nope_dim + m.v_dim))
        w_uk, w_uv = up.split((m.nope_dim, m.v_dim), dim=1)  # [heads, dim, kv_rank]
        q = torch.cat((torch.einsum("blhn,hnr->blhr", q_nope, w_uk), q_rope), dim=-1)
        out = step.attend(q, kept, kept[..., : m.kv_rank], step.span, self.scale)
        return torch.einsum("blhr,hvr->blhv", out, w_uv)

    @property
    def scale(self) -> float:
        return (self.mla.nope_dim + self.mla.rope_dim) ** -0.5
