"""FlashAttention forward in its plainest form: one loop, every tile of keys masked, no causal mask, loads by pointers.

Why it exists: tile_limits.py says what a tile needs before it is compiled, and is held to the compiler's word about this kernel.
forward_kernel.py is the fast one, and needs a little more.
"""

import math
from typing import Any

import triton
import triton.language as tl
from torch import Tensor

from .tiles import Tile


@triton.jit
def one_loop_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, q_strides, k_strides, v_strides, out_strides, q_heads, group, q_len, kv_len, scale_log2,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """One program attends with BM queries of one head. Strides are (batch, row, head); scale_log2 is scale * log2(e)."""
    first = tl.program_id(0) * BM
    batch, head = (tl.program_id(1) // q_heads).to(tl.int64), tl.program_id(1) % q_heads
    rows, lanes, dims = first + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, D)
    q_ptr += batch * q_strides[0] + head * q_strides[2]
    k_ptr += batch * k_strides[0] + head // group * k_strides[2]
    v_ptr += batch * v_strides[0] + head // group * v_strides[2]
    out_ptr += batch * out_strides[0] + head * out_strides[2]
    q = tl.load(q_ptr + rows[:, None] * q_strides[1] + dims[None, :], mask=(rows < q_len)[:, None], other=0.0)
    m = tl.full((BM,), float("-inf"), tl.float32)
    l = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for start in range(0, kv_len, BN):
        keys = start + lanes
        k = tl.load(k_ptr + keys[:, None] * k_strides[1] + dims[None, :], mask=(keys < kv_len)[:, None], other=0.0)
        s = tl.where((keys < kv_len)[None, :], tl.dot(q, k.T), float("-inf"))
        larger = tl.maximum(m, tl.max(s, 1))
        rescale = tl.exp2((m - larger) * scale_log2)
        p = tl.exp2(s * scale_log2 - (larger * scale_log2)[:, None])
        l = l * rescale + tl.sum(p, 1)
        v = tl.load(v_ptr + keys[:, None] * v_strides[1] + dims[None, :], mask=(keys < kv_len)[:, None], other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * rescale[:, None])
        m = larger
    out = (acc / l[:, None]).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + rows[:, None] * out_strides[1] + dims[None, :], out, mask=(rows < q_len)[:, None])


def one_loop_launch(
    q: Tensor, k: Tensor, v: Tensor, out: Tensor, tile: Tile
) -> tuple[tuple[int, int], list[Any], dict[str, Any]]:  # fmt: skip
    """(grid, arguments, constants and options) of a launch; meta tensors will do for a compilation.

    q, out [batch, q_len, q_heads, head_dim], k, v [batch, kv_len, kv_heads, head_dim]; head_dim is a power of two, kv_len > 0
    """
    batch, q_len, q_heads, head_dim = q.shape
    strides = [x.stride()[:3] for x in (q, k, v, out)]
    scale_log2 = math.log2(math.e) / math.sqrt(head_dim)
    args = [q, k, v, out, *strides, q_heads, q_heads // k.shape[2], q_len, k.shape[1], scale_log2]
    options = {
        "D": head_dim, "BM": tile.query_rows, "BN": tile.key_rows, "num_warps": tile.warps, "num_stages": tile.stages,
    }  # fmt: skip
    return (-(-q_len // tile.query_rows), batch * q_heads), args, options
