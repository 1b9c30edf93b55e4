"""A small decoder that can run on torch's meta device: shapes without numbers, so that a 70B model costs nothing to count.

Why      a formula for FLOPs and bytes wants something to be held against: here `torch.utils.flop_counter` counts the products
         that really run, and `traffic` adds up `nbytes` of the very tensors that a step has to move.
What     Llama's layer: RMSNorm, q, k and v, attention with shared KV heads, SwiGLU, an output head. Rotary embeddings are left
         out: they multiply no matrices and move nothing of their own. On a CPU it computes real numbers.
Layout   x [batch, tokens, hidden]; a cache entry [batch, kv_heads, tokens, head_dim]
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

Cache = list[tuple[Tensor, Tensor]]  # keys and values of each layer
GROUP = 128  # weights that share a scale in the 4-bit format


class Weight:
    """[outputs, inputs] weights, stored in `dtype`, or with "int4" two to a byte and an fp16 scale for each group of 128."""

    def __init__(self, outputs: int, inputs: int, dtype: Any, device: str) -> None:
        if dtype == "int4":
            self.stored = [torch.randint(0, 256, (outputs, inputs // 2), dtype=torch.uint8, device=device)]
            self.stored += [torch.rand(outputs, inputs // GROUP, dtype=torch.float16, device=device) / 8]
        else:
            self.stored = [(torch.randn(outputs, inputs, device=device) / inputs**0.5).to(dtype)]

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.stored)

    def values(self, dtype: torch.dtype) -> Tensor:
        """As the product takes them; the cast happens on the chip and moves nothing."""
        if len(self.stored) == 1:
            return self.stored[0].to(dtype)
        packed, scales = self.stored
        nibbles = torch.stack([packed & 15, packed >> 4], dim=-1).flatten(-2)
        return (nibbles.to(dtype) - 8) * scales.to(dtype).repeat_interleave(GROUP, dim=-1)


class MetaDecoder:
    """A decoder of the given shape: layers, hidden, mlp_hidden, heads, kv_heads, head_dim, vocab.

    weight_dtype  of the layers' weights, or "int4"; the head is in `dtype`, that of the activations
    traffic       bytes that the last step had to move: "weights", "kv" and "residual"
    """

    def __init__(
        self,
        shape: Mapping[str, int],
        *,
        dtype: torch.dtype = torch.bfloat16,
        weight_dtype: Any = None,
        kv_dtype: torch.dtype | None = None,
        device: str = "meta",
    ) -> None:
        self.shape, self.dtype, self.kv_dtype, self.device = dict(shape), dtype, kv_dtype or dtype, device
        self.traffic: Counter[str] = Counter()
        hidden, inner = shape["hidden"], shape["mlp_hidden"]
        wide, narrow = shape["heads"] * shape["head_dim"], shape["kv_heads"] * shape["head_dim"]
        sizes = {"q": (wide, hidden), "k": (narrow, hidden), "v": (narrow, hidden), "out": (hidden, wide)}
        sizes |= {"gate": (inner, hidden), "up": (inner, hidden), "down": (hidden, inner)}
        stored = weight_dtype or dtype
        self.layers = [{name: Weight(*size, stored, device) for name, size in sizes.items()} for _ in range(shape["layers"])]
        self.embedding = Weight(shape["vocab"], hidden, dtype, device)
        self.head = Weight(shape["vocab"], hidden, dtype, device)

    def empty_cache(self, batch: int, context: int = 0) -> Cache:
        """A cache of `context` tokens whose keys and values are zeros."""
        size = (batch, self.shape["kv_heads"], context, self.shape["head_dim"])
        return [tuple(torch.zeros(size, dtype=self.kv_dtype, device=self.device) for _ in range(2)) for _ in self.layers]

    def step(self, tokens: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        """tokens [batch, new] int64, and a cache -> logits [batch, vocab] of the last tokens, and the cache with the new ones."""
        self.traffic.clear()
        x = torch.nn.functional.embedding(tokens, self.embedding.values(self.dtype))  # gathers rows: no product
        longer = []
        for layer, (keys, values) in zip(self.layers, cache, strict=True):
            added, keys, values = self._attention(layer, _norm(self._moved(x)), keys, values)
            x = self._moved(x + added)
            inner = _norm(self._moved(x))
            gated = torch.nn.functional.silu(self._product(inner, layer["gate"])) * self._product(inner, layer["up"])
            x = self._moved(x + self._product(gated, layer["down"]))
            longer.append((keys, values))
        return self._product(_norm(x[:, -1]), self.head), longer

    def _attention(self, layer: Any, x: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        batch, new, _ = x.shape
        heads, kv_heads, dim = (self.shape[name] for name in ("heads", "kv_heads", "head_dim"))
        q, k, v = (self._product(x, layer[name]).view(batch, new, -1, dim).transpose(1, 2) for name in "qkv")
        keys, values = torch.cat([keys, k.to(self.kv_dtype)], 2), torch.cat([values, v.to(self.kv_dtype)], 2)
        self.traffic["kv"] += keys.nbytes + values.nbytes  # the old ones are read, the new ones written
        q = q.reshape(batch, kv_heads, heads // kv_heads * new, dim)  # the queries that share a KV head stand below each other
        scores = q @ keys.to(self.dtype).transpose(2, 3) / dim**0.5
        weights = scores.view(batch, heads, new, -1).masked_fill(self._future(new, keys.shape[2]), float("-inf")).softmax(-1)
        mixed = weights.view_as(scores) @ values.to(self.dtype)
        mixed = mixed.view(batch, heads, new, dim).transpose(1, 2).reshape(batch, new, heads * dim)
        return self._product(mixed, layer["out"]), keys, values

    def _future(self, new: int, length: int) -> Tensor:
        """[new, length] bool: keys that a query must not see. The mask hides them; their products are done all the same."""
        query = torch.arange(length - new, length, device=self.device)
        return torch.arange(length, device=self.device) > query[:, None]

    def _product(self, x: Tensor, weight: Weight) -> Tensor:
        self.traffic["weights"] += weight.nbytes
        rows = x.flatten(0, -2)  # one product of two matrices, whatever stands before the last dimension
        return (rows @ weight.values(x.dtype).T).unflatten(0, x.shape[:-1])

    def _moved(self, x: Tensor) -> Tensor:
        """The residual stream on its way from or to memory."""
        self.traffic["residual"] += x.nbytes
        return x


def _norm(x: Tensor) -> Tensor:
    return x * (x.pow(2).mean(-1, keepdim=True) + 1e-5).rsqrt()


def count_flops(decoder: MetaDecoder, new_tokens: int, context: int, batch: int) -> dict[str, int]:
    """FLOPs that torch's counter sees in one step: "linear" of products with weights, "attention" of those with the cache.

    The counter knows no mask: its attention is every query times every key.
    """
    from torch.utils.flop_counter import FlopCounterMode

    tokens = torch.zeros(batch, new_tokens, dtype=torch.int64, device=decoder.device)
    cache = decoder.empty_cache(batch, context)
    with FlopCounterMode(display=False) as counter:
        decoder.step(tokens, cache)
    by_name = {str(operation): flops for operation, flops in counter.get_flop_counts()["Global"].items()}
    attention = by_name.pop("aten.bmm", 0)  # four-dimensional products; those with weights are aten.mm
    return {"linear": sum(by_name.values()), "attention": attention}
