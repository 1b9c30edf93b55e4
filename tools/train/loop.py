"""The training loop: steps, lines of progress, checkpoints, and an end that comes in time.

A run's length may be left to the clock: after some steps the speed is known, and so is how many tokens fit. Until then the
learning rate does not depend on the end (schedule.py). Once decided, the length is part of the checkpoint.
"""

import dataclasses
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from course_lib.model import Decoder

from . import checkpoint
from .data import Windows
from .objective import Loss
from .optimise import Optimiser
from .schedule import Schedule

LOG_STEPS = 25  # a loss is read back so often; between, the host runs ahead of the GPU
VALIDATE_STEPS = 500
CHECKPOINT_SECONDS = 60.0
STOP_SECONDS = 5.0  # kept for the last checkpoint of a call that does not finish
FINISH_SECONDS = 20.0  # kept for weights and the held-out score of one that does
SPEED_FROM, SPEED_TO = 30, 80  # steps between which the speed is measured; those before compile and warm up
MARGIN = 0.97
SHOW_SECONDS = 5.0
HOPELESS = 100.0  # nats; ln 4096 is 8.3


@dataclass(frozen=True, slots=True)
class Settings:
    """What a resumed run must share with the call that began it."""

    batch: int = 64
    length: int = 1024
    seed: int = 0
    muon_rate: float = 0.02
    adam_rate: float = 0.004
    weight_decay: float = 0.01
    warmup_steps: int = 100
    decay_share: float = 0.4
    teacher: str = ""
    distil_share: float = 0.0

    @property
    def tokens_per_step(self) -> int:
        return self.batch * self.length


@dataclass(slots=True)
class Run:
    """A model on its way. total_steps None: as many as fit, not known yet."""

    model: Decoder
    settings: Settings
    windows: Windows
    loss: Loss
    path: Path
    total_steps: int | None = None
    clock: Callable[[], float] = time.monotonic
    step: int = 0
    history: dict[str, Any] = field(default_factory=lambda: {"losses": [], "validation": [], "seconds": 0.0, "calls": 0})
    optimiser: Optimiser = field(init=False)

    def __post_init__(self) -> None:
        s = self.settings
        self.optimiser = Optimiser(self.model, muon_rate=s.muon_rate, adam_rate=s.adam_rate, weight_decay=s.weight_decay)
        found = checkpoint.load(self.path, self.plan, self.windows.tokens.device)
        if found:
            self.step, self.history = found["step"], found["history"]
            self.total_steps = self.history["total_steps"] if self.history["total_steps"] is not None else self.total_steps
            self.optimiser.load_state_dict(found["optimiser"])

    @property
    def plan(self) -> dict[str, Any]:
        return {"config": self.model.config.to_dict(), **dataclasses.asdict(self.settings)}

    @property
    def finished(self) -> bool:
        return self.total_steps is not None and self.step >= self.total_steps

    def advance(self) -> Tensor:
        """One step -> its loss, still on the device."""
        s = self.settings
        factor = Schedule(s.warmup_steps, self.total_steps, s.decay_share).factor(self.step)
        loss = self.loss(*self.windows.batch(self.step))
        loss.backward()
        self.optimiser.step(factor)
        self.step += 1
        return loss.detach()

    def save(self) -> None:
        self.history["total_steps"] = self.total_steps
        checkpoint.save(self.path, step=self.step, plan=self.plan, optimiser=self.optimiser.state_dict(), history=self.history)


def train(run: Run, progress: "Progress", *, seconds: float) -> bool:
    """Go on until the run is finished (True) or `seconds` after progress.began are nearly over (False); writes a checkpoint."""
    clock, end = run.clock, progress.began + seconds
    before, entered, saved = run.history["seconds"], clock(), clock()
    run.history["calls"] += 1
    measured_from, first = 0.0, run.step
    while not run.finished:
        loss = run.advance()
        in_time = clock() < end - STOP_SECONDS
        if run.total_steps is None and run.step - first == SPEED_FROM:
            loss.item()  # waits for the device
            measured_from = clock()
        if run.total_steps is None and run.step - first == SPEED_TO:
            loss.item()
            run.total_steps = run.step + fitting_steps((clock() - measured_from) / (SPEED_TO - SPEED_FROM), end - clock())
            progress.say(f"{run.total_steps} steps fit, {run.total_steps * run.settings.tokens_per_step / 1e6:.0f} M tokens")
        if run.step % LOG_STEPS == 0 or run.finished or not in_time:
            value = loss.item()
            if not value < HOPELESS:
                raise FloatingPointError(f"the loss is {value} after step {run.step}; lower --muon-rate or --adam-rate")
            run.history["seconds"] = before + clock() - entered
            validate = run.step % VALIDATE_STEPS == 0 or run.finished
            progress.note(run, value, validation_loss(run) if validate else None)
        if not in_time:
            break
        if clock() - saved > CHECKPOINT_SECONDS:
            run.save()
            saved = clock()
    run.save()
    return run.finished


class Progress:
    """Lines for people on stdout, every few seconds; lines for programs in `log`, one JSON object for each loss read back."""

    def __init__(self, run: Run, log: Path, *, began: float, flops_per_token: float, peak_flops: float | None) -> None:
        self.log, self.began, self.flops_per_token, self.peak_flops = log, began, flops_per_token, peak_flops
        self._shown, self._shown_step = run.clock(), run.step
        log.parent.mkdir(parents=True, exist_ok=True)
        # the log holds what the checkpoint knows: steps after it, of a call that died, will be taken again
        known = {step for step, _ in run.history["losses"]}
        lines = log.read_text(encoding="utf-8").splitlines() if log.is_file() else []
        log.write_text("".join(f"{line}\n" for line in lines if json.loads(line)["step"] in known), encoding="utf-8")

    def note(self, run: Run, loss: float, validation: float | None) -> None:
        tokens, now = run.step * run.settings.tokens_per_step, run.clock()
        row = {"step": run.step, "tokens": tokens, "loss": round(loss, 5), "seconds": round(run.history["seconds"], 1)}
        run.history["losses"].append([run.step, row["loss"]])
        if validation is not None:
            row["validation"] = round(validation, 5)
            run.history["validation"].append([run.step, row["validation"]])
        with self.log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        if now - self._shown > SHOW_SECONDS or run.finished:
            speed = (run.step - self._shown_step) * run.settings.tokens_per_step / max(now - self._shown, 1e-9)
            share = f", MFU {speed * self.flops_per_token / self.peak_flops:.1%}" if self.peak_flops else ""
            held = f", held windows {run.history['validation'][-1][1]:.4f}" if run.history["validation"] else ""
            of = f"/{run.total_steps}" if run.total_steps else ""
            self.say(f"step {run.step}{of}, loss {loss:.4f}{held}, {speed / 1e6:.2f} M tokens/s{share}, {now - self.began:.0f} s")
            self._shown, self._shown_step = now, run.step

    def say(self, text: str) -> None:
        print(f"train: {text}", flush=True)


def fitting_steps(step_seconds: float, seconds_left: float) -> int:
    """How many more steps fit. 20 ms a step, 120 s left: 0.97 * (120 - 20) / 0.02 = 4850."""
    return max(1, int(MARGIN * (seconds_left - FINISH_SECONDS) / step_seconds))


@torch.no_grad()
def validation_loss(run: Run) -> float:
    """Nats a token on the windows that no step sees; by Decoder.forward, which is not compiled."""
    batches = run.windows.validation()
    losses = [
        torch.nn.functional.cross_entropy(run.model(tokens).flatten(0, 1), targets.flatten()) for tokens, targets in batches
    ]
    return float(torch.stack(losses).mean())
