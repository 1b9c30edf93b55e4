"""The shape of a decoder as plain data: everything that has to be known before a weight is read.

A checkpoint of ours carries its ModelConfig in its header, so that `load` needs no second file. What is no shape is refused here,
by field, wherever the numbers came from.
"""

import dataclasses
import math
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

    def __post_init__(self) -> None:
        for field in ("kv_rank", "rope_dim", "nope_dim", "v_dim", *(["q_rank"] if self.q_rank is not None else [])):
            _whole(f"mla: {field}", getattr(self, field))


@dataclass(frozen=True, slots=True, kw_only=True)
class Llama3Scaling:
    """Rotary frequencies stretched for long contexts, as Llama 3.1 and later do. The formula: rope.py."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_context: int

    def __post_init__(self) -> None:
        for field in ("factor", "low_freq_factor", "high_freq_factor", "original_context"):
            _above_zero(f"rope scaling 'llama3': {field}", getattr(self, field))
        if not self.low_freq_factor < self.high_freq_factor:
            raise ValueError(
                f"rope scaling 'llama3': low_freq_factor {self.low_freq_factor} is not below high_freq_factor "
                f"{self.high_freq_factor}; the released models have 1 and 4"
            )


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
            _whole(f"{self.name}: {field}", getattr(self, field))
        if self.heads % self.kv_heads:
            fits = [n for n in range(1, self.heads + 1) if self.heads % n == 0]
            raise ValueError(f"{self.name}: {self.heads} heads do not share {self.kv_heads} KV heads; use one of {fits}")
        if self.rope_dim % 2:
            raise ValueError(f"{self.name}: rotary positions turn pairs, {self.rope_dim} values are no pairs; use an even number")
        for field in ("sliding_window", "context"):
            if getattr(self, field) is not None:
                _whole(f"{self.name}: {field}", getattr(self, field), ", or None for none")
        for field in ("rope_theta", "rms_eps"):
            _above_zero(f"{self.name}: {field}", getattr(self, field))
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
        """All weights; a tied head is stored, and counted, once."""
        layer = self.attention_params + 3 * self.hidden * self.mlp_hidden + 2 * self.hidden
        return self.layers * layer + self.hidden + self.vocab * self.hidden * (1 if self.tied else 2)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "ModelConfig":
        """What to_dict gave. ValueError for a field that is missing, or that this version does not know."""
        data = _fields(cls, data, "a model's config")
        for name, kind in (("mla", MlaConfig), ("rope_scaling", Llama3Scaling)):
            if data.get(name) is not None:
                data[name] = kind(**_fields(kind, data[name], f"{name} of a model's config"))
        return cls(**data)


def _fields(kind: type, data: object, where: str) -> dict[str, Any]:
    """The data as arguments of a dataclass. ValueError unless they are exactly some of its fields, and all it has to have."""
    if not isinstance(data, Mapping):
        raise ValueError(f"{where} is {data!r}; it has to be a mapping of names to values")
    fields = {field.name: field.default is dataclasses.MISSING for field in dataclasses.fields(kind)}
    if unknown := sorted(data.keys() - fields.keys()):
        raise ValueError(f"unknown fields {unknown} in {where}; this version knows {sorted(fields)}")
    if missing := sorted(name for name, needed in fields.items() if needed and name not in data):
        raise ValueError(f"{where} lacks {missing}; write it by to_dict()")
    return dict(data)


def _whole(what: str, value: object, otherwise: str = "") -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{what} is {value!r}; use a whole number from 1 on{otherwise}")
    if value < 1:
        raise ValueError(f"{what} is {value}; use at least 1{otherwise}")


def _above_zero(what: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ValueError(f"{what} is {value!r}; use a finite number above 0")
