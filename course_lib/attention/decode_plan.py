"""A decode step's plan: its work list in device buffers of fixed size, and the launches that read it.

A decode step reads the whole cache once and computes little, so its time is its bytes. What keeps a kernel from the memory's rate
is work that does not spread. `DecodePlan` cuts it by lengths (splits.py) on the host and writes it as a list; the launch never
changes, only the list does: a CUDA graph captured once replays after each `plan.update(kv_lengths)`.

Layout   q, out [queries, q_heads, head_dim]; lse float32 [queries, q_heads]
         k, v [num_blocks, block_size, kv_heads, head_dim] with tables int32 [rows, max_blocks]; contiguous: [rows, kv_len, ...]
"""

from typing import Any

import torch
from torch import Tensor

from . import paged_checks as checks
from .checks import launching_on
from .decode_tile import DecodeTile, decode_tile, most_rows, multiprocessors
from .splits import FIELDS, WorkList, split_work

LOG2_E = 1.4426950408889634
PARTS = 16  # parts that the merge kernel takes at a time


class DecodePlan:
    """The work list of one shape of decode step, and the memory for its parts. Make one with `DecodePlan.plan`."""

    def __init__(
        self, groups: Any, capacity: int, why: str, *, q_heads: int, kv_heads: int, head_dim: int, block_size: int | None,
        dtype: torch.dtype, device: torch.device, tile: DecodeTile | None, programs: int | None, splits: str,
    ) -> None:  # fmt: skip
        checks.check_heads(q_heads, kv_heads)
        checks.check_sizes(head_dim, block_size)
        checks.check_dtype(dtype, device)
        checks.check_group(q_heads // kv_heads, head_dim)
        self.groups, self.capacity, self._why, self.splits = groups, capacity, why, splits
        self.q_heads, self.kv_heads, self.head_dim, self.block_size = q_heads, kv_heads, head_dim, block_size
        self.dtype, self.device, self.group = dtype, device, q_heads // kv_heads
        self.part_rows = self.group * (int(groups[:, 1].max()) if len(groups) else 1)
        self.tile_rows = max(16, 1 << (self.part_rows - 1).bit_length())
        sms, sm_bytes = multiprocessors(device)
        self.tile = tile or decode_tile(head_dim, self.tile_rows, sm_bytes)
        self.rows = int(groups[:, 2].max()) + 1 if len(groups) else 0
        self.queries = int((groups[:, 0] + groups[:, 1]).max()) if len(groups) else 0
        pairs = len(groups) * kv_heads
        most_tiles = pairs * max(1, -(-capacity // self.tile.tokens))
        self.programs = max(1, min(programs or sms * self.tile.programs_per_sm, most_tiles))
        self.max_merges = min(pairs, self.programs - 1)
        self._starts = -(-(self.programs + 1) // FIELDS) * FIELDS
        self._items = (pairs + self.programs) * FIELDS
        self._merges = max(1, self.max_merges) * FIELDS
        size = self._starts + self._items + self._merges
        self.work = torch.zeros(size, dtype=torch.int32, device=device)
        self._views = self.work.split([self._starts, self._items, self._merges])
        slots = max(1, 2 * (self.programs - 1))
        self.parts = torch.empty(slots, self.part_rows, head_dim, dtype=torch.float32, device=device)
        self.part_lse = torch.empty(slots, self.part_rows, dtype=torch.float32, device=device)
        pinned = device.type == "cuda"
        self._host = [torch.zeros(size, dtype=torch.int32, pin_memory=pinned) for _ in range(2)]
        self._copied = [torch.cuda.Event() for _ in range(2)] if pinned else []
        self._turn, self._merge_loaded = 0, False
        self.lengths: Any = None
        self.list: WorkList | None = None

    @classmethod
    def plan(
        cls, kv_lengths: Any, *, q_heads: int, kv_heads: int, head_dim: int, block_size: int | None, max_len: int,
        dtype: torch.dtype, device: Any, queries_per_row: int = 1, tile: DecodeTile | None = None, programs: int | None = None,
        splits: str = "auto",
    ) -> "DecodePlan":  # fmt: skip
        """Plan a step for these lengths, and for all later ones up to max_len tokens a row (table entries * block_size).

        block_size       None: contiguous K and V
        queries_per_row  queries that all see all of the row's tokens (a shared prefix); more than a tile takes are cut
        tile, programs, splits  by default what head_dim, the device and the work ask for
        """
        import numpy as np

        device = torch.device(device)
        if device.type == "cuda" and device.index is None:
            device = torch.device("cuda", torch.cuda.current_device())
        lengths = checks.host_lengths(kv_lengths)
        if queries_per_row < 1 or (programs is not None and programs < 1):
            raise ValueError(f"{queries_per_row} queries for each row, {programs} programs; use at least 1 of both")
        group = max(1, q_heads // max(1, kv_heads))
        at_once = max(1, min(queries_per_row, most_rows(head_dim) // group))
        first = np.arange(0, queries_per_row, at_once)
        row = np.repeat(np.arange(len(lengths)), len(first))
        inside = np.tile(first, len(lengths))
        groups = np.stack([row * queries_per_row + inside, np.minimum(at_once, queries_per_row - inside), row], 1)
        why = f"{max_len // block_size} blocks of {block_size}" if block_size else "contiguous"
        made = cls(
            groups, max_len, why, q_heads=q_heads, kv_heads=kv_heads, head_dim=head_dim, block_size=block_size,
            dtype=dtype, device=device, tile=tile, programs=programs, splits=splits,
        )  # fmt: skip
        made.update(lengths)
        return made

    def update(self, kv_lengths: Any) -> None:
        """Write the work of new lengths into the same device buffers, on the current stream. Bad lengths change nothing.

        Give host numbers: a CUDA tensor is copied to the host first, which waits for the GPU. RuntimeError while a CUDA graph is
        captured: it would hold the copy, and every replay would read these lengths again.
        """
        if self.device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            raise RuntimeError("plan.update inside a CUDA graph would be replayed with it; update before capture and replays")
        lengths = checks.host_lengths(kv_lengths)
        checks.check_lengths(lengths, self.rows, self.capacity, self._why)
        if not self.rows:
            self.lengths = lengths
            return
        work = split_work(
            lengths[self.groups[:, 2]], self.kv_heads, tile=self.tile.tokens, programs=self.programs, groups=self.groups,
            splits=self.splits,
        )  # fmt: skip
        turn = self._turn
        if self._copied:
            self._copied[turn].synchronize()  # the copy before the last one: long done
        host = self._host[turn].numpy()
        host[: self.programs + 1] = work.starts
        host[self._starts : self._starts + work.items.size] = work.items.ravel()
        merges = host[self._starts + self._items :]
        merges[: work.merges.size] = work.merges.ravel()
        merges[work.merges.size :] = 0
        self.work.copy_(self._host[turn], non_blocking=True)
        if self._copied:
            self._copied[turn].record()
        self._turn = 1 - turn
        self.lengths, self.list = lengths, work

    def check_tables(self, block_tables: Tensor, num_blocks: int) -> None:
        """ValueError for a live table entry outside the pool. On a GPU this waits for the GPU; run() never looks."""
        if self.block_size is None:
            raise ValueError("this plan is for contiguous K and V, which have no block tables")
        checks.check_tables(block_tables, self.lengths, num_blocks, self.block_size)

    def run(
        self, q: Tensor, k: Tensor, v: Tensor, block_tables: Tensor | None = None, *, scale: float | None = None,
        out: Tensor | None = None, lse: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """Attend with the planned lengths. q [queries, q_heads, head_dim] -> (out, lse float32 [queries, q_heads]).

        Nothing here waits for the device, and inside a CUDA graph the same launches are captured whatever the lengths are.
        out may have another float dtype than q (float32 for a result that is merged further).
        """
        self.check(q, k, v, block_tables)
        checks.check_gradient(q, k, v)
        scale = checks.check_scale(scale, self.head_dim)
        if out is None:
            out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        else:
            checks.check_out(out, q, k, v, dtype=out.dtype if out.is_floating_point() else q.dtype)
        if lse is None:
            lse = torch.empty(q.shape[:2], dtype=torch.float32, device=q.device)
        elif (lse.shape, lse.dtype, lse.device) != (q.shape[:2], torch.float32, q.device) or not lse.is_contiguous():
            raise ValueError(f"lse must be float32 {[*q.shape[:2]]} on {q.device}, contiguous, got {lse.dtype} {[*lse.shape]}")
        if self.rows:
            with launching_on(q):
                self._launch(q, k, v, block_tables, scale * LOG2_E, out, lse)
        return out, lse

    def _launch(
        self, q: Tensor, k: Tensor, v: Tensor, block_tables: Tensor | None, scale: float, out: Tensor, lse: Tensor
    ) -> None:
        from .decode_kernel import decode_kernel
        from .merge_kernel import merge_kernel

        starts, items, merges = self._views
        tables = self.work if block_tables is None else block_tables
        padded = 1 << (self.head_dim - 1).bit_length()
        decode_kernel[(self.programs,)](
            q, k, v, tables, out, lse, starts, items, self.parts, self.part_lse,
            q.stride(0), q.stride(1), out.stride(0), out.stride(1), lse.stride(0),
            k.stride(0), k.stride(1), k.stride(2), 0 if block_tables is None else tables.stride(0), self.part_rows,
            scale,
            GROUP=self.group, BLOCK_SIZE=self.block_size or 16, PAGED=block_tables is not None, HEAD_DIM=self.head_dim,
            BLOCK_D=padded, ROWS=self.tile_rows, TILE=self.tile.tokens, STAGES=self.tile.stages, PRECISION="ieee",
            num_warps=self.tile.warps,
        )  # fmt: skip
        # A graph must hold the merge whatever it is captured with, and no kernel can be loaded while one is captured.
        always = q.is_cuda and (not self._merge_loaded or torch.cuda.is_current_stream_capturing())
        if self.max_merges and (always or len(self.list.merges)):  # type: ignore[union-attr]
            self._merge_loaded = True
            merge_kernel[(self.max_merges, self.part_rows)](
                self.parts, self.part_lse, merges, out, lse, out.stride(0), out.stride(1), lse.stride(0), self.part_rows,
                GROUP=self.group, HEAD_DIM=self.head_dim, BLOCK_D=padded, PARTS=PARTS, num_warps=4,
            )  # fmt: skip

    def check(self, q: Tensor, k: Tensor, v: Tensor, tables: Tensor | None = None) -> None:
        """ValueError or TypeError for tensors that are not what was planned for. Looks at shapes only, never at values."""
        checks.check_cache(q, k, v, tables)
        if (tables is None) != (self.block_size is None):
            raise ValueError("a plan with a block size reads block tables, one for contiguous K and V none; plan again")
        planned = (self.queries, self.q_heads, self.head_dim, self.kv_heads, self.dtype, self.device)
        found = (*q.shape, k.shape[2], q.dtype, q.device)
        if planned != found:
            names = "queries, query heads, head_dim, KV heads, dtype, device"
            raise ValueError(f"planned for ({names}) {planned}, called with {found}; plan again")
        if tables is None:
            if k.shape[0] != self.rows or k.shape[1] < self.capacity:
                raise ValueError(f"planned for {self.rows} rows of up to {self.capacity} tokens, K is {tuple(k.shape)}")
        elif k.shape[1] != self.block_size:
            raise ValueError(f"planned for blocks of {self.block_size} tokens, the pool has blocks of {k.shape[1]}")
        elif tables.shape[0] != self.rows or tables.shape[1] * k.shape[1] < self.capacity:
            raise ValueError(
                f"planned for {self.rows} rows of up to {self.capacity} tokens, the block tables are {tuple(tables.shape)}"
            )
