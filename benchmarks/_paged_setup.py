"""What benchmarks of paged decode share: random caches, the calls compared, and the read roof of this run."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from course_lib.attention.decode import plan_for
from course_lib.attention.decode_plan import DecodePlan
from course_lib.attention.decode_tile import DecodeTile
from course_lib.timing import time_calls

from . import _peers

SOURCES = (
    "benchmarks/_paged_setup.py", *_peers.SOURCES, "course_lib/workloads/read_curve_kernel.py",
    "course_lib/attention/decode.py", "course_lib/attention/decode_plan.py", "course_lib/attention/decode_tile.py",
    "course_lib/attention/decode_kernel.py", "course_lib/attention/merge_kernel.py", "course_lib/attention/splits.py",
)  # fmt: skip
Q_HEADS, KV_HEADS, HEAD_DIM = 32, 8, 128
SHAPES = ((64, 8192), (32, 4096), (1, 131072), (1, 32768))  # rows, tokens of each
BARS = {(64, 8192): 0.93, (32, 4096): 0.86, (1, 131072): 0.83, (1, 32768): 0.61}  # share of the read roof
BUDGET = 0.02  # ours against ours: two roundings to bf16 of averages that are below 1
ROOF_WORDS = 2**28  # 1 GiB


@dataclass(frozen=True, slots=True)
class Case:
    """One decode step: a pool whose blocks stand in random order in the tables, and the same memory read as contiguous."""

    rows: int
    tokens: int
    block_size: int
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    tables: torch.Tensor

    @property
    def kv_bytes(self) -> int:
        return 2 * self.rows * self.tokens * KV_HEADS * HEAD_DIM * 2

    @property
    def words(self) -> str:
        return f"{self.rows} x {self.tokens}, block {self.block_size}"

    def ours(self, tile: DecodeTile | None = None, splits: str = "auto") -> tuple[Callable[[], Any], DecodePlan]:
        plan = plan_for(self.q, self.k, self.tables, [self.tokens] * self.rows, tile=tile, splits=splits)
        out, lse = torch.empty_like(self.q), torch.empty(self.q.shape[:2], device="cuda")
        return (lambda: plan.run(self.q, self.k, self.v, self.tables, out=out, lse=lse)[0]), plan

    def contiguous(self, tile: DecodeTile | None = None) -> Callable[[], Any]:
        """The same kernel and work list without a table."""
        k, v = (x.view(self.rows, self.tokens, KV_HEADS, HEAD_DIM) for x in (self.k, self.v))
        plan = DecodePlan.plan(
            [self.tokens] * self.rows, q_heads=Q_HEADS, kv_heads=KV_HEADS, head_dim=HEAD_DIM, block_size=None,
            max_len=self.tokens, dtype=torch.bfloat16, device="cuda", tile=tile,
        )  # fmt: skip
        out, lse = torch.empty_like(self.q), torch.empty(self.q.shape[:2], device="cuda")
        return lambda: plan.run(self.q, k, v, out=out, lse=lse)[0]

    def sdpa(self, backend: Any) -> Callable[[], Any]:
        """torch's attention over contiguous [rows, kv_heads, tokens, head_dim]: as many bytes, in the order it likes best."""
        k, v = (x.view(self.rows, KV_HEADS, self.tokens, HEAD_DIM) for x in (self.k, self.v))
        return _peers.sdpa(backend, self.q[:, :, None], k, v, enable_gqa=True)


def case(rows: int, tokens: int, block_size: int) -> Case:
    random = torch.Generator(device="cuda").manual_seed(rows + tokens)
    blocks = rows * tokens // block_size

    def normal(*shape: int) -> torch.Tensor:
        return torch.empty(shape, dtype=torch.bfloat16, device="cuda").normal_(generator=random)

    tables = torch.randperm(blocks, generator=random, device="cuda").to(torch.int32).view(rows, -1)
    pools = (normal(blocks, block_size, KV_HEADS, HEAD_DIM) for _ in range(2))
    return Case(rows, tokens, block_size, normal(rows, Q_HEADS, HEAD_DIM), *pools, tables)


def read_roof() -> float:
    """GB/s of reading 1 GiB, the best of three ways of cutting it into blocks."""
    from course_lib.workloads.read_curve_kernel import read_kernel

    source = torch.randint(-(2**31), 2**31 - 1, (ROOF_WORDS,), device="cuda", dtype=torch.int32)
    sums = torch.empty(ROOF_WORDS // 2048, device="cuda", dtype=torch.int32)
    rates = []
    for block, warps in ((2048, 4), (4096, 8), (8192, 8)):
        grid = (ROOF_WORDS // block,)

        def call(grid: tuple[int] = grid, block: int = block, warps: int = warps) -> None:
            read_kernel[grid](source, sums, ROOF_WORDS, BLOCK=block, num_warps=warps)

        rates.append(ROOF_WORDS * 4 / time_calls(call, repeats=20, warmup=100).median_seconds / 1e9)
    return max(rates)


def rates(seconds: list[float], size_bytes: int) -> tuple[float, float, float]:
    """(median, lowest, highest) GB/s."""
    return _peers.rates(size_bytes / 1e9, seconds)
