"""Where the explorer's controls can stand: the precisions, models and limits that it offers."""

from dataclasses import dataclass

from ..hardware import gpu_named
from ..roofline import MODELS, ModelShape

WEIGHT_BYTES = {"bf16": 2.0, "FP8": 1.0, "INT4 g128": 4.125 / 8}  # one weight of the layers; the head stays in bf16
KV_BYTES = {"bf16": 2.0, "FP8": 1.0}  # one value of the cache
DENSE = {model.name: model for model in MODELS if isinstance(model, ModelShape)}  # those whose weights are counted
RANKS = (1, 2, 4, 8)
MOST_BATCH, MOST_CONTEXT, MOST_NEW = 1024, 131_072, 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Where the controls stand. `gpu` as gpu_named takes it; ValueError for what the controls cannot show."""

    gpu: str = "h100-sxm"
    model: str = "Llama-3-8B"
    weights: str = "bf16"
    kv: str = "bf16"
    batch: int = 32
    context: int = 2048
    new_tokens: int = 1
    ranks: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "gpu", gpu_named(self.gpu).key)
        allowed = {"model": DENSE, "weights": WEIGHT_BYTES, "kv": KV_BYTES, "ranks": RANKS}
        for name, choices in allowed.items():
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} is {getattr(self, name)!r}; use one of {', '.join(map(str, choices))}")
        limits = {"batch": (1, MOST_BATCH), "context": (0, MOST_CONTEXT), "new_tokens": (1, MOST_NEW)}
        for name, (least, most) in limits.items():
            value = getattr(self, name)
            if not isinstance(value, int) or not least <= value <= most:
                raise ValueError(f"{name} is {value!r}; use a whole number from {least} to {most}")
