"""One step of a decoder over blocks: what all of its layers share, and the paged kernels on it.

A step is prepared once, at the first layer (PagedCache), and read by every layer: slots to write, block tables, lengths, and
the decode plan, which is kept from step to step while the shapes stay the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .span import Span

if TYPE_CHECKING:
    from .paged_store import PagedStore


@dataclass(slots=True)
class PagedStep:
    """Where the tokens of one step go, and where those of its rows lie.

    rows    the first position and the number of new tokens of each row; (0, 0) for one that sits the step out
    slots   int64 [tokens]: where the new tokens go, row after row; live [batch, q_len]: which they are (None: all)
    tables  int32 [batch, max_blocks], -1 behind a row's blocks
    plans   decode plans by shape, kept by the cache
    """  # fmt: skip

    span: Span
    rows: Sequence[tuple[int, int]]
    slots: Tensor
    live: Tensor | None
    tables: Tensor
    plans: dict[tuple[int, ...], Any]
    _gathered: tuple[Tensor, Tensor | None] | None = None
    _planned: Any = None
    _packed: tuple[Tensor, Tensor] | None = None

    def kv_lengths(self) -> list[int]:
        """Tokens of each row after this step; 0 for one that sits it out."""
        return [first + new for first, new in self.rows]

    def gathered(self, block_size: int) -> tuple[Tensor, Tensor | None]:
        """Where the tokens of each row lie, int64 [batch, span.keys], and True where a row has none (None: nowhere)."""
        if self._gathered is None:
            positions = torch.arange(self.span.keys, device=self.tables.device)
            blocks, dead = self.tables.long()[:, positions // block_size], None
            if self.live is not None:
                dead = positions >= torch.tensor(self.kv_lengths(), device=positions.device)[:, None]
                blocks = blocks.clamp(min=0)
            self._gathered = blocks * block_size + positions % block_size, dead
        return self._gathered

    def plan(self, q: Tensor, blocks: Tensor) -> Any:
        """The decode plan of this step, made or updated at its first layer."""
        if self._planned is None:
            from course_lib.attention.decode import plan_for

            shape = tuple(self.tables.shape)
            if shape in self.plans:
                self.plans[shape].update(self.kv_lengths())
            else:
                self.plans.clear()
                self.plans[shape] = plan_for(q, blocks, self.tables, self.kv_lengths())
            self._planned = self.plans[shape]
        return self._planned

    def packed(self) -> tuple[Tensor, Tensor]:
        """cu_q int32 [batch + 1] and kv_lengths int32 [batch] on the device."""
        if self._packed is None:
            bounds = [0, *accumulate(new for _, new in self.rows)]
            on = {"dtype": torch.int32, "device": self.tables.device}
            self._packed = torch.tensor(bounds, **on), torch.tensor(self.kv_lengths(), **on)
        return self._packed


@dataclass(frozen=True, slots=True)
class PagedView:
    """Keys or values of one layer where they lie: blocks [num_blocks, block_size, kv_heads, head_dim], and the step."""

    blocks: Tensor
    step: PagedStep

    def __getattr__(self, name: str) -> Any:
        """What an attend that reads tensors meets first; blocks are for attend_paged."""
        raise AttributeError(
            f"a PagedView is no tensor and has no {name!r}: this cache hands out blocks, and the model's attend reads tensors; "
            "give the model attend_paged (load(..., parts=paged_parts())), or make the cache with impl='gather'"
        )


def attend_blocks(q: Tensor, k: PagedView, v: PagedView, scale: float) -> Tensor:
    """The paged kernels; on a CPU in the interpreter. q [batch, q_len, heads, head_dim] -> the same shape."""
    from course_lib.attention.decode import paged_decode
    from course_lib.attention.paged_prefill import paged_prefill

    step = k.step
    if q.shape[1] == 1:
        q = q[:, 0].contiguous()
        plan = step.plan(q, k.blocks)
        return paged_decode(q, k.blocks, v.blocks, step.tables, plan=plan, scale=scale, impl="triton")[:, None]
    packed = q.flatten(0, 1) if step.live is None else q[step.live]
    cu_q, kv_lengths = step.packed()
    most = max(new for _, new in step.rows)
    made = paged_prefill(
        packed, cu_q, k.blocks, v.blocks, step.tables, kv_lengths, max_q=most, scale=scale, impl="triton"
    )  # fmt: skip
    if step.live is None:
        return made.unflatten(0, q.shape[:2])
    out = torch.zeros_like(q)
    out[step.live] = made
    return out


def kernels_refuse(store: "PagedStore") -> str | None:
    """Why the paged kernels cannot serve this store; None when they can."""
    from course_lib.attention.checks import has_tensor_cores
    from course_lib.attention.paged_checks import check_dtype, check_sizes

    config, storage = store.config, store.storage
    if config.mla:
        return "MLA keeps latents, which the paged kernels do not read"
    if config.sliding_window is not None:
        return f"the paged kernels know no window, the model has one of {config.sliding_window}"
    if storage.device.type == "cuda" and not has_tensor_cores(storage.device):
        return f"the paged kernels need an A100 or newer, and {storage.device} is older"
    try:
        check_sizes(config.head_dim, storage.block_size)
        check_dtype(storage.dtype, storage.device)
    except (ValueError, TypeError) as error:
        return str(error)
    return None


def table_width(tokens: int, block_size: int) -> int:
    """Columns of the block tables: a power of two, so that plans of one shape serve many steps. 16, 80 tokens -> 5 -> 8."""
    return 1 << max(-(-tokens // block_size) - 1, 0).bit_length()
