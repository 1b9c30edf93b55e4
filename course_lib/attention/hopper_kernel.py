"""FlashAttention forward for Hopper, in Gluon: the algorithm of forward_kernel.py, with every unit of the SM kept busy.

A tile of queries walks over the keys as in exercise 2.4: scores, running maximum, weights, values. Nothing of the mathematics
is new here. What is new is *when* things happen. An H100 or H200 has, in each SM, three machines that can work at the same
time:

  the copy engine (TMA)   moves a tile between global and shared memory. One thread asks; nobody computes an address
  the tensor cores        wgmma: a warpgroup (4 warps) multiplies 64 rows by a tile in shared memory, and goes on meanwhile
  everything else         maxima, exponentials, sums: 16 exponentials a cycle, while the tensor cores do 2048 FMAs

For 64 queries and 128 keys of 128 dimensions the two products take 1024 cycles of the tensor cores, and the exponentials alone
512 of the others: one after the other, a third of the tensor cores' time is lost at least. The plain kernel of the first rung
(hopper_plain.py) does just that. Each step of the ladder (hopper_ladder.py) takes away one reason to wait:

1 specialised   One warp, the producer (hopper_producer.py), only asks for tiles, some stages ahead. Two warpgroups, the
                consumers (hopper_consumer.py), only compute, each for 64 queries of its own, on the same keys. The producer
                needs 24 registers a thread and gives the rest away (setmaxnreg): a consumer has 240, for 64 x 128 scores, as
                many accumulators, and the weights. They meet at mbarriers, a `full` and an `empty` one for each stage: TMA
                itself reports the bytes that have come to `full`, and both consumers report to `empty` once their products have
                read the stage.
2 overlap       Inside a consumer: ask for the scores of this tile, then for the values of the tile *before*, and wait for the
                first only. The softmax of this tile runs while the values are multiplied. So a stage holds the keys of one tile
                and the values of the one before: what is needed together comes together, with one barrier for both.
3 pinned        To the assembler a wait is an instruction like others: it moves the wait for the values up, and of the 66
                exponentials of a turn none is left to overlap with them. A barrier that is never waited for, but might be
                (`pinned` in hopper_order.py), nails the factor by which the accumulator is rescaled, and all that it depends
                on, above the wait: the maxima and 36 exponentials. Not the whole softmax: the weights are made in the registers
                that the product in flight reads, so the last of them may as well come while the accumulator is rescaled.
4 ping_pong     Between consumers: they issue their products in turns, so that while one has the tensor cores the other does its
                softmax. Left alone they may fall into step, both at their softmax, both at their products.
5 persistent    One block for each SM, which goes through many tiles of queries. The producer loads the next tile's queries
                while the consumers finish this one, and the result leaves through a buffer of its own.
6 balanced      A causal tile costs from one to all tiles of keys; hopper_schedule.py deals them out so that blocks end
                together. Where lengths are known to the device alone, blocks draw their tiles (hopper_draw.py).

What each is worth on an H200: docs/journal/hopper-attention.md, and `python -m benchmarks.hopper_ladder` on your own.

Where to look next: hopper_tiles.py, which tile comes next and which keys it sees; hopper_softmax.py, the same softmax as ever,
with a sum that needs no shuffles; tests/attention/gluon_emulated.py, which runs this source by threads, and finds a barrier
that is wrong.

Layout   descriptors of q, k, v, out [batch, heads, rows, head_dim], blocks [1, 1, rows, DIMS]; lse [batch, q_heads, q_len] fp32
Masks    keys beyond the end are read as 0 by TMA and masked; rows beyond the end are computed and not written
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier

from .hopper_consumer import consume
from .hopper_producer import produce

NUMBERS = (  # one compilation for all of them
    "out_row_stride", "out_head_stride", "head_dim", "q_heads", "group", "q_len", "kv_len", "q_tiles", "tiles", "rounds",
    "heads_at_a_time", "lse_rows",
)  # fmt: skip


@gluon.jit(do_not_specialize=NUMBERS)
def hopper_forward_kernel(
    q_desc, k_desc, v_desc, o_desc, lse_ptr, schedule_ptr, cu_q_ptr, cu_k_ptr, out_ptr, out_row_stride, out_head_stride, head_dim,
    q_scale_ptr, k_scale_ptr, v_scale_ptr, q_heads, group, q_len, kv_len, q_tiles, tiles, rounds, heads_at_a_time, lse_rows,
    scale_log2,
    WARPGROUPS: gl.constexpr, ROWS: gl.constexpr, KEYS: gl.constexpr, DIMS: gl.constexpr, STAGES: gl.constexpr,
    CAUSAL: gl.constexpr, WITH_LSE: gl.constexpr, OUT_APART: gl.constexpr, OVERLAP: gl.constexpr, PINNED: gl.constexpr,
    PING_PONG: gl.constexpr, SCHEDULE: gl.constexpr, PACKED: gl.constexpr, CONSUMER_REGISTERS: gl.constexpr,
    PRODUCER_REGISTERS: gl.constexpr,
):  # fmt: skip
    """Shared memory, barriers, and the partitions: WARPGROUPS consumers (2 or 3) of ROWS queries each, and the producer.

    tiles       of WARPGROUPS * ROWS queries: q_tiles for each of q_heads heads of each sequence
    rounds      most tiles that a block has
    lse_rows    q_len, PACKED the rows of q
    scale_log2  scale of the scores * log2(e)
    q_scale_ptr ...  of each head; FP8 only (hopper_eight.py): there v_desc is [batch, heads, head_dim, rows]
    OUT_APART   the result has a buffer of its own; else it takes that of the queries, which come later then
    SCHEDULE    who gets which tile (hopper_tiles.py): schedule_ptr is the list of LISTED, or the counter of DRAWN, 0 at the start
    PACKED      hopper_packed.py: sequence i holds the rows cu_q[i] to cu_q[i + 1] of q, cu_k[i] to cu_k[i + 1] of k and v;
                q_len and kv_len are the longest; out_ptr, its strides and head_dim are for rows that TMA cannot store
    """
    q_buffer = gl.allocate_shared_memory(q_desc.dtype, [WARPGROUPS, 1, 1, ROWS, DIMS], q_desc.layout)
    k_ring = gl.allocate_shared_memory(q_desc.dtype, [STAGES, 1, 1, KEYS, DIMS], k_desc.layout)
    if q_desc.dtype == gl.float8e4nv:  # transposed
        v_ring = gl.allocate_shared_memory(q_desc.dtype, [STAGES, 1, 1, DIMS, KEYS], v_desc.layout)
    else:
        v_ring = gl.allocate_shared_memory(q_desc.dtype, [STAGES, 1, 1, KEYS, DIMS], v_desc.layout)
    o_buffer = q_buffer
    if OUT_APART:
        o_buffer = gl.allocate_shared_memory(o_desc.dtype, [WARPGROUPS, 1, 1, ROWS, DIMS], o_desc.layout)
    q_full = gl.allocate_shared_memory(gl.int64, [WARPGROUPS, 1], mbarrier.MBarrierLayout())
    q_empty = gl.allocate_shared_memory(gl.int64, [WARPGROUPS, 1], mbarrier.MBarrierLayout())
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(WARPGROUPS):
        mbarrier.init(q_full.index(i), count=1)
        mbarrier.init(q_empty.index(i), count=1)
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=WARPGROUPS)  # all of them have read it
    slots = gl.allocate_shared_memory(gl.int32, [2, 32], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    slots_full = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    slots_empty = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(2):
        mbarrier.init(slots_full.index(i), count=1)
        mbarrier.init(slots_empty.index(i), count=WARPGROUPS)
    fence_async_shared()  # the copy engine sees the barriers

    descriptors = (q_desc, k_desc, v_desc, o_desc)
    buffers = (q_buffer, k_ring, v_ring, o_buffer)
    barriers = (q_full, q_empty, full, empty)
    draws = (slots, slots_full, slots_empty)
    sizes = (q_heads, group, q_len, kv_len, q_tiles, tiles, rounds, heads_at_a_time)
    out = (out_ptr, out_row_stride, out_head_stride, head_dim)
    cu = (cu_q_ptr, cu_k_ptr)
    scales = (q_scale_ptr, k_scale_ptr, v_scale_ptr)
    work = (descriptors, buffers, barriers, draws, sizes, cu, out, scales, schedule_ptr, lse_ptr, lse_rows, scale_log2)
    SHAPE: gl.constexpr = (WARPGROUPS, ROWS, KEYS, DIMS, STAGES)
    OPTIONS: gl.constexpr = (CAUSAL, WITH_LSE, OUT_APART, SCHEDULE, PACKED)
    STEPS: gl.constexpr = (OVERLAP, PINNED, PING_PONG)
    if WARPGROUPS == 2:
        gl.warp_specialize(
            [
                (consume, (work, 0, SHAPE, OPTIONS, STEPS)),
                (consume, (work, 1, SHAPE, OPTIONS, STEPS)),
                (produce, (work, SHAPE, OPTIONS)),
            ],
            [4, 1], [CONSUMER_REGISTERS, PRODUCER_REGISTERS],
        )  # fmt: skip
    else:
        gl.warp_specialize(
            [
                (consume, (work, 0, SHAPE, OPTIONS, STEPS)),
                (consume, (work, 1, SHAPE, OPTIONS, STEPS)),
                (consume, (work, 2, SHAPE, OPTIONS, STEPS)),
                (produce, (work, SHAPE, OPTIONS)),
            ],
            [4, 4, 1], [CONSUMER_REGISTERS, CONSUMER_REGISTERS, PRODUCER_REGISTERS],
        )  # fmt: skip
