"""Before a run: how fast steps are at several batch sizes, and which learning rates look best. Nothing is kept."""

import dataclasses
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from course_lib.model.config import ModelConfig

from .build import build, fresh, peak_flops
from .loop import Run, Settings, validation_loss
from .objective import flops_per_token
from .optimise import Optimiser

STEPS = 20
RATES = ((0.02, 0.004), (0.01, 0.004), (0.04, 0.004), (0.02, 0.008), (0.02, 0.002))  # (Muon's, AdamW's)


def speeds(
    config: ModelConfig, settings: Settings, tokens: Tensor, *,
    teacher: Path | None = None, batches: Sequence[int], compiled: bool = True,
) -> None:  # fmt: skip
    """Tokens/s over STEPS steps: eager with the first batch size, compiled with each. The first steps compile: timed apart."""
    peak = peak_flops(tokens.device)
    for ways in (False, True) if compiled else (False,):
        for batch in batches if ways else batches[:1]:
            with tempfile.TemporaryDirectory() as folder:
                chosen = dataclasses.replace(settings, batch=batch)
                path = Path(folder) / "none.pt"
                run = build(config, chosen, tokens, path, teacher=teacher, compiled=ways, total_steps=10**6)
                first = _seconds(run, 3)
                each = _seconds(run, STEPS) / STEPS
            speed = batch * settings.length / each
            share = f", MFU {speed * flops_per_token(run.model, settings.length) / peak:.1%}" if peak else ""
            held = f", {torch.cuda.max_memory_allocated() / 1e9:.1f} GB" if tokens.is_cuda else ""
            name = "compiled" if ways else "eager"
            print(f"dry run: {config.name}, {name}, batch {batch} x {settings.length}: {speed / 1e6:.3f} M tokens/s{share}, "
                  f"{each * 1e3:.1f} ms a step, first 3 steps {first:.1f} s{held}", flush=True)  # fmt: skip
            if tokens.is_cuda:
                torch.cuda.reset_peak_memory_stats()
                del run
                torch.cuda.empty_cache()


def sweep(run: Run, *, steps: int, seconds: float, rates: tuple[tuple[float, float], ...] = RATES) -> None:
    """A short whole run for each pair of rates, from the same weights on the same batches; the loss on held windows decides."""
    end = time.monotonic() + seconds
    began = fresh(run.model.config, run.settings.seed, torch.device("cpu")).state_dict()
    for muon_rate, adam_rate in rates:
        if time.monotonic() > end:
            print("sweep: no time for the other rates", flush=True)
            return
        run.model.load_state_dict(began)
        run.optimiser = Optimiser(run.model, muon_rate=muon_rate, adam_rate=adam_rate, weight_decay=run.settings.weight_decay)
        run.step, run.total_steps = 0, steps
        took = _seconds(run, steps)
        held = validation_loss(run)
        print(f"sweep: {run.model.config.name}, Muon {muon_rate}, AdamW {adam_rate}: {held:.4f} nats a token after "
              f"{steps * run.settings.tokens_per_step / 1e6:.0f} M tokens, {took:.0f} s", flush=True)  # fmt: skip


def _seconds(run: Run, steps: int) -> float:
    began = time.monotonic()
    for _ in range(steps):
        loss = run.advance()
    loss.item()
    return time.monotonic() - began
