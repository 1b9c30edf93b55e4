"""What one step of a model costs: FLOPs done, least bytes moved, and bytes of one all-reduce between tensor-parallel ranks.

Weights  `weight_bytes` is for the layers' products (2: bf16, 1: FP8). Output head, input embedding, keys, values and activations
         are bf16. A step reads each weight of a product once; the few rows that it gathers from the embedding are not counted.
FLOPs    a multiply and an add are two.
"""

from dataclasses import dataclass

from .models import ModelShape

BF16_BYTES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The whole model's step, before it is divided over ranks."""

    flops: float
    bytes_moved: float
    allreduce_bytes: float  # the message of one all-reduce: the residual stream of the step's tokens

    @property
    def flops_per_byte(self) -> float:
        return self.flops / self.bytes_moved


def decode_step(model: ModelShape, batch: int, context: int, weight_bytes: float = BF16_BYTES) -> Step:
    """One token for each of `batch` sequences that hold `context` tokens already.

    Attention does 4 * layers * heads * head_dim * context FLOPs a sequence, reads `context` tokens of K and V and writes one.
    """
    attention = 4 * model.layers * model.heads * model.head_dim * context
    return Step(
        flops=batch * (2 * (model.linear_params + model.head_params) + attention),
        bytes_moved=_weights_read(model, weight_bytes) + batch * (context + 1) * model.kv_bytes_per_token(),
        allreduce_bytes=batch * model.hidden * BF16_BYTES,
    )


def prefill_step(model: ModelShape, tokens: int, weight_bytes: float = BF16_BYTES) -> Step:
    """A whole prompt at once; the head sees its last token only.

    Causal attention does half of 4 * tokens**2 * heads * head_dim FLOPs a layer. The residual stream moves about 8 bytes a value,
    layer and token: it is read and written once around attention and once around the MLP, in bf16.
    """
    products = 2 * model.linear_params * tokens + 2 * model.head_params
    attention = 2 * model.layers * model.heads * model.head_dim * tokens**2
    residual = 8 * model.hidden * model.layers * tokens
    return Step(
        flops=products + attention,
        bytes_moved=_weights_read(model, weight_bytes) + tokens * model.kv_bytes_per_token() + residual,
        allreduce_bytes=tokens * model.hidden * BF16_BYTES,
    )


def resident_bytes(model: ModelShape, tokens: int, weight_bytes: float = BF16_BYTES) -> float:
    """What must lie in memory: all the weights, the embedding too, and K and V of `tokens` tokens. No workspace, no slack."""
    others = BF16_BYTES * (model.params - model.linear_params)
    return weight_bytes * model.linear_params + others + tokens * model.kv_bytes_per_token()


def _weights_read(model: ModelShape, weight_bytes: float) -> float:
    return weight_bytes * model.linear_params + BF16_BYTES * model.head_params
