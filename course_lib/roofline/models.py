"""Shapes of published models: what the counts of FLOPs and bytes are made of.

Source   "The Llama 3 Herd of Models", arXiv 2407.21783, table 3; "Llama 2", arXiv 2307.09288; "DeepSeek LLM", arXiv 2401.02954,
         table 2; "DeepSeek-V2", arXiv 2405.04434, section 3.1; "DeepSeek-V3", arXiv 2412.19437, section 4.2; "The Falcon Series",
         arXiv 2311.16867; and the config.json of the released weights.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """A dense decoder whose query heads share `kv_heads` heads of keys and values.

    mlp_matrices   3 for a gated MLP, 2 for a plain one
    tied_head      the output head is the input embedding, stored once
    norm_vectors   of `hidden` values, in a layer and after the last one: RMSNorm has a weight, LayerNorm a weight and a bias
    """

    name: str
    layers: int
    hidden: int
    mlp_hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    mlp_matrices: int = 3
    tied_head: bool = False
    norm_vectors: tuple[int, int] = (2, 1)

    @property
    def kind(self) -> str:
        """MHA: each query head has keys and values of its own; MQA: all share one head; GQA: in between."""
        return "MHA" if self.kv_heads == self.heads else "MQA" if self.kv_heads == 1 else "GQA"

    @property
    def linear_params(self) -> int:
        """Weights of all the layers' products: q, k and v, the output projection, and those of the MLP."""
        qkv = self.hidden * (self.heads + 2 * self.kv_heads) * self.head_dim
        out = self.heads * self.head_dim * self.hidden
        return self.layers * (qkv + out + self.mlp_matrices * self.hidden * self.mlp_hidden)

    @property
    def head_params(self) -> int:
        """Weights of the output head; the input embedding has as many."""
        return self.vocab * self.hidden

    @property
    def norm_params(self) -> int:
        in_layer, after = self.norm_vectors
        return (in_layer * self.layers + after) * self.hidden

    @property
    def params(self) -> int:
        embeddings = self.head_params * (1 if self.tied_head else 2)
        return self.linear_params + embeddings + self.norm_params

    def kv_bytes_per_token(self, bytes_per_value: float = 2) -> float:
        """Keys and values of one token over all layers. Llama-3-8B in bf16: 2 * 32 * 8 * 128 * 2 = 131,072."""
        return 2 * self.layers * self.kv_heads * self.head_dim * bytes_per_value

    def numbers(self) -> dict[str, int]:
        """The shape as plain data, as exercises hand it over."""
        names = ("layers", "hidden", "mlp_hidden", "heads", "kv_heads", "head_dim", "vocab")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentShape:
    """The attention of a model with multi-head latent attention (MLA): one latent and one rotary key for all heads.

    Only what the KV cache and attention need; the experts of these models are not counted here.
    """

    name: str
    layers: int
    heads: int
    kv_lora_rank: int  # width of the latent, from which keys and values are made
    rope_dim: int  # width of the rotary key beside it

    kind = "MLA"

    @property
    def latent_dim(self) -> int:
        """Values kept for one token in one layer. DeepSeek-V3: 512 + 64 = 576."""
        return self.kv_lora_rank + self.rope_dim

    def kv_bytes_per_token(self, bytes_per_value: float = 2) -> float:
        """Latents of one token over all layers. DeepSeek-V3 in bf16: 61 * 576 * 2 = 70,272."""
        return self.layers * self.latent_dim * bytes_per_value


LLAMA_2_7B = ModelShape(
    name="Llama-2-7B", layers=32, hidden=4096, mlp_hidden=11008, heads=32, kv_heads=32, head_dim=128, vocab=32000
)
LLAMA_3_8B = ModelShape(
    name="Llama-3-8B", layers=32, hidden=4096, mlp_hidden=14336, heads=32, kv_heads=8, head_dim=128, vocab=128256
)
LLAMA_3_70B = ModelShape(
    name="Llama-3-70B", layers=80, hidden=8192, mlp_hidden=28672, heads=64, kv_heads=8, head_dim=128, vocab=128256
)
LLAMA_3_405B = ModelShape(
    name="Llama-3.1-405B", layers=126, hidden=16384, mlp_hidden=53248, heads=128, kv_heads=8, head_dim=128, vocab=128256
)
DEEPSEEK_67B = ModelShape(
    name="DeepSeek-67B", layers=95, hidden=8192, mlp_hidden=22016, heads=64, kv_heads=8, head_dim=128, vocab=102400
)
FALCON_7B = ModelShape(
    name="Falcon-7B", layers=32, hidden=4544, mlp_hidden=18176, heads=71, kv_heads=1, head_dim=64, vocab=65024,
    mlp_matrices=2, tied_head=True, norm_vectors=(2, 2),
)  # fmt: skip
DEEPSEEK_V2 = LatentShape(name="DeepSeek-V2", layers=60, heads=128, kv_lora_rank=512, rope_dim=64)
DEEPSEEK_V3 = LatentShape(name="DeepSeek-V3", layers=61, heads=128, kv_lora_rank=512, rope_dim=64)
MODELS = (LLAMA_2_7B, LLAMA_3_8B, LLAMA_3_70B, LLAMA_3_405B, DEEPSEEK_67B, FALCON_7B, DEEPSEEK_V2, DEEPSEEK_V3)
