"""Swap or recompute: the two times, from bytes over the link and from the FLOPs of a prefill, and the lengths where they cross.

Swap       the blocks go out and come back: 2 * bytes / link, and a start for every single copy. With K and V of each layer in a
           tensor of its own, one block is 2 * layers copies of a few kilobytes; gathered into a buffer first, it is one.
Recompute  one prefill over all tokens so far: its floor on the roofline over the share of it that is reached. A short prefill
           takes as long as reading the weights.
So a short sequence is swapped (its bytes are few, the weights are not), a middle one may be recomputed where copies are small or
the link slow, and a very long one is swapped again, for attention grows with the square of the length.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from ..roofline.models import ModelShape
from ..roofline.steps import BF16_BYTES, chunk_step
from ..roofline.transfer import kv_transfer_seconds
from .errors import KVCacheError


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What the comparison needs to know. Link: one direction, host to device or back. copies_per_block: see above."""

    peak_flops: float
    memory_bytes_per_second: float
    link_bytes_per_second: float
    seconds_per_copy: float = 0.0
    copies_per_block: int = 1
    prefill_efficiency: float = 1.0  # share of the roofline that a prefill reaches

    def __post_init__(self) -> None:
        if not 0 < self.prefill_efficiency <= 1:
            raise KVCacheError(f"prefill_efficiency is {self.prefill_efficiency}; it is a share, above 0 and at most 1")


def swap_seconds(
    model: ModelShape, tokens: int, machine: Machine, block_size: int = 16, kv_bytes: float = BF16_BYTES, *, ways: int = 2
) -> float:
    """Time on the link; whole blocks travel. ways 2: out and back; 1: only back, as from host_tier.py.

    2048 tokens of Llama-3-8B (131,072 B each) over 50e9 B/s: 2 * 5.37 = 10.7 ms.
    """
    blocks = -(-tokens // block_size)
    start_seconds = blocks * machine.copies_per_block * machine.seconds_per_copy
    one_way = kv_transfer_seconds(
        blocks * block_size, model.kv_bytes_per_token(kv_bytes), machine.link_bytes_per_second, start_seconds=start_seconds
    )
    return ways * one_way


def recompute_seconds(model: ModelShape, tokens: int, machine: Machine, cached_tokens: int = 0) -> float:
    """One prefill of `tokens`, of which a prefix cache still has the first `cached_tokens`."""
    if not 0 <= cached_tokens <= tokens:
        raise KVCacheError(f"{cached_tokens} of {tokens} tokens are cached; use 0 to {tokens}")
    if cached_tokens == tokens:
        return 0.0
    step = chunk_step(model, tokens - cached_tokens, cached_tokens)
    return step.floor_seconds(machine.peak_flops, machine.memory_bytes_per_second) / machine.prefill_efficiency


class Stretch(NamedTuple):
    """From first_tokens to last_tokens, in whole blocks, this way is the quicker one."""

    first_tokens: int
    last_tokens: int
    way: str  # "swap" or "recompute"


def stretches(model: ModelShape, machine: Machine, max_tokens: int, block_size: int = 16) -> list[Stretch]:
    """The lengths up to max_tokens, cut where the quicker way changes. Equal times: swap, it leaves the GPU to others."""

    def quicker() -> Iterator[tuple[int, str]]:
        for tokens in range(block_size, max_tokens + 1, block_size):
            swap = swap_seconds(model, tokens, machine, block_size)
            yield tokens, "swap" if swap <= recompute_seconds(model, tokens, machine) else "recompute"

    parts = [(way, [tokens for tokens, _ in group]) for way, group in groupby(quicker(), key=lambda item: item[1])]
    return [Stretch(lengths[0], lengths[-1], way) for way, lengths in parts]
