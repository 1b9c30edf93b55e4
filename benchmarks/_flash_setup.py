"""Cases, contenders and rounds of flash_forward.py: 16,384 tokens in all, hidden size 2048, bf16, random data, cold L2.

The shapes are those of the figures in FlashAttention-3 (arXiv 2407.08608): batch = 16384 / sequence, heads = 2048 / head_dim.
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from course_lib.attention import attention_flops, flash_attention
from course_lib.timing import l2_flusher, time_calls

TOKENS, HIDDEN = 16384, 2048
ROUNDS, CALLS = 7, 3


@dataclass(frozen=True, slots=True)
class Case:
    head_dim: int
    sequence: int
    causal: bool

    @property
    def batch(self) -> int:
        return TOKENS // self.sequence

    @property
    def heads(self) -> int:
        return HIDDEN // self.head_dim

    @property
    def flops(self) -> float:
        """As the papers count: half of the full product when causal."""
        full = attention_flops(self.batch, self.sequence, self.sequence, self.heads, self.head_dim)
        return full / 2 if self.causal else full

    @property
    def words(self) -> str:
        return f"head_dim {self.head_dim}, {self.batch} x {self.sequence}, {'causal' if self.causal else 'full'}"

    def inputs(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        shape = (self.batch, self.sequence, self.heads, self.head_dim)
        generator = torch.Generator("cuda").manual_seed(0)
        q, k, v = (torch.randn(shape, generator=generator, device="cuda", dtype=torch.bfloat16) for _ in range(3))
        return q, k, v


def contenders(case: Case) -> dict[str, Callable[[], torch.Tensor]]:
    """Calls by name, all on the same q, k, v. A peer that does not run here is left out, with a line that says why."""
    from torch.nn.attention import SDPBackend

    q, k, v = case.inputs()
    calls: dict[str, Callable[[], torch.Tensor]] = {"ours": lambda: flash_attention(q, k, v, causal=case.causal, impl="triton")}
    peers = {
        "SDPA cuDNN": _sdpa(q, k, v, case.causal, SDPBackend.CUDNN_ATTENTION),
        "SDPA flash": _sdpa(q, k, v, case.causal, SDPBackend.FLASH_ATTENTION),
        "fa3-fwd": _fa3(q, k, v, case.causal),
    }
    right = calls["ours"]().float()
    for name, call in peers.items():
        if call is None:
            continue
        try:
            found = call()
        except RuntimeError as error:
            print(f"{case.words}: {name} does not run: {str(error).splitlines()[0]}", flush=True)
            continue
        # each rounds its weights and its result to bf16, and is off by at most 2 ** -7 of the largest value
        apart, budget = (found.float() - right).abs().max().item(), 2 * 2**-7 * v.abs().max().item()
        if not apart <= budget:
            raise AssertionError(f"{case.words}: {name} and ours differ by {apart}, more than {budget}")
        calls[name] = call
    return calls


def in_turns(calls: dict[str, Callable[[], Any]], rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Seconds of each call in each round: a median with a cold L2, every second round backwards."""
    flush = l2_flusher()
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds):
        for name in list(calls) if number % 2 == 0 else list(calls)[::-1]:
            seconds[name].append(time_calls(calls[name], repeats=CALLS, warmup=1, before=flush).median_seconds)
    return seconds


def tflops(case: Case, seconds: list[float]) -> tuple[float, float, float]:
    """(median, lowest, highest) TFLOP/s."""
    found = sorted(case.flops / s / 1e12 for s in seconds)
    return statistics.median(found), found[0], found[-1]


def _sdpa(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, backend: Any) -> Callable[[], torch.Tensor]:
    from torch.nn.attention import sdpa_kernel

    heads_first = [x.transpose(1, 2) for x in (q, k, v)]

    def call() -> torch.Tensor:
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(*heads_first, is_causal=causal).transpose(1, 2)

    return call


def _fa3(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> Callable[[], torch.Tensor] | None:
    """FlashAttention-3 from the wheel fa3-fwd, where it is installed."""
    try:
        from fa3_fwd_interface import flash_attn_func
    except (ImportError, OSError):
        return None

    def call() -> torch.Tensor:
        out = flash_attn_func(q, k, v, causal=causal)
        return out[0] if isinstance(out, tuple) else out

    return call
