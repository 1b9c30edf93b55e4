"""The shape of a decoder as plain data: everything that has to be known before a weight is read.

A checkpoint of ours carries its ModelConfig in its header, so that `load` needs no second file.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class MlaConfig:
    """Multi-head latent attention. Source: DeepSeek-V2, arXiv 2405.04434, section 2.1 and appendix C.

    A token keeps kv_rank + rope_dim values in the cache: the latent, from which keys and values of every head are made, and one
    rotated key that all heads share. q_rank compresses the queries too; None makes them in one product.
    """

    kv_rank: int
    rope_dim: int
    nope_dim: int  # of a head's key without rotation
    v_dim: int
    q_rank: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Llama3Scaling:
    """Rotary frequencies stretched for long contexts, as Llama 3.1 and later do. The formula: rope.py."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_context: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """A decoder: RMSNorm, rotary positions (half-split pairing), grouped-query or latent attention, SwiGLU.

    heads, kv_heads   query head h reads the keys and values of head h // (heads // kv_heads); with mla kv_heads is not read
    tied              the output head is the embedding, stored once
    qk_norm           RMSNorm over each head of q and k before the rotation (Qwen3)
    qkv_bias          q, k and v have a bias (Qwen2.5)
    sliding_window    a query at position p sees p - window + 1 ... p (Mistral v0.1); None: all before it
    context           tokens at once that training saw; None: not known. `generate` goes no further
    """

    name: str
    vocab: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    mlp_hidden: int
    rope_theta: float = 10000.0
    rms_eps: float = 1e-5
    tied: bool = True
    qk_norm: bool = False
    qkv_bias: bool = False
    sliding_window: int | None = None
    rope_scaling: Llama3Scaling | None = None
    mla: MlaConfig | None = None
    context: int | None = None

    def __post_init__(self) -> None:
        for field in ("vocab", "hidden", "layers", "heads", "kv_heads", "head_dim", "mlp_hidden"):
            if getattr(self, field) < 1:
                raise ValueError(f"{self.name}: {field} is {getattr(self, field)}; use at least 1")
        if self.heads % self.kv_heads:
            fits = [n for n in range(1, self.heads + 1) if self.heads % n == 0]
            raise ValueError(f"{self.name}: {self.heads} heads do not share {self.kv_heads} KV heads; use one of {fits}")
        if self.rope_dim % 2:
            raise ValueError(f"{self.name}: rotary positions turn pairs, {self.rope_dim} values are no pairs; use an even number")
        if self.sliding_window is not None and self.sliding_window < 1:
            raise ValueError(f"{self.name}: sliding_window is {self.sliding_window}; use at least 1, or None for no window")
        if self.mla and (self.qk_norm or self.qkv_bias):
            raise ValueError(f"{self.name}: qk_norm and qkv_bias belong to grouped-query attention; leave them out with mla")

    @property
    def rope_dim(self) -> int:
        """Values of a head that are rotated."""
        return self.mla.rope_dim if self.mla else self.head_dim

    @property
    def cache_shapes(self) -> tuple[tuple[int, ...], ...]:
        """What one token keeps in one layer: (kv_heads, head_dim) for keys and for values, or one latent with its rotated key."""
        if self.mla:
            return ((1, self.mla.kv_rank + self.mla.rope_dim),)
        return ((self.kv_heads, self.head_dim),) * 2

    def kv_bytes_per_token(self, bytes_per_value: float = 2) -> float:
        """Bytes of one token over all layers. course-target in bf16: 6 * 2 * 4 * 64 * 2 = 6144."""
        return self.layers * sum(heads * dim for heads, dim in self.cache_shapes) * bytes_per_value

    @property
    def attention_params(self) -> int:
        """Weights of one layer's attention, its norms inside included."""
        width = self.heads * self.head_dim
        if m := self.mla:
            query = self.heads * (m.nope_dim + m.rope_dim)
            q = self.hidden * query if m.q_rank is None else m.q_rank * (self.hidden + query + 1)
            kv = self.hidden * (m.kv_rank + m.rope_dim) + m.kv_rank * (1 + self.heads * (m.nope_dim + m.v_dim))
            return q + kv + self.heads * m.v_dim * self.hidden
        qkv = width + 2 * self.kv_heads * self.head_dim
        extra = (qkv if self.qkv_bias else 0) + (2 * self.head_dim if self.qk_norm else 0)
        return self.hidden * (qkv + width) + extra

    @property
    def params(self) -> int:
        layer = self.attention_params + 3 * self.hidden * self.mlp_hidden + 2 * self.hidden
        return self.layers * layer + self.hidden + self.vocab * self.hidden * (1 if self.tied else 2)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "ModelConfig":
        """What to_dict gave. ValueError for a field that this version does not know."""
        known = {field.name for field in dataclasses.fields(cls)}
        if unknown := sorted(data.keys() - known):
            raise ValueError(f"unknown fields {unknown} in a model's config; this version knows {sorted(known)}")
        data = dict(data)
        for name, kind in (("mla", MlaConfig), ("rope_scaling", Llama3Scaling)):
            if data.get(name) is not None:
                data[name] = kind(**data[name])
        return cls(**data)
