"""Attention of many queries on a Hopper GPU: checks, chooses a tile, makes the descriptors, launches hopper_kernel.py.

Layout, causal alignment and lse as in forward.py: `flash_attention(..., impl="hopper")` comes here.
Limits   bfloat16 and float16, head_dim 64, 80, 96, 128 and 256, not packed; the copy engine (TMA) takes bases and strides in
         steps of 16 bytes; a GPU of compute capability 9.0 exactly: wgmma is Hopper's alone.
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from .checks import HEAD_DIMS, capability_of, check_gradient, check_inputs, check_out, check_scale, check_strides
from .hopper_ladder import EVERY_STEP, Ladder
from .tiles import padded

CAPABILITY = (9, 0)
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
REGISTERS = {2: (240, 24), 3: (160, 24)}  # consumers -> of a consumer's thread, of the producer's; an SM has 65,536


def hopper_attention(
    q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False, scale: float | None = None, return_lse: bool = False,
    out: Tensor | None = None, steps: Ladder = EVERY_STEP, tile: HopperTile | None = None,
) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
    """softmax(q k^T * scale) v -> out as q, or (out, lse [batch, q_heads, q_len] float32).

    q [batch, q_len, q_heads, head_dim], k and v [batch, kv_len, kv_heads, head_dim]; any lengths, 0 included
    steps  of the ladder that are taken; all of them unless given
    tile   in place of the one of TILES
    Raises ValueError, TypeError or RuntimeError with the numbers; nothing is written then.
    """
    check_inputs(q, k, v, packed=False)
    check_out(out, q, k, v)
    scale = check_scale(scale, q.shape[-1])
    check_hopper(q, k, v)
    batch, q_len, q_heads, _ = q.shape
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device) if out is None else out
    lse = torch.empty(batch, q_heads, q_len, dtype=torch.float32, device=q.device) if return_lse else None
    if not k.numel() or not q.numel():  # no keys, or no queries: nothing to multiply
        out.zero_()
        if lse is not None:
            lse.fill_(-torch.inf)
    else:
        check_describable(q=q, k=k, v=v, out=out)
        with torch.cuda.device(q.device):  # Triton launches on the current device
            _launch(q, k, v, out, lse, causal, scale, steps, tile or tile_for(q.shape[-1], steps))
    return (out, lse) if return_lse else out


def check_hopper(q: Tensor, k: Tensor, v: Tensor) -> None:
    """What this kernel needs beyond what attention asks of its inputs."""
    check_gradient(q, k, v)
    if q.shape[-1] not in HEAD_DIMS:
        raise ValueError(f"the kernels take head_dim {', '.join(map(str, HEAD_DIMS))}, got {q.shape[-1]}; use impl='dense'")
    if q.dtype == torch.float32:
        raise TypeError("the Hopper kernel takes bfloat16 and float16, got float32; cast q, k and v, or use impl='dense'")
    if not q.is_cuda:
        raise RuntimeError(f"the Hopper kernel runs compiled, on a GPU; q is on {q.device}. Use impl='triton' or 'dense'")
    if capability_of(q) != CAPABILITY:
        raise RuntimeError(
            f"the Hopper kernel needs compute capability {CAPABILITY} (H100, H200: its wgmma instructions are in no other GPU), "
            f"and {q.device} has {capability_of(q)}; use impl='triton'"
        )


def check_describable(**tensors: Tensor) -> None:
    """Bases and strides in steps of 16 bytes, no axis that repeats; the last axis has stride 1."""
    check_strides(**tensors)
    for name, x in tensors.items():
        strides = [stride * x.element_size() for stride, size in zip(x.stride()[:-1], x.shape[:-1], strict=True) if size > 1]
        if x.data_ptr() % DESCRIPTOR_BYTES or any(s % DESCRIPTOR_BYTES or not 0 < s < 2**40 for s in strides):
            raise ValueError(
                f"the copy engine takes bases and strides in steps of {DESCRIPTOR_BYTES} bytes, and no stride 0; {name} has "
                f"strides {x.stride()} of {x.element_size()} bytes and begins {x.data_ptr() % DESCRIPTOR_BYTES} past a step; "
                f"pass {name}.contiguous(), or use impl='triton'"
            )


def _launch(
    q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor | None, causal: bool, scale: float, steps: Ladder, tile: HopperTile
) -> None:
    from .hopper_kernel import hopper_forward_kernel
    from .hopper_plain import hopper_plain_kernel
    from .hopper_schedule import schedule

    (batch, q_len, q_heads, head_dim), (kv_len, kv_heads) = q.shape, k.shape[1:3]
    shape = (batch, q_heads, q_heads // kv_heads, q_len, kv_len, head_dim, tile.queries, tile.keys, causal)
    tiles = batch * q_heads * -(-q_len // tile.queries)
    if tiles > MAX_TILES:
        raise ValueError(f"{tiles} tiles of {tile.queries} queries; a launch takes {MAX_TILES}. Split the batch")
    blocks, table = tiles, None
    processors = processors_of(q.device)
    if steps.persistent and tiles > processors:
        uneven = steps.balanced and causal
        table = schedule(q.device, processors, shape) if uneven else None
        blocks = processors if table is not None or not uneven else tiles
    args, options = launch_arguments(q, k, v, out, lse, table, blocks, causal, scale, steps, tile)
    (hopper_forward_kernel if steps.specialised else hopper_plain_kernel)[(blocks,)](*args, **options)


def tile_for(head_dim: int, steps: Ladder) -> HopperTile:
    return (TILES if steps.specialised else PLAIN_TILES)[padded(head_dim)]


def processors_of(device: torch.device) -> int:
    """SMs, each of which holds one block of this kernel: its shared memory leaves no room for a second."""
    return torch.cuda.get_device_properties(device).multi_processor_count


def launch_arguments(
    q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor | None, table: Tensor | None, blocks: int, causal: bool,
    scale: float, steps: Ladder, tile: HopperTile,
) -> tuple[list[Any], dict[str, Any]]:  # fmt: skip
    """What a kernel is launched with: (arguments, constants and options). Meta tensors will do.

    table   the schedule for `blocks` blocks, or None: the n-th tile goes to block n % blocks
    """
    (batch, q_len, q_heads, head_dim), (kv_len, kv_heads) = q.shape, k.shape[1:3]
    dims, rows = padded(head_dim), tile.rows
    q_tiles = -(-q_len // tile.queries)
    tiles = batch * q_heads * q_tiles
    described = [_described(x, n, dims) for x, n in ((q, rows), (k, tile.keys), (v, tile.keys), (out, rows))]
    constants: dict[str, Any] = {"ROWS": rows, "KEYS": tile.keys, "DIMS": dims, "STAGES": tile.stages, "CAUSAL": causal}
    constants |= {"WITH_LSE": lse is not None}
    sizes, scale_log2 = [q_heads, q_heads // kv_heads, q_len, kv_len, q_tiles], scale * math.log2(math.e)
    if not steps.specialised:
        return [*described, lse, *sizes, scale_log2], constants | {"num_warps": 8}
    rounds = -(-tiles // blocks) if table is None else table.shape[0] - 1
    constants |= {"OUT_APART": tile.out_apart, "OVERLAP": steps.overlap, "PINNED": steps.pinned, "PING_PONG": steps.ping_pong}
    consumer, producer = REGISTERS[tile.warpgroups]
    constants |= {"LISTED": table is not None, "CONSUMER_REGISTERS": consumer, "PRODUCER_REGISTERS": producer}
    constants |= {"WARPGROUPS": tile.warpgroups}
    return [*described, lse, table, *sizes, tiles, rounds, scale_log2], constants | {"num_warps": 4}


def _described(x: Tensor, rows: int, dims: int) -> Any:
    """A host descriptor [batch, heads, rows, head_dim] of blocks [1, 1, rows, dims]: outside it reads 0 and writes nothing."""
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    order, step = (0, 2, 1, 3), DESCRIPTOR_BYTES // x.element_size()
    # the stride of an axis of one element is never used, and may be anything in a tensor: give one that a descriptor takes
    strides = [x.stride(i) if x.shape[i] > 1 else step for i in order[:3]]
    return TensorDescriptor(x, [x.shape[i] for i in order], [*strides, 1], [1, 1, rows, dims], _layout(rows, dims, x.dtype))


@cache
def _layout(rows: int, dims: int, dtype: torch.dtype) -> Any:
    from triton.experimental.gluon import language as gl

    return gl.NVMMASharedLayout.get_default_for([1, 1, rows, dims], gl.bfloat16 if dtype == torch.bfloat16 else gl.float16)


def shared_bytes(tile: HopperTile, head_dim: int) -> int:
    """Shared memory of a block of the specialised kernel: queries (and result), and the ring.

    head_dim 128: 128 queries, twice, and 2 stages of 128 keys and values = 192 KiB + barriers
    """
    vectors = (2 if tile.out_apart else 1) * tile.queries + 2 * tile.stages * tile.keys
    return vectors * padded(head_dim) * 2 + BARRIER_BYTES
