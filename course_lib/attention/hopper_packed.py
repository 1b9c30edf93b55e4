"""Sequences of any lengths behind each other, in the Hopper kernel: where one begins, and how it is kept from its neighbours.

For the copy engine a packed tensor is one sequence, and it neither stops at the end of one nor fills up with zeros there. So
  queries  of the next one are loaded, computed, and not stored: the last rows leave by ordinary stores, each of which is masked
  keys     of the next one are masked like all others, by a choice and not by a sum: NaN + -inf would be NaN
  values   of the next one meet weights of 0, but 0 * NaN is NaN: they are cleared in shared memory, before the last product
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, tma

from .hopper_order import bar
from .hopper_tiles import is_tile, place_of


@gluon.jit
def begins(number, sizes, cu, QUERIES: gl.constexpr, CAUSAL: gl.constexpr, SCHEDULE: gl.constexpr):
    """Whether the tile has a query: there are as many tiles for each sequence as the longest needs."""
    cu_q_ptr, _cu_k_ptr = cu
    there = is_tile(number, sizes)
    sequence, _head, row = place_of(number, sizes, QUERIES, CAUSAL, SCHEDULE)
    first = gl.load(cu_q_ptr + sequence, mask=there, other=0)
    end = gl.load(cu_q_ptr + sequence + 1, mask=there, other=0)
    return there & (row < end - first)


@gluon.jit
def bounds(sequence, sizes, cu, PACKED: gl.constexpr):
    """-> sequence as the descriptors count, first row of its queries and of its keys, how many it has of both."""
    _q_heads, _group, q_len, kv_len, _q_tiles, _tiles, _rounds, _heads_at_a_time = sizes
    q_first = 0
    k_first = 0
    if PACKED:
        cu_q_ptr, cu_k_ptr = cu
        q_first = gl.load(cu_q_ptr + sequence)
        k_first = gl.load(cu_k_ptr + sequence)
        q_len = gl.load(cu_q_ptr + sequence + 1) - q_first
        kv_len = gl.load(cu_k_ptr + sequence + 1) - k_first
        sequence = 0
    return sequence, q_first, k_first, q_len, kv_len


@gluon.jit
def clear_rows(tile, live, WARPGROUP: gl.constexpr, SHAPE: gl.constexpr):
    """Zeros in the rows of a tile of values from `live` on; one warpgroup writes, all wait. No product may be in flight."""
    WARPGROUPS: gl.constexpr = SHAPE[0]
    KEYS: gl.constexpr = SHAPE[2]
    DIMS: gl.constexpr = SHAPE[3]
    if WARPGROUP == 0:
        layout: gl.constexpr = gl.BlockedLayout([1, 8], [256 // DIMS, DIMS // 8], [4, 1], [1, 0])
        for part in gl.static_range(KEYS // 32):  # the accumulator leaves room for so many in registers
            some = tile.slice(part * 32, 32)
            rows = part * 32 + gl.arange(0, 32, gl.SliceLayout(1, layout))
            some.store(gl.where((rows < live)[:, None], some.load(layout), 0.0))
        fence_async_shared()
    if WARPGROUPS == 2:
        bar("bar.sync 13, 256; mov.b32 $0, $1;")
    else:
        bar("bar.sync 13, 384; mov.b32 $0, $1;")


@gluon.jit
def store_rows(result, out, first, live, head, SHAPE: gl.constexpr):
    """The first `live` rows of a result in shared memory, to the rows of `out` from `first` on."""
    ROWS: gl.constexpr = SHAPE[1]
    DIMS: gl.constexpr = SHAPE[3]
    out_ptr, row_stride, head_stride, head_dim = out
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [256 // DIMS, DIMS // 8], [4, 1], [1, 0])
    rows = gl.arange(0, ROWS, gl.SliceLayout(1, layout))
    dims = gl.arange(0, DIMS, gl.SliceLayout(0, layout))
    offsets = (first + rows).to(gl.int64)[:, None] * row_stride + dims[None, :]
    start = out_ptr + head.to(gl.int64) * head_stride
    gl.store(start + offsets, result.load(layout), mask=(rows < live)[:, None] & (dims < head_dim)[None, :])


@gluon.jit
def store_packed(o_desc, result, out, place, head, q_first, row, q_len, SHAPE: gl.constexpr):
    """A result in shared memory to its rows: by TMA where all of them are the sequence's own."""
    ROWS: gl.constexpr = SHAPE[1]
    DIMS: gl.constexpr = SHAPE[3]
    if row + ROWS <= q_len:
        tma.async_copy_shared_to_global(o_desc, [place, head, q_first + row, 0], result)
    else:
        store_rows(result.reshape([ROWS, DIMS]), out, q_first + row, q_len - row, head, SHAPE)
