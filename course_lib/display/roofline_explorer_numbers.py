"""What the roofline explorer shows, as plain data: everything that follows from a setting of its controls.

Counts, intensities and times come from `course_lib.roofline`, so that the explorer cannot disagree with the notebook. A part of
a step's bytes is the same step with the other parts switched off.
"""

from dataclasses import dataclass

from ..hardware import GpuSpec, all_specs
from ..roofline import (
    ModelShape,
    Step,
    chunk_step,
    context_limit,
    count_step,
    intensity_limit,
    resident_bytes,
    step_floor_ms,
    token_threshold,
    usable_peak_share,
    weights_intensity,
)
from ..roofline.steps import residual_bytes
from .roofline_explorer_setting import DENSE, KV_BYTES, WEIGHT_BYTES, Setting

ALPHA_US = 5.0  # to get an all-reduce going: the assumption of section 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """What follows from a setting. Counts are of the whole step; times and memory take the ranks into account."""

    setting: Setting
    gpu: GpuSpec
    model: ModelShape
    ranks: int  # 1 where the model's heads do not split as asked
    notes: tuple[str, ...]
    precision: str  # of the arithmetic: "bf16", "fp16" or "fp8"
    peak_tflops: float
    ridge: float  # FLOP per byte, as all intensities
    step: Step
    product_flops: float
    attention_flops: float
    weights_read_bytes: float
    kv_moved_bytes: float
    activation_bytes: float  # the residual stream
    product_intensity: float  # of the layers' products, their weights alone
    attention_intensity: float  # on the keys and values that move
    trail: tuple[tuple[int, float], ...]  # (batch, intensity of the step) from 1 to the chosen one
    product_start: float  # intensity of the products at batch 1
    token_threshold: float  # M*
    context_limit: float | None  # of decode steps at any batch, beyond which they stay below the ridge
    intensity_limit: float | None  # of a decode step in this context, at any batch
    arithmetic_ms: float
    memory_ms: float
    allreduce_ms: float  # with 5 us to start each
    resident_bytes: float  # on each GPU
    most_batch: int  # that fits; 0 when the weights alone do not

    @property
    def decodes(self) -> bool:
        return self.setting.new_tokens == 1 and self.setting.context > 0

    @property
    def tokens(self) -> int:
        return self.setting.batch * self.setting.new_tokens

    @property
    def bound(self) -> str:
        return "arithmetic" if self.step.flops_per_byte >= self.ridge else "memory"

    @property
    def peak_share(self) -> float:
        return usable_peak_share(self.step.flops_per_byte, self.ridge)

    @property
    def floor_ms(self) -> float:
        return max(self.arithmetic_ms, self.memory_ms) + self.allreduce_ms

    @property
    def fits(self) -> bool:
        return self.resident_bytes <= self.gpu.hbm_gb * 1e9

    def tflops_at(self, intensity: float) -> float:
        """The roof above an intensity."""
        return self.peak_tflops * usable_peak_share(intensity, self.ridge)


def numbers_of(setting: Setting) -> Numbers:
    """Everything that the explorer shows for a setting."""
    gpu, model = all_specs()[setting.gpu], DENSE[setting.model]
    batch, context, new = setting.batch, setting.context, setting.new_tokens
    weight, kv = WEIGHT_BYTES[setting.weights], KV_BYTES[setting.kv]
    precision, notes = _arithmetic(gpu, setting.weights)
    ranks, split_notes = _ranks(model, setting.ranks)
    peak, bandwidth = gpu.peak_tflops(precision), gpu.hbm_gb_per_s * 1e9
    ridge = gpu.ridge_flops_per_byte(precision)

    step = chunk_step(model, new, context, batch, weight, kv_bytes=kv)
    attention = count_step(model.numbers(), new, context, batch, weight, kv)["attention_flops"]
    activations = residual_bytes(model, batch * new)
    cache = chunk_step(model, new, context, batch, 0, kv_bytes=kv, head_bytes=0).bytes_moved - activations
    decodes = new == 1 and context > 0
    batches = sorted({2**n for n in range(batch.bit_length())} | {batch})
    one = Step(flops=0, bytes_moved=0, allreduce_bytes=step.allreduce_bytes)  # nothing but its all-reduces
    return Numbers(
        setting=setting,
        gpu=gpu,
        model=model,
        ranks=ranks,
        notes=(*split_notes, *notes, *_link_notes(gpu, ranks)),
        precision=precision,
        peak_tflops=peak,
        ridge=ridge,
        step=step,
        product_flops=step.flops - attention,
        attention_flops=attention,
        weights_read_bytes=chunk_step(model, new, context, batch, weight, kv_bytes=0).bytes_moved - activations,
        kv_moved_bytes=cache,
        activation_bytes=activations,
        product_intensity=weights_intensity(batch * new, weight),
        attention_intensity=attention / cache,
        trail=tuple((b, chunk_step(model, new, context, b, weight, kv_bytes=kv).flops_per_byte) for b in batches),
        product_start=weights_intensity(new, weight),
        token_threshold=token_threshold(ridge, weight),
        context_limit=context_limit(model, ridge, kv) if decodes else None,
        intensity_limit=intensity_limit(model, context, kv) if decodes else None,
        arithmetic_ms=1e3 * step.flops / (peak * 1e12) / ranks,
        memory_ms=1e3 * step.bytes_moved / bandwidth / ranks,
        allreduce_ms=_floor_ms(one, model, gpu, peak, ranks) if ranks > 1 else 0.0,
        resident_bytes=resident_bytes(model, batch * (context + new), weight, kv_bytes=kv) / ranks,
        most_batch=_most_batch(model, context + new, weight, kv, gpu.hbm_gb * 1e9 * ranks),
    )


def link_of(gpu: GpuSpec, ranks: int) -> tuple[str, float]:
    """What joins `ranks` of these GPUs and its GB/s in one direction. A bridge joins two cards; beyond that it is PCIe."""
    if gpu.link and not ("two cards" in gpu.link and ranks > 2):
        return gpu.link, gpu.link_gb_per_s / 2
    return f"PCIe {gpu.pcie}", gpu.pcie_gb_per_s / 2


def _floor_ms(step: Step, model: ModelShape, gpu: GpuSpec, peak_tflops: float, ranks: int) -> float:
    """roofline.step_floor_ms for one configuration."""
    import torch

    def one(value: float) -> "torch.Tensor":
        return torch.tensor([value], dtype=torch.float64)

    counts = {"flops": one(step.flops), "bytes": one(step.bytes_moved), "allreduce_bytes": one(step.allreduce_bytes)}
    machine = {"peak_tflops": one(peak_tflops), "hbm_gb_per_s": one(gpu.hbm_gb_per_s), "alpha_us": one(ALPHA_US),
               "link_gb_per_s": one(link_of(gpu, ranks)[1])}  # fmt: skip
    return step_floor_ms(counts, one(model.layers), machine, one(ranks)).item()


def _arithmetic(gpu: GpuSpec, weights: str) -> tuple[str, tuple[str, ...]]:
    """The precision whose peak holds, and what has to be said about it."""
    half = gpu.half_precision
    notes = [] if half == "bf16" else [f"The {gpu.name} has no bf16; fp16 takes its place, of the same size."]
    if weights == "FP8" and gpu.fp8_tflops is not None:
        return "fp8", (
            "The floor takes the FP8 peak for all. Attention and head stay in 16 bits: it may be too low, never too high.",
        )
    if weights == "FP8":
        notes.append(f"The {gpu.name} has no FP8 arithmetic: FP8 weights save bytes, and the peak is that of {half}.")
    if weights.startswith("INT4"):
        notes.append(f"INT4 weights become {half} before they are multiplied: the peak is that of {half}.")
    return half, tuple(notes)


def _ranks(model: ModelShape, ranks: int) -> tuple[int, tuple[str, ...]]:
    if model.heads % ranks == 0:
        return ranks, ()
    return 1, (f"The {model.heads} query heads of {model.name} do not split over {ranks} GPUs; this is one GPU.",)


def _link_notes(gpu: GpuSpec, ranks: int) -> tuple[str, ...]:
    if ranks == 1:
        return ()
    name, rate = link_of(gpu, ranks)
    return (f"All-reduces over {name}, {rate:g} GB/s each way, with {ALPHA_US:g} µs (assumed) to start each.",)


def _most_batch(model: ModelShape, tokens: int, weight: float, kv: float, capacity_bytes: float) -> int:
    """The largest batch of sequences of `tokens` tokens that fits. Memory grows with the batch, so halving finds it."""
    low, high = 0, 2**24
    while low < high:
        middle = (low + high + 1) // 2
        if resident_bytes(model, middle * tokens, weight, kv_bytes=kv) <= capacity_bytes:
            low = middle
        else:
            high = middle - 1
    return low
