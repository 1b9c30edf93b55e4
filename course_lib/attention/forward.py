"""Attention of many queries: checks, allocates, chooses a tile, launches the FlashAttention kernel (forward_kernel.py).

Layout   q [batch, q_len, q_heads, head_dim], k and v [batch, kv_len, kv_heads, head_dim]; head h reads KV head h // group
Causal   bottom-right: query i sees the keys up to i + kv_len - q_len. A row without a key: zeros, lse -inf
lse      natural logarithm of the sum of exp(scale * q k), float32 [batch, q_heads, q_len]; packed [q_heads, rows of q]
"""

import math
from typing import Any

import torch
from torch import Tensor

from .checks import (
    capability_of,
    check_impl,
    check_inputs,
    check_launch,
    check_lengths,
    check_out,
    check_scale,
    check_strides,
    launching_on,
)
from .dense import dense_attention
from .tiles import Tile, choose_tile, padded

DESCRIPTOR_BYTES = 16  # a tensor descriptor takes addresses and strides that are multiples of this


def flash_attention(
    q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False, scale: float | None = None, return_lse: bool = False,
    out: Tensor | None = None, impl: str = "auto", tile: Tile | None = None,
) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
    """softmax(q k^T * scale) v -> out as q, or (out, lse).

    q, k, v  bfloat16 or float16 (on the CPU float32 too), head_dim 64, 80, 96, 128 or 256; batch, rows and heads may lie anywhere
    scale    head_dim ** -0.5 unless given
    out      written and returned, where the caller owns the result
    impl     "triton", "dense" (torch), "hopper" (hopper_forward.py), or "auto": on a GPU the faster of the kernels, else dense
    tile     in place of the one that `choose_tile` takes; "hopper" has its own
    Raises ValueError or TypeError with the numbers; nothing is written then.
    """
    check_inputs(q, k, v, packed=False)
    check_out(out, q, k, v)
    scale = check_scale(scale, q.shape[-1])
    asked, impl = impl, check_impl(impl, q, k, v, also=("hopper",))
    if asked == "auto" and impl == "triton" and tile is None and _hopper_is_faster(q, k, v, out, q.shape[1], k.shape[1], causal):
        impl = "hopper"
    if impl == "hopper":
        from .hopper_forward import hopper_attention

        _no_tile(tile)
        return hopper_attention(q, k, v, causal=causal, scale=scale, return_lse=return_lse, out=out)
    batch, q_len, q_heads, _ = q.shape
    if impl == "dense":
        result, lse = dense_attention(q, k, v, causal=causal, scale=scale, with_lse=return_lse)
        result = result if out is None else out.copy_(result)
        return (result, lse) if return_lse else result
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device) if out is None else out
    lse = torch.empty(batch, q_heads, q_len, dtype=torch.float32, device=q.device) if return_lse else None
    if _nothing_to_see(k, out, lse):
        return (out, lse) if return_lse else out
    _launch(q, k, v, out, lse, None, batch, q_len, k.shape[1], causal, scale, tile)
    return (out, lse) if return_lse else out


def flash_attention_packed(
    q: Tensor, k: Tensor, v: Tensor, cu_q: Tensor, cu_k: Tensor, *, max_q: int, max_k: int, causal: bool = False,
    scale: float | None = None, return_lse: bool = False, out: Tensor | None = None, impl: str = "auto", tile: Tile | None = None,
) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
    """The same for sequences of any lengths behind each other, in one launch and without padding.

    q            [total_q, q_heads, head_dim]; k, v [total_k, kv_heads, head_dim]
    cu_q, cu_k   int32 [batch + 1]: sequence i holds rows cu[i] to cu[i + 1]. On a GPU they are not looked at before the launch
    max_q, max_k length of the longest sequence, or more; max_q decides the grid: rows beyond it would not be computed
    -> out as q, or (out, lse [q_heads, total_q]). Rows that belong to no sequence are left as they are in `out`, else undefined.
    """
    check_inputs(q, k, v, packed=True)
    check_out(out, q, k, v)
    scale = check_scale(scale, q.shape[-1])
    asked, impl = impl, check_impl(impl, q, k, v, also=("hopper",))
    asked_freely = asked == "auto" and impl == "triton" and tile is None
    if asked_freely and _hopper_is_faster(q, k, v, out, max_q, max_k, causal):
        impl = "hopper"
    if impl == "hopper":
        from .hopper_forward import hopper_attention_packed

        _no_tile(tile)
        longest = {"max_q": max_q, "max_k": max_k}
        return hopper_attention_packed(q, k, v, cu_q, cu_k, **longest, causal=causal, scale=scale, return_lse=return_lse, out=out)
    check_lengths(cu_q, "cu_q", q.shape[0], max_q, q.device)
    check_lengths(cu_k, "cu_k", k.shape[0], max_k, q.device)
    if cu_q.shape != cu_k.shape:
        raise ValueError(f"cu_q and cu_k must hold as many sequences, got {cu_q.numel() - 1} and {cu_k.numel() - 1}")
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device) if out is None else out
    lse = torch.empty(q.shape[1], q.shape[0], dtype=torch.float32, device=q.device) if return_lse else None
    if impl == "dense":
        _dense_packed(q, k, v, cu_q.tolist(), cu_k.tolist(), out, lse, causal, scale)
    elif not _nothing_to_see(k, out, lse):
        _launch(q, k, v, out, lse, (cu_q, cu_k), cu_q.numel() - 1, max_q, max_k, causal, scale, tile)
    return (out, lse) if return_lse else out


def describable(*tensors: Tensor) -> bool:
    """Whether tensor descriptors can be made: base and strides in steps of 16 bytes, no axis that repeats (stride 0)."""
    for x in tensors:
        strides = [stride * x.element_size() for stride, size in zip(x.stride()[:-1], x.shape[:-1], strict=True) if size > 1]
        if x.data_ptr() % DESCRIPTOR_BYTES or any(s % DESCRIPTOR_BYTES or not 0 < s < 2**40 for s in strides):
            return False
    return True


def _no_tile(tile: Tile | None) -> None:
    if tile is not None:
        raise ValueError(f"impl='hopper' has tiles of its own (hopper_launch.TILES), got tile={tile}; leave it out")


def _hopper_is_faster(
    q: Tensor, k: Tensor, v: Tensor, out: Tensor | None, q_len: int, kv_len: int, causal: bool
) -> bool:
    if not q.is_cuda or capability_of(q) != (9, 0):
        return False
    from .hopper_forward import is_faster

    return is_faster(q, k, v, out, q_len, kv_len, causal)


def _nothing_to_see(k: Tensor, out: Tensor, lse: Tensor | None) -> bool:
    """No rows at all, or no keys for them: the result is filled in without a launch."""
    if k.numel() and out.numel():
        return False
    out.zero_()
    if lse is not None:
        lse.fill_(-torch.inf)
    return True


def _launch(
    q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor | None, cu: tuple[Tensor, Tensor] | None,
    batch: int, q_len: int, kv_len: int, causal: bool, scale: float, tile: Tile | None,
) -> None:  # fmt: skip
    check_strides(q=q, k=k, v=v, out=out)
    from .forward_kernel import flash_forward_kernel

    check_launch(flash_forward_kernel, q)
    seen = kv_len - q_len // 2 if causal else kv_len
    capability = capability_of(q) if q.is_cuda else None
    tile = tile or choose_tile(q.shape[-1], capability, keys=seen, descriptors=describable(q, k, v))
    programs = -(-q_len // tile.query_rows) * q.shape[-2] * batch
    if programs:
        args, options = launch_arguments(q, k, v, out, lse, cu, q_len, kv_len, causal, scale, tile)
        with launching_on(q):
            flash_forward_kernel[(programs,)](*args, **options)


def launch_arguments(
    q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor | None, cu: tuple[Tensor, Tensor] | None,
    q_len: int, kv_len: int, causal: bool, scale: float, tile: Tile,
) -> tuple[list[Any], dict[str, Any]]:  # fmt: skip
    """What the kernel is launched with: (arguments, constants and options). cu: (cu_q, cu_k), packed. Meta tensors will do."""
    if tile.descriptors and not describable(q, k, v):
        raise ValueError(
            f"this tile loads by descriptors, which need bases and strides in steps of {DESCRIPTOR_BYTES} bytes; q, k and v have "
            f"strides {q.stride()}, {k.stride()} and {v.stride()} elements of {q.element_size()} bytes; use descriptors=False"
        )
    head_dim, q_heads, packed, block_d = q.shape[-1], q.shape[-2], cu is not None, padded(q.shape[-1])
    sources: list[Any] = [q, k, v]
    if tile.descriptors:
        rows = (tile.query_rows, tile.key_rows, tile.key_rows)
        sources = [_descriptor(x, n, block_d) for x, n in zip(sources, rows, strict=True)]
    strides = [(0, *x.stride()[:2]) if packed else x.stride()[:3] for x in (q, k, v, out)]
    q_tiles = -(-q_len // tile.query_rows)
    args = [*sources, out, lse, *(cu or (None, None)), *strides, q_heads, q_heads // k.shape[-2], q_len, kv_len, q_tiles]
    return [*args, q.shape[0] if packed else q_len, scale * math.log2(math.e)], {
        "HEAD_DIM": head_dim, "BLOCK_D": block_d, "BM": tile.query_rows, "BN": tile.key_rows,
        "CAUSAL": causal, "PACKED": packed, "WITH_LSE": lse is not None, "DESCRIPTORS": tile.descriptors,
        "num_warps": tile.warps, "num_stages": tile.stages,
    }  # fmt: skip


def _descriptor(x: Tensor, rows: int, block_d: int) -> Any:
    """A host descriptor [batch, heads, rows, head_dim] of blocks [1, 1, rows, block_d]; packed: a batch of one."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    shape, strides = (x.shape, x.stride()) if x.dim() == 4 else ((1, *x.shape), (0, *x.stride()))
    step = DESCRIPTOR_BYTES // x.element_size()
    order = (0, 2, 1, 3)
    # the stride of an axis of one element is never used, and may be anything in a tensor: give one that a descriptor takes
    return TensorDescriptor(
        x, [shape[i] for i in order], [strides[i] if shape[i] > 1 or i == 3 else step for i in order], [1, 1, rows, block_d]
    )


def _dense_packed(
    q: Tensor, k: Tensor, v: Tensor, starts_q: list[int], starts_k: list[int], out: Tensor, lse: Tensor | None, causal: bool,
    scale: float,
) -> None:  # fmt: skip
    for i in range(len(starts_q) - 1):
        rows, keys = slice(starts_q[i], starts_q[i + 1]), slice(starts_k[i], starts_k[i + 1])
        one = dense_attention(q[None, rows], k[None, keys], v[None, keys], causal=causal, scale=scale, with_lse=lse is not None)
        out[rows] = one[0][0]
        if lse is not None:
            lse[:, rows] = one[1][0]
