"""Shapes of published models: what the counts of FLOPs and bytes are made of.

Source   "The Llama 3 Herd of Models", arXiv 2407.21783, table 3, and the config.json of the released weights.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """A decoder with grouped-query attention, a gated MLP, and an input embedding apart from the output head."""

    name: str
    layers: int
    hidden: int
    mlp_hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int

    @property
    def linear_params(self) -> int:
        """Weights of all the layers' products: q, k and v, the output projection, and the three of the MLP."""
        qkv = self.hidden * (self.heads + 2 * self.kv_heads) * self.head_dim
        out = self.heads * self.head_dim * self.hidden
        return self.layers * (qkv + out + 3 * self.hidden * self.mlp_hidden)

    @property
    def head_params(self) -> int:
        """Weights of the output head; the input embedding has as many."""
        return self.vocab * self.hidden

    @property
    def norm_params(self) -> int:
        return (2 * self.layers + 1) * self.hidden

    @property
    def params(self) -> int:
        return self.linear_params + 2 * self.head_params + self.norm_params

    def kv_bytes_per_token(self, bytes_per_value: float = 2) -> float:
        """Keys and values of one token over all layers. Llama-3-8B in bf16: 2 * 32 * 8 * 128 * 2 = 131,072."""
        return 2 * self.layers * self.kv_heads * self.head_dim * bytes_per_value


LLAMA_3_8B = ModelShape(
    name="Llama-3-8B", layers=32, hidden=4096, mlp_hidden=14336, heads=32, kv_heads=8, head_dim=128, vocab=128256
)
LLAMA_3_70B = ModelShape(
    name="Llama-3-70B", layers=80, hidden=8192, mlp_hidden=28672, heads=64, kv_heads=8, head_dim=128, vocab=128256
)
