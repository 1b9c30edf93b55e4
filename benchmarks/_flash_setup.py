"""Cases and contenders of the benchmarks of FlashAttention: 16,384 tokens in all, hidden size 2048, bf16, random data.

The shapes are those of the figures in FlashAttention-3 (arXiv 2407.08608): batch = 16384 / sequence, heads = 2048 / head_dim.
"""

from dataclasses import dataclass
from typing import Any

import torch

from course_lib.attention import attention_flops, flash_attention

from ._peers import SDPA, Call, budget_of, check_alike, first_result, rates, sdpa
from ._peers import SOURCES as PEERS_SOURCES
from ._peers import in_turns as in_turns

SOURCES = (
    "benchmarks/_flash_setup.py", *PEERS_SOURCES, "course_lib/attention/forward.py", "course_lib/attention/forward_kernel.py",
    "course_lib/attention/tiles.py", "course_lib/attention/cost.py",
)  # fmt: skip
TOKENS, HIDDEN = 16384, 2048


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


def contenders(case: Case) -> dict[str, Call]:
    """Calls by name, all on the same q, k, v. A peer that does not run here is left out, with a line that says why."""
    q, k, v = case.inputs()
    calls: dict[str, Call] = {"ours": lambda: flash_attention(q, k, v, causal=case.causal, impl="triton")}
    peers = {name: _sdpa(q, k, v, case.causal, backend) for name, backend in SDPA.items()}
    if fa3 := _fa3(q, k, v, case.causal):
        peers["fa3-fwd"] = fa3
    right = calls["ours"]()
    for name, call in peers.items():
        found = first_result(f"{case.words}: {name}", call)
        if found is not None:
            check_alike(f"{case.words}: {name} and ours", found, right, budget_of(v))
            calls[name] = call
    return calls


def tflops(case: Case, seconds: list[float]) -> tuple[float, float, float]:
    """(median, lowest, highest) TFLOP/s."""
    return rates(case.flops / 1e12, seconds)


def _sdpa(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, backend: Any) -> Call:
    call = sdpa(backend, *(x.transpose(1, 2) for x in (q, k, v)), is_causal=causal)
    return lambda: call().transpose(1, 2)


def _fa3(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> Call | None:
    """FlashAttention-3 from the wheel fa3-fwd, where it is installed."""
    try:
        from fa3_fwd_interface import flash_attn_func
    except (ImportError, OSError):
        return None

    def call() -> torch.Tensor:
        out = flash_attn_func(q, k, v, causal=causal)
        return out[0] if isinstance(out, tuple) else out

    return call
