"""How the Hopper kernel is launched: its tiles, how many blocks, the descriptors that TMA reads, and all arguments in order."""

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from .checks import launching_on
from .hopper_ladder import Ladder
from .hopper_schedule import heads_at_a_time
from .tiles import padded

DESCRIPTOR_BYTES = 16  # steps of bases and strides
MAX_TILES = 2**31 - 1
BARRIER_BYTES = 1024


@dataclass(frozen=True, slots=True)
class HopperTile:
    """What a thread block holds: `warpgroups` consumers of `rows` queries each, and a ring of `stages` tiles of `keys` keys.

    out_apart  the result has shared memory of its own, so that the next queries are loaded while it is stored
    """

    warpgroups: int
    rows: int
    keys: int
    stages: int
    out_apart: bool

    @property
    def queries(self) -> int:
        return self.warpgroups * self.rows


TILES = {  # padded head_dim -> tile
    64: HopperTile(2, 64, 128, 4, True),
    128: HopperTile(2, 64, 128, 2, True),
    256: HopperTile(2, 64, 64, 2, False),
}
PLAIN_TILES = {  # of hopper_plain.py: one group of eight warps
    64: HopperTile(1, 128, 128, 4, False),
    128: HopperTile(1, 128, 128, 2, False),
    256: HopperTile(1, 128, 64, 2, False),
}
IN_TURN, LISTED, DRAWN = 0, 1, 2  # as in hopper_tiles.py
EIGHT_TILES = {128: HopperTile(2, 64, 128, 4, True)}  # of FP8
REGISTERS = {2: (240, 24), 3: (160, 24)}  # consumers -> of a consumer's thread, of the producer's; an SM has 65,536


@dataclass(frozen=True, slots=True)
class Work:
    """What is computed: tensors [batch, rows, heads, head_dim], and how they are to be read.

    cu       (cu_q, cu_k) of packed sequences, in tensors with a batch of one; else None
    scales   of FP8 q [batch, q_heads], k and v [batch, kv_heads]; v is then [batch, heads, head_dim, rows], from hopper_fp8.py
    q_len    of the longest sequence, and so kv_len
    """

    q: Tensor
    k: Tensor
    v: Tensor
    out: Tensor
    lse: Tensor | None
    causal: bool
    scale: float
    q_len: int
    kv_len: int
    cu: tuple[Tensor, Tensor] | None = None
    scales: tuple[Tensor, Tensor, Tensor] | None = None

    @property
    def sequences(self) -> int:
        return self.q.shape[0] if self.cu is None else self.cu[0].numel() - 1

    def tiles(self, tile: HopperTile) -> int:
        return self.sequences * self.q.shape[2] * -(-self.q_len // tile.queries)


def launch(work: Work, steps: Ladder, tile: HopperTile) -> None:
    from .hopper_kernel import hopper_forward_kernel
    from .hopper_plain import hopper_plain_kernel

    tiles = work.tiles(tile)
    if tiles > MAX_TILES:
        raise ValueError(f"{tiles} tiles of {tile.queries} queries; a launch takes {MAX_TILES}. Split the batch")
    with launching_on(work.q):
        blocks, schedule = _dealt(work, steps, tile)
        args, options = launch_arguments(work, schedule, blocks, steps, tile)
        (hopper_forward_kernel if steps.specialised else hopper_plain_kernel)[(blocks,)](*args, **options)


def _dealt(work: Work, steps: Ladder, tile: HopperTile) -> tuple[int, Tensor | None]:
    """-> how many blocks; the list of their tiles [rounds + 1, blocks], or a counter [1] from which they draw, or None: block b
    has tiles b, b + blocks, ...

    Where tiles cost unlike amounts and there is no schedule, the hardware deals: a block for each tile.
    """
    from .hopper_schedule import schedule

    tiles, processors = work.tiles(tile), processors_of(work.q.device)
    if not steps.persistent or tiles <= processors:
        return tiles, None
    if not steps.balanced or (work.cu is None and not work.causal):
        return processors, None
    if work.cu is not None:  # lengths are on the device
        return processors, torch.zeros(1, dtype=torch.int32, device=work.q.device)
    heads, kv_heads = work.q.shape[2], work.k.shape[2]
    shape = (work.sequences, heads, heads // kv_heads, work.q_len, work.kv_len, work.q.shape[3], tile.queries, tile.keys, True)
    table = schedule(work.q.device, processors, shape)
    return tiles if table is None else processors, table


def tile_for(head_dim: int, steps: Ladder) -> HopperTile:
    return (TILES if steps.specialised else PLAIN_TILES)[padded(head_dim)]


def processors_of(device: torch.device) -> int:
    """SMs, each of which holds one block of this kernel: its shared memory leaves no room for a second."""
    return torch.cuda.get_device_properties(device).multi_processor_count


def launch_arguments(
    work: Work, schedule: Tensor | None, blocks: int, steps: Ladder, tile: HopperTile
) -> tuple[list[Any], dict[str, Any]]:
    """What a kernel is launched with: (arguments, constants and options). Meta tensors will do.

    schedule   for `blocks` blocks: a list, a counter, or None
    """
    q, k, v, out, cu = work.q, work.k, work.v, work.out, work.cu
    heads, kv_heads, head_dim = q.shape[2], k.shape[2], q.shape[3]
    dims, rows, tiles = padded(head_dim), tile.rows, work.tiles(tile)
    described = [_described(x, n, dims) for x, n in ((q, rows), (k, tile.keys), (out, rows))]
    described.insert(2, _described(v, tile.keys, dims) if work.scales is None else _transposed(v, tile.keys, dims))
    sizes = [heads, heads // kv_heads, work.q_len, work.kv_len, -(-work.q_len // tile.queries)]
    scale_log2 = work.scale * math.log2(math.e)
    constants: dict[str, Any] = {"ROWS": rows, "KEYS": tile.keys, "DIMS": dims, "STAGES": tile.stages, "CAUSAL": work.causal}
    constants |= {"WITH_LSE": work.lse is not None}
    if not steps.specialised:
        return [*described, work.lse, *sizes, scale_log2], constants | {"num_warps": 8}
    kind = IN_TURN if schedule is None else DRAWN if schedule.dim() == 1 else LISTED
    rounds = schedule.shape[0] - 1 if schedule is not None and kind == LISTED else -(-tiles // blocks)
    at_a_time = heads_at_a_time(heads // kv_heads, work.kv_len, head_dim)
    stored = [None, 0, 0, head_dim] if cu is None else [out, out.stride(1), out.stride(2), head_dim]
    consumer, producer = REGISTERS[tile.warpgroups]
    constants |= {
        "WARPGROUPS": tile.warpgroups, "OUT_APART": tile.out_apart, "SCHEDULE": kind, "PACKED": cu is not None,
        "OVERLAP": steps.overlap, "PINNED": steps.pinned, "PING_PONG": steps.ping_pong,
        "CONSUMER_REGISTERS": consumer, "PRODUCER_REGISTERS": producer, "num_warps": 4,
    }  # fmt: skip
    pointers = [work.lse, schedule, *(cu or (None, None)), *stored, *(work.scales or (None, None, None))]
    return [*described, *pointers, *sizes, tiles, rounds, at_a_time, q.shape[1], scale_log2], constants


def _described(x: Tensor, rows: int, dims: int) -> Any:
    """A host descriptor [batch, heads, rows, head_dim] of blocks [1, 1, rows, dims]: outside it reads 0 and writes nothing."""
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    order, step = (0, 2, 1, 3), DESCRIPTOR_BYTES // x.element_size()
    # the stride of an axis of one element is never used, and may be anything in a tensor: give one that a descriptor takes
    strides = [x.stride(i) if x.shape[i] > 1 else step for i in order[:3]]
    return TensorDescriptor(x, [x.shape[i] for i in order], [*strides, 1], [1, 1, rows, dims], _layout(rows, dims, x.dtype))


def _transposed(v: Tensor, keys: int, dims: int) -> Any:
    """FP8 values [batch, heads, head_dim, rows], contiguous."""
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    return TensorDescriptor(v, list(v.shape), list(v.stride()), [1, 1, dims, keys], _layout(dims, keys, v.dtype))


@cache
def _layout(rows: int, dims: int, dtype: torch.dtype) -> Any:
    from triton.experimental.gluon import language as gl

    kinds = {torch.bfloat16: gl.bfloat16, torch.float16: gl.float16, torch.float8_e4m3fn: gl.float8e4nv}
    return gl.NVMMASharedLayout.get_default_for([1, 1, rows, dims], kinds[dtype])


def shared_bytes(tile: HopperTile, head_dim: int) -> int:
    """Shared memory of a block of the specialised kernel: queries (and result), and the ring.

    head_dim 128: 128 queries, twice, and 2 stages of 128 keys and values = 192 KiB + barriers
    """
    vectors = (2 if tile.out_apart else 1) * tile.queries + 2 * tile.stages * tile.keys
    return vectors * padded(head_dim) * 2 + BARRIER_BYTES
