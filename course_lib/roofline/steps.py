"""What one step of a model costs: FLOPs done, least bytes moved, and bytes of one all-reduce between tensor-parallel ranks.

Weights  `weight_bytes` is for the layers' products (2: bf16, 1: FP8, 4.125 / 8: INT4 in groups of 128), `head_bytes` for the
         output head, `kv_bytes` for keys and values. A step reads each weight of a product once; the few rows gathered from the
         input embedding, the norms and the logits are not counted.
FLOPs    a multiply and an add are two.
Pairs    `decode_step` and `prefill_step` are the rounded forms for a pencil: a token does not look at itself, and a triangle is
         half a square. `chunk_step` counts every pair of query and key; it is both of them and what lies between.
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

    def floor_seconds(self, peak_flops: float, bytes_per_second: float, ranks: int = 1) -> float:
        """The longer of arithmetic and memory when `ranks` GPUs share the work; all-reduces are not in it (floors.py)."""
        return max(self.flops / peak_flops, self.bytes_moved / bytes_per_second) / ranks


def decode_step(
    model: ModelShape,
    batch: int,
    context: int,
    weight_bytes: float = BF16_BYTES,
    *,
    kv_bytes: float = BF16_BYTES,
    head_bytes: float = BF16_BYTES,
) -> Step:
    """One token for each of `batch` sequences that hold `context` tokens already.

    Attention does 4 * layers * heads * head_dim * context FLOPs a sequence, reads `context` tokens of K and V and writes one.
    """
    attention = 4 * model.layers * model.heads * model.head_dim * context
    return Step(
        flops=batch * (2 * (model.linear_params + model.head_params) + attention),
        bytes_moved=_weights_read(model, weight_bytes, head_bytes) + batch * (context + 1) * model.kv_bytes_per_token(kv_bytes),
        allreduce_bytes=batch * model.hidden * BF16_BYTES,
    )


def prefill_step(
    model: ModelShape,
    tokens: int,
    weight_bytes: float = BF16_BYTES,
    *,
    kv_bytes: float = BF16_BYTES,
    head_bytes: float = BF16_BYTES,
    activation_bytes: float = BF16_BYTES,
) -> Step:
    """A whole prompt at once; the head sees its last token only.

    Causal attention does half of 4 * tokens**2 * heads * head_dim FLOPs a layer. The residual stream moves about 8 bytes a value,
    layer and token: in bf16, it is read and written once around attention and once around the MLP.
    """
    products = 2 * model.linear_params * tokens + 2 * model.head_params
    attention = 2 * model.layers * model.heads * model.head_dim * tokens**2
    moved = tokens * model.kv_bytes_per_token(kv_bytes) + residual_bytes(model, tokens, activation_bytes)
    return Step(
        flops=products + attention,
        bytes_moved=_weights_read(model, weight_bytes, head_bytes) + moved,
        allreduce_bytes=tokens * model.hidden * BF16_BYTES,
    )


def chunk_step(
    model: ModelShape,
    new_tokens: int,
    context: int,
    batch: int = 1,
    weight_bytes: float = BF16_BYTES,
    *,
    kv_bytes: float = BF16_BYTES,
    head_bytes: float = BF16_BYTES,
) -> Step:
    """`new_tokens` tokens for each of `batch` sequences that hold `context` tokens already, every pair counted.

    context 0: a prefill; new_tokens 1: a decode step; both: a chunk of a long prompt. The head sees a sequence's last token only.
    """
    tokens = batch * new_tokens
    products = 2 * model.linear_params * tokens + 2 * model.head_params * batch
    attention = 4 * model.layers * model.heads * model.head_dim * batch * attention_pairs(new_tokens, context)
    cache = batch * (context + new_tokens) * model.kv_bytes_per_token(kv_bytes)
    return Step(
        flops=products + attention,
        bytes_moved=_weights_read(model, weight_bytes, head_bytes) + cache + residual_bytes(model, tokens),
        allreduce_bytes=tokens * model.hidden * BF16_BYTES,
    )


def attention_pairs(new_tokens: int, context: int) -> int:
    """Pairs of query and key of one sequence and head: new token i (1, 2, ...) sees the context, those before it, and itself.

    3 new tokens after 4: 5 + 6 + 7 = 18 = 3 * 4 + 3 * 4 / 2. No context: T (T + 1) / 2, for a long prompt about T * T / 2.
    """
    return new_tokens * context + new_tokens * (new_tokens + 1) // 2


def residual_bytes(model: ModelShape, tokens: int, activation_bytes: float = BF16_BYTES) -> float:
    """The residual stream, read and written around attention and around the MLP. In bf16: 8 bytes a value, layer and token."""
    return 4 * activation_bytes * model.hidden * model.layers * tokens


def resident_bytes(model: ModelShape, tokens: int, weight_bytes: float = BF16_BYTES, *, kv_bytes: float = BF16_BYTES) -> float:
    """What must lie in memory: all the weights, the embedding too, and K and V of `tokens` tokens. No workspace, no slack."""
    others = BF16_BYTES * (model.params - model.linear_params)
    return weight_bytes * model.linear_params + others + tokens * model.kv_bytes_per_token(kv_bytes)


def _weights_read(model: ModelShape, weight_bytes: float, head_bytes: float) -> float:
    return weight_bytes * model.linear_params + head_bytes * model.head_params
