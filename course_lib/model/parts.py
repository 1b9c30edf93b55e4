"""The parts of a decoder that an exercise, the engine or a learner may replace, with their exact signatures.

model = load("course-target")
model.parts = replace(model.parts, attend=my_attention)                 # from the next forward pass on
model.swap_linears(lambda name, linear: MyInt4Linear(linear.weight))    # each product of the layers, and an untied head
model = load("course-target", parts=paged_parts(block_size=16))         # keys and values in blocks: paged_cache.py
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn

from .attend import attend_dense
from .cache import DenseCache
from .config import ModelConfig
from .span import Span


class Attend(Protocol):
    """softmax(q k^T * scale) v over the keys that span lets each query see (span.mask() says it as a tensor).

    q [batch, q_len, heads, dim], k [batch, keys, kv_heads, dim], v [batch, keys, kv_heads, v_dim]
    -> [batch, q_len, heads, v_dim], all of one dtype. k and v may be views with gaps between rows; MLA's absorbed path hands over
    kv_heads = 1 and a v that is part of k. With another cache k and v are what its `append` gave, and attend goes with it.
    """

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, span: Span, scale: float, /) -> Tensor: ...


class KeyValues(Protocol):
    """What a decoder asks of a cache: DenseCache keeps a row in one piece, PagedCache in blocks of a shared pool.

    append gives what attend reads: tensors of all slots up to span.keys, or what one attend knows (PagedView, attend_paged).
    """

    batch: int
    capacity: int  # tokens that a row can hold
    lengths: list[int]  # tokens that each row holds

    def append(self, layer: int, new: Sequence[Tensor], span: Span, /) -> tuple[Any, ...]: ...
    def advance(self, span: Span, /) -> None: ...
    @property
    def held_bytes(self) -> int: ...  # of the tokens that are held: what a decode step reads


CacheFactory = Callable[[ModelConfig, int, int, torch.dtype, torch.device], KeyValues]
"""(config, batch, capacity, dtype, device) -> an empty cache"""

LinearFactory = Callable[..., nn.Module]
"""(in_features, out_features, bias=False) -> a module that maps [..., in_features] to [..., out_features].

Its weight is a parameter `weight` [out_features, in_features] (and `bias`), as in torch.nn.Linear, so that a checkpoint fits."""


@dataclass(frozen=True, slots=True)
class Parts:
    """attend and latent_path are read at every forward pass; linear when the model is built; cache at new_cache.

    latent_path   MLA only: "explicit", "absorbed", or "auto": absorbed for one new token, explicit for more
    """

    attend: Attend = attend_dense
    linear: LinearFactory = nn.Linear
    cache: CacheFactory = DenseCache
    latent_path: Literal["auto", "explicit", "absorbed"] = "auto"

    def __post_init__(self) -> None:
        if self.latent_path not in ("auto", "explicit", "absorbed"):
            raise ValueError(f"latent_path is {self.latent_path!r}; use 'auto', 'explicit' or 'absorbed'")
