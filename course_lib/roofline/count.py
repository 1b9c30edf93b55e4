"""The count of one step in parts: FLOPs of the products with weights, FLOPs of attention, and the bytes that have to move.

The same sums as steps.chunk_step, from plain numbers, so that a part that is wrong can be told from the others.
"""

from collections.abc import Mapping

from .models import ModelShape
from .steps import BF16_BYTES, attention_pairs, residual_bytes


def count_step(
    shape: Mapping[str, int], new_tokens: int, context: int, batch: int, weight_bytes: float, kv_bytes: float
) -> dict[str, float]:
    """`new_tokens` tokens for each of `batch` sequences that hold `context` tokens already.

    shape  layers, hidden, mlp_hidden, heads, kv_heads, head_dim, vocab (ModelShape.numbers)
    -> linear_flops, attention_flops, bytes. Norms, softmax, embedding rows and logits are not counted.

    Llama-3-8B, 1 new token after 2048, batch 1, bf16: 1.501e10 and 1.07e9 FLOPs, 15.28e9 bytes.
    """
    model = ModelShape(name="", **shape)
    tokens = batch * new_tokens
    weights = weight_bytes * model.linear_params + BF16_BYTES * model.head_params
    cache = batch * (context + new_tokens) * model.kv_bytes_per_token(kv_bytes)
    return {
        "linear_flops": 2 * model.linear_params * tokens + 2 * model.head_params * batch,
        "attention_flops": 4 * model.layers * model.heads * model.head_dim * batch * attention_pairs(new_tokens, context),
        "bytes": weights + cache + residual_bytes(model, tokens),
    }
