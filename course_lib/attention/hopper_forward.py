"""Attention of many queries on a Hopper GPU: checks, allocates, launches hopper_kernel.py.

Layout, causal alignment and lse as in forward.py: `flash_attention(..., impl="hopper")` comes here.
Limits   bfloat16 and float16, head_dim 64, 80, 96, 128 and 256; the copy engine (TMA) takes bases and strides in steps of 16
         bytes; a GPU of compute capability 9.0 exactly: wgmma is Hopper's alone.
"""

import torch
from torch import Tensor

from .checks import (
    HEAD_DIMS,
    capability_of,
    check_gradient,
    check_inputs,
    check_lengths,
    check_out,
    check_scale,
    check_strides,
)
from .hopper_ladder import EVERY_STEP, Ladder
from .hopper_launch import (
    BARRIER_BYTES,
    DESCRIPTOR_BYTES,
    REGISTERS,
    TILES,
    HopperTile,
    Work,
    launch,
    shared_bytes,
    tile_for,
)

__all__ = ["BARRIER_BYTES", "REGISTERS", "TILES", "HopperTile", "hopper_attention", "hopper_attention_packed", "shared_bytes"]
CAPABILITY = (9, 0)
LEAST_QUERIES = 65  # 64 and fewer fill half a tile; then the Triton kernel, which has tiles of 64, is a little faster
FASTER = (64, 128, 256)  # head_dim: than the Triton kernel, on an H200
LONG_KEYS = 4096  # from more on, head_dim 64 and not causal, the Triton kernel is faster


def hopper_attention(
    q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False, scale: float | None = None, return_lse: bool = False,
    out: Tensor | None = None, steps: Ladder = EVERY_STEP, tile: HopperTile | None = None,
) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
    """softmax(q k^T * scale) v -> out as q, or (out, lse [batch, q_heads, q_len] float32).

    q [batch, q_len, q_heads, head_dim], k and v [batch, kv_len, kv_heads, head_dim]; any lengths, 0 included
    steps  of the ladder that are taken; all of them unless given
    tile   in place of the one of hopper_launch.TILES
    Raises ValueError, TypeError or RuntimeError with the numbers; nothing is written then.
    """
    check_inputs(q, k, v, packed=False)
    check_out(out, q, k, v)
    scale = check_scale(scale, q.shape[-1])
    check_hopper(q, k, v)
    batch, q_len, q_heads, head_dim = q.shape
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device) if out is None else out
    lse = torch.empty(batch, q_heads, q_len, dtype=torch.float32, device=q.device) if return_lse else None
    if not _nothing_to_see(k, out, lse):
        check_describable(q=q, k=k, v=v, out=out)
        launch(Work(q, k, v, out, lse, causal, scale, q_len, k.shape[1]), steps, tile or tile_for(head_dim, steps))
    return (out, lse) if return_lse else out


def hopper_attention_packed(
    q: Tensor, k: Tensor, v: Tensor, cu_q: Tensor, cu_k: Tensor, *, max_q: int, max_k: int, causal: bool = False,
    scale: float | None = None, return_lse: bool = False, out: Tensor | None = None, steps: Ladder = EVERY_STEP,
    tile: HopperTile | None = None,
) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
    """The same for sequences of any lengths behind each other, as `flash_attention_packed` takes them."""
    check_inputs(q, k, v, packed=True)
    check_out(out, q, k, v)
    scale = check_scale(scale, q.shape[-1])
    check_hopper(q, k, v)
    check_lengths(cu_q, "cu_q", q.shape[0], max_q, q.device)
    check_lengths(cu_k, "cu_k", k.shape[0], max_k, q.device)
    if cu_q.shape != cu_k.shape:
        raise ValueError(f"cu_q and cu_k must hold as many sequences, got {cu_q.numel() - 1} and {cu_k.numel() - 1}")
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device) if out is None else out
    lse = torch.empty(q.shape[1], q.shape[0], dtype=torch.float32, device=q.device) if return_lse else None
    if not _nothing_to_see(k, out, lse):
        check_describable(q=q, k=k, v=v, out=out)
        work = Work(q[None], k[None], v[None], out[None], lse, causal, scale, max_q, max_k, (cu_q, cu_k))
        if work.sequences and max_q > 0:
            launch(work, steps, tile or tile_for(q.shape[-1], steps))
    return (out, lse) if return_lse else out


def _nothing_to_see(k: Tensor, out: Tensor, lse: Tensor | None) -> bool:
    """No queries at all, or no keys for them: the result is filled in without a launch."""
    if k.numel() and out.numel():
        return False
    out.zero_()
    if lse is not None:
        lse.fill_(-torch.inf)
    return True


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


def is_faster(q: Tensor, k: Tensor, v: Tensor, out: Tensor | None, q_len: int, kv_len: int, causal: bool) -> bool:
    """Whether "auto" takes this kernel on a Hopper GPU: where it can run, and was measured to be faster than the Triton kernel
    (benchmarks/hopper_ladder.py)."""
    tensors = (q, k, v) if out is None else (q, k, v, out)
    if q_len < LEAST_QUERIES or q.shape[-1] not in FASTER:
        return False
    if q.shape[-1] == 64 and not causal and kv_len > LONG_KEYS:
        return False
    return all(map(describable, tensors))


def check_describable(**tensors: Tensor) -> None:
    """Bases and strides in steps of 16 bytes, no axis that repeats; the last axis has stride 1."""
    check_strides(**tensors)
    for name, x in tensors.items():
        if not describable(x):
            raise ValueError(
                f"the copy engine takes bases and strides in steps of {DESCRIPTOR_BYTES} bytes, and no stride 0; {name} has "
                f"strides {x.stride()} of {x.element_size()} bytes and begins {x.data_ptr() % DESCRIPTOR_BYTES} past a step; "
                f"pass {name}.contiguous(), or use impl='triton'"
            )


def describable(x: Tensor) -> bool:
    if x.stride(-1) != 1:
        return False
    strides = [stride * x.element_size() for stride, size in zip(x.stride()[:-1], x.shape[:-1], strict=True) if size > 1]
    return not x.data_ptr() % DESCRIPTOR_BYTES and all(s % DESCRIPTOR_BYTES == 0 and 0 < s < 2**40 for s in strides)
