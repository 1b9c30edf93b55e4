"""The roofline as small pure functions: FLOPs, bytes, and the time they cannot beat."""

from .count import count_step
from .floors import latency_floors, step_floor_ms
from .intensity import (
    context_limit,
    decode_intensity,
    intensity_limit,
    product_counts,
    product_intensity,
    square_token_threshold,
    token_threshold,
    usable_peak_share,
    weights_intensity,
)
from .kv import kv_bytes_per_layer, kv_bytes_per_rank, kv_saving, tokens_in_cache
from .models import (
    DEEPSEEK_67B,
    DEEPSEEK_V2,
    DEEPSEEK_V3,
    FALCON_7B,
    LLAMA_2_7B,
    LLAMA_3_8B,
    LLAMA_3_70B,
    LLAMA_3_405B,
    MODELS,
    LatentShape,
    ModelShape,
)
from .one_after_another import kernels_floor_seconds, prefill_floor_seconds
from .ridge import ridge_points
from .steps import Step, attention_pairs, chunk_step, decode_step, prefill_step, resident_bytes

__all__ = [
    "DEEPSEEK_67B",
    "DEEPSEEK_V2",
    "DEEPSEEK_V3",
    "FALCON_7B",
    "LLAMA_2_7B",
    "LLAMA_3_8B",
    "LLAMA_3_70B",
    "LLAMA_3_405B",
    "MODELS",
    "LatentShape",
    "ModelShape",
    "Step",
    "attention_pairs",
    "chunk_step",
    "context_limit",
    "count_step",
    "decode_intensity",
    "decode_step",
    "intensity_limit",
    "kernels_floor_seconds",
    "kv_bytes_per_layer",
    "kv_bytes_per_rank",
    "kv_saving",
    "latency_floors",
    "prefill_floor_seconds",
    "prefill_step",
    "product_counts",
    "product_intensity",
    "resident_bytes",
    "ridge_points",
    "square_token_threshold",
    "step_floor_ms",
    "token_threshold",
    "tokens_in_cache",
    "usable_peak_share",
    "weights_intensity",
]
