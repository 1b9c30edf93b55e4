"""The roofline as small pure functions: FLOPs, bytes, and the time they cannot beat."""

from .floors import latency_floors, step_floor_ms
from .models import LLAMA_3_8B, LLAMA_3_70B, ModelShape
from .ridge import ridge_points
from .steps import Step, decode_step, prefill_step, resident_bytes

__all__ = [
    "LLAMA_3_8B",
    "LLAMA_3_70B",
    "ModelShape",
    "Step",
    "decode_step",
    "latency_floors",
    "prefill_step",
    "resident_bytes",
    "ridge_points",
    "step_floor_ms",
]
