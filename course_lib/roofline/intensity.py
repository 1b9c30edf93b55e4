"""Arithmetic intensity: of one product, of a step against its batch, and the sizes at which it meets the ridge.

`ridge` is in FLOP per byte everywhere (ridge.py); a step's counts are those of steps.decode_step.
"""

from .models import ModelShape
from .steps import BF16_BYTES, decode_step


def product_counts(
    tokens: int, inputs: int, outputs: int, weight_bytes: float = BF16_BYTES, activation_bytes: float = BF16_BYTES
) -> tuple[float, float]:
    """(FLOPs, least bytes) of [tokens, inputs] times [inputs, outputs]: weight, input and output moved once each.

    256 tokens, 4096 by 4096, bf16: 8,589,934,592 FLOPs and 37,748,736 bytes.
    """
    moved = weight_bytes * inputs * outputs + activation_bytes * tokens * (inputs + outputs)
    return 2 * tokens * inputs * outputs, moved


def product_intensity(
    tokens: int, inputs: int, outputs: int, weight_bytes: float = BF16_BYTES, activation_bytes: float = BF16_BYTES
) -> float:
    """FLOP per byte of one product. 256 tokens, 4096 by 4096, bf16: 227.6."""
    flops, moved = product_counts(tokens, inputs, outputs, weight_bytes, activation_bytes)
    return flops / moved


def weights_intensity(tokens: int, weight_bytes: float = BF16_BYTES) -> float:
    """FLOP per byte when only weights move: 2 FLOPs a token for each weight of `weight_bytes`. In bf16 it is `tokens`."""
    return 2 * tokens / weight_bytes


def token_threshold(ridge: float, weight_bytes: float = BF16_BYTES) -> float:
    """Tokens M* at which weights alone reach the ridge: ridge * weight_bytes / 2. H100, bf16: 295.3; 4.125-bit weights: 76.1.

    With FP8 arithmetic the ridge doubles and the weight halves, so M* stays where it is.
    """
    return ridge * weight_bytes / 2


def square_token_threshold(ridge: float, hidden: int) -> float:
    """M* of a [hidden, hidden] product in bf16 with its activations: 1 / (1 / ridge - 2 / hidden). H100, 4096: 345.

    The intensity tends to hidden / 2 as tokens grow. Raises ValueError when that never reaches the ridge.
    """
    if hidden <= 2 * ridge:
        raise ValueError(f"a product of {hidden} by {hidden} stays below {hidden / 2:g} FLOP/byte, the ridge is {ridge:.1f}; "
                         f"use a width above {2 * ridge:.0f}")  # fmt: skip
    return ridge / (1 - 2 * ridge / hidden)


def decode_intensity(
    model: ModelShape, batch: int, context: float, weight_bytes: float = BF16_BYTES, kv_bytes: float = BF16_BYTES
) -> float:
    """FLOP per byte read by a decode step: the counts of steps.decode_step without the new token's KV, which is written.

    Llama-3-8B, bf16, context 1024: 1.0 at batch 1, 42.2 at 64, 95.1 at 512.
    """
    step = decode_step(model, batch, context, weight_bytes, kv_bytes=kv_bytes)
    return step.flops / (step.bytes_moved - batch * model.kv_bytes_per_token(kv_bytes))


def attention_intensity_limit(model: ModelShape, kv_bytes: float = BF16_BYTES) -> float:
    """FLOP per byte of KV that decode attention does: 2 * heads / kv_heads / kv_bytes. Llama-3-8B in bf16: 4."""
    return 2 * model.heads / model.kv_heads / kv_bytes


def intensity_limit(model: ModelShape, context: float, kv_bytes: float = BF16_BYTES) -> float:
    """What a decode step's intensity tends to as its batch grows and the weights cost nothing any more.

    2 (P + V h) / (S kv) + heads / kv_heads (bf16). With S = `context` tokens.
    """
    weights = 2 * (model.linear_params + model.head_params)
    return weights / (context * model.kv_bytes_per_token(kv_bytes)) + attention_intensity_limit(model, kv_bytes)


def context_limit(model: ModelShape, ridge: float, kv_bytes: float = BF16_BYTES) -> float:
    """Context beyond which a decode step stays below the ridge at any batch. Llama-3-8B, H100: 393 tokens; H200: 567.

    2 (P + V h) / (kv (ridge - heads / kv_heads)); infinite where attention alone lies on or above the ridge.
    """
    above = ridge - attention_intensity_limit(model, kv_bytes)
    if above <= 0:
        return float("inf")
    return 2 * (model.linear_params + model.head_params) / (model.kv_bytes_per_token(kv_bytes) * above)


def usable_peak_share(intensity: float, ridge: float) -> float:
    """Share of the peak that a kernel of this intensity can reach at most. 1 FLOP/byte on H100: 0.34%."""
    return min(1.0, intensity / ridge)
