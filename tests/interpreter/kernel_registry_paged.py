"""Claims of the kernels that read and write a paged cache: course_lib/attention. bf16 needs an Ampere or newer."""

from collections.abc import Iterator

import torch

from course_lib.attention.decode_kernel import decode_kernel
from course_lib.attention.merge_kernel import merge_kernel, merge_pair_kernel
from course_lib.attention.paged_prefill import prefill_tile
from course_lib.attention.paged_prefill_kernel import paged_prefill_kernel
from course_lib.attention.paged_write_kernel import paged_write_kernel
from course_lib.interpreter.compiled import Launch

TARGETS = ("sm_80", "sm_90")


def empty(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def decode(head_dim: int, block: int, tile: int, rows: int = 16, *, group: int = 4, paged: bool = True, warps: int = 4) -> Launch:
    q, pool, work = empty(4, 8 * group, head_dim), empty(9, block, 8, head_dim), empty(64, dtype=torch.int32)
    tables, floats = empty(4, 8, dtype=torch.int32), empty(64, dtype=torch.float32)
    strides = (*q.stride()[:2], *q.stride()[:2], 8 * group, *pool.stride()[:3], tables.stride(0), group)
    constants = {
        "GROUP": group, "BLOCK_SIZE": block, "PAGED": paged, "HEAD_DIM": head_dim,
        "BLOCK_D": 1 << (head_dim - 1).bit_length(), "ROWS": rows, "TILE": tile, "STAGES": 3, "PRECISION": "ieee",
        "num_warps": warps,
    }  # fmt: skip
    tensors = (q, pool, pool, tables, q, floats, work, work, floats, floats)
    return Launch(decode_kernel, (*tensors, *strides, 0.1), constants, TARGETS)


def launches() -> Iterator[tuple[str, Launch]]:
    yield "paged decode hd128 block 16", decode(128, 16, 64)
    yield "paged decode hd64 block 64", decode(64, 64, 128, group=7)
    yield "paged decode hd80 block 32", decode(80, 32, 64)
    yield "paged decode hd256 block 16", decode(256, 16, 32)
    yield "contiguous decode hd128", decode(128, 16, 64, paged=False)
    yield "shared prefix, 128 rows hd128", decode(128, 16, 64, rows=128, warps=8)
    yield "shared prefix, 64 rows hd256", decode(256, 32, 32, rows=64, warps=8)
    yield "shared prefix, 32 rows hd128", decode(128, 64, 64, rows=32)
    yield "71 heads to one, hd64", decode(64, 16, 64, rows=128, group=71, warps=8)
    floats, out, merges = empty(64, dtype=torch.float32), empty(4, 32, 128), empty(8, 8, dtype=torch.int32)
    sizes = {"HEAD_DIM": 128, "BLOCK_D": 128}
    strides = (*out.stride()[:2], 32, 4)
    parts = {"GROUP": 4, "PARTS": 16, **sizes}
    yield "merge of parts", Launch(merge_kernel, (floats, floats, merges, out, floats, *strides), parts, TARGETS)
    yield "merge of two", Launch(merge_pair_kernel, (floats, floats, floats, floats, out, floats), sizes, TARGETS)
    yield "paged prefill hd128, 512 tokens", prefill(128, 512, "sm_90")
    yield "paged prefill hd128, 512 tokens sm_80", prefill(128, 512, "sm_80")
    yield "paged prefill hd256, 512 tokens", prefill(256, 512, *TARGETS)
    yield "paged prefill hd64, 4 tokens", prefill(64, 4, *TARGETS)
    yield "paged write with RoPE", write(rope=True)
    yield "paged write", write(rope=False)


def prefill(head_dim: int, max_q: int, *targets: str) -> Launch:
    q, pool, ints = empty(40, 32, head_dim), empty(9, 16, 8, head_dim), empty(64, dtype=torch.int32)
    tables, floats = empty(4, 8, dtype=torch.int32), empty(32, 40, dtype=torch.float32)
    strides = (*q.stride()[:2], *q.stride()[:2], 40, *pool.stride()[:3], tables.stride(0))
    tile = prefill_tile(max_q, 4, head_dim, (8, 0) if targets[0] == "sm_80" else (9, 0))
    constants = {
        "GROUP": 4, "POSITIONS": tile.rows // 4, "BLOCK_SIZE": 16, "CAUSAL": True, "HEAD_DIM": head_dim, "BLOCK_D": head_dim,
        "ROWS": tile.rows, "TILE": tile.tokens, "STAGES": tile.stages, "PRECISION": "ieee", "num_warps": tile.warps,
    }  # fmt: skip
    return Launch(paged_prefill_kernel, (q, pool, pool, tables, q, floats, ints, ints, *strides, 0.1), constants, targets)


def write(rope: bool) -> Launch:
    q, k, pool, slots = empty(40, 32, 128), empty(40, 8, 128), empty(9, 16, 8, 128), empty(40, dtype=torch.int64)
    angle = empty(40, 64, dtype=torch.float32)
    strides = [stride for x in (k, k, q, q) for stride in x.stride()[:2]]
    constants = {
        "BLOCK_SIZE": 16, "KV_HEADS": 8, "Q_HEADS": 32, "HEADS": 16, "HALF": 64, "BLOCK_HALF": 64, "ROPE": rope, "num_warps": 4,
    }  # fmt: skip
    tensors = (k, k, pool, pool, slots, angle, angle, q, q)
    return Launch(paged_write_kernel, (*tensors, *strides, *pool.stride()[:3]), constants, TARGETS)
