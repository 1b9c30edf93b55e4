"""From a model's name and settings to a Run, ready to step: weights drawn from the seed, the loss compiled, data in place."""

from pathlib import Path

import torch
from torch import Tensor

from course_lib.model import Decoder, load
from course_lib.model.config import ModelConfig

from .data import Windows
from .loop import Run, Settings
from .objective import Loss, distillation_loss, next_token_loss

PEAK_FLOPS = {"NVIDIA H200": 989e12, "NVIDIA H100 80GB HBM3": 989e12}  # dense bf16; NVIDIA's data sheets


def build(
    config: ModelConfig, settings: Settings, tokens: Tensor, path: Path, *,
    teacher: Path | None = None, compiled: bool = False, total_steps: int | None = None,
) -> Run:  # fmt: skip
    """tokens: int16 on the device that trains. path: its checkpoint. On a GPU the model computes in bfloat16, else in float32."""
    model = fresh(config, settings.seed, tokens.device)
    loss = loss_of(model, settings, teacher, compiled=compiled)
    windows = Windows(tokens, length=settings.length, batch=settings.batch, seed=settings.seed)
    return Run(model, settings, windows, loss, path, total_steps)


def fresh(config: ModelConfig, seed: int, device: torch.device) -> Decoder:
    """The same weights on every device: drawn on the CPU, in float32."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Decoder(config)
    return model.to(device=device, dtype=torch.bfloat16 if device.type == "cuda" else torch.float32)


def loss_of(model: Decoder, settings: Settings, teacher_path: Path | None, *, compiled: bool) -> Loss:
    """The loss as one function of (inputs, targets), as one graph where compiled."""
    device, length = model.device, settings.length
    if teacher_path:
        teacher = load(teacher_path, dtype=model.dtype, device=device)
        loss = distillation_loss(model, teacher, settings.distil_share, length, device)
    else:
        loss = next_token_loss(model, length, device)
    return torch.compile(loss, fullgraph=True, dynamic=False) if compiled else loss


def peak_flops(device: torch.device) -> float | None:
    """Dense bf16 FLOP/s of a device we know, for the share that a run reaches."""
    return PEAK_FLOPS.get(torch.cuda.get_device_name(device)) if device.type == "cuda" else None
