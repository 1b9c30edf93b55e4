"""The learning rate over a run: a short warm-up, a long constant stretch, and a linear decay to zero over the last 40%.

The constant stretch is what lets a run decide late how long it will be: before the decay begins nothing depends on the end.
Source   warmup-stable-decay: Hu et al., MiniCPM, arXiv 2404.06395, section 4; the decay's share and linear form: Haegele et al.,
         arXiv 2405.18392.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Schedule:
    """Factors for steps 0 ... total_steps - 1. total_steps None: not decided yet, so no decay yet."""

    warmup_steps: int
    total_steps: int | None
    decay_share: float = 0.4

    def __post_init__(self) -> None:
        if self.warmup_steps < 1 or not 0 < self.decay_share <= 1:
            raise ValueError(f"warmup_steps {self.warmup_steps}, decay_share {self.decay_share}; use 1 or more, a share up to 1")

    def factor(self, step: int) -> float:
        """Share of the peak rate; above 0 at every step. 10 steps, decay 0.4: step 6 -> 1, step 7 -> 3/4, step 9 -> 1/4."""
        warm = min(1.0, (step + 1) / self.warmup_steps)
        if self.total_steps is None:
            return warm
        decay_steps = max(1, round(self.decay_share * self.total_steps))
        return min(warm, 1.0, max(0, self.total_steps - step) / decay_steps)
