"""The first rung of the ladder on Hopper: TMA and wgmma, and no division of labour.

Eight warps own 128 queries. The same warps ask for tiles, wait for them, multiply, and wait for the product; the copy engine is
one tile ahead, and while the softmax runs no product does. Everything that hopper_kernel.py adds can be seen against this.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from .hopper_order import meet
from .hopper_softmax import finished, mask_scores, no_scores_yet, no_sums_yet, rescaled, softmax_step
from .hopper_tiles import IN_TURN, place_of, tiles_of_keys, unmasked_tiles


@gluon.jit(do_not_specialize=["q_heads", "group", "q_len", "kv_len", "q_tiles"])
def hopper_plain_kernel(
    q_desc, k_desc, v_desc, o_desc, lse_ptr, q_heads, group, q_len, kv_len, q_tiles, scale_log2,
    ROWS: gl.constexpr, KEYS: gl.constexpr, DIMS: gl.constexpr, STAGES: gl.constexpr, CAUSAL: gl.constexpr,
    WITH_LSE: gl.constexpr,
):  # fmt: skip
    """One program owns ROWS queries of one head. The arguments are those of hopper_forward_kernel."""
    q_buffer = gl.allocate_shared_memory(q_desc.dtype, [1, 1, ROWS, DIMS], q_desc.layout)
    k_ring = gl.allocate_shared_memory(q_desc.dtype, [STAGES, 1, 1, KEYS, DIMS], k_desc.layout)
    v_ring = gl.allocate_shared_memory(q_desc.dtype, [STAGES, 1, 1, KEYS, DIMS], v_desc.layout)
    q_full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    mbarrier.init(q_full, count=1)
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
    fence_async_shared()
    meet()

    sequence, head, row = place_of(gl.program_id(0), (q_heads, group, q_len, kv_len, q_tiles, 0, 1, 0), ROWS, CAUSAL, IN_TURN)
    count = tiles_of_keys(row, q_len, kv_len, ROWS, KEYS, CAUSAL)
    unmasked = gl.minimum(unmasked_tiles(row, q_len, kv_len, KEYS, CAUSAL), count)
    kv_head = head // group
    mbarrier.expect(q_full, q_desc.block_type.nbytes)
    tma.async_copy_global_to_shared(q_desc, [sequence, head, row, 0], q_full, q_buffer)
    for i in gl.static_range(STAGES):
        load(k_desc, v_desc, k_ring, v_ring, full, sequence, kv_head, i, count, KEYS, STAGES)

    scores_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [8, 1], [16, KEYS, 16])
    acc_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [8, 1], [16, DIMS, 16])
    queries = q_buffer.reshape([ROWS, DIMS])
    acc = gl.zeros([ROWS, DIMS], gl.float32, acc_layout)
    best = no_scores_yet(ROWS, scores_layout)
    parts = no_sums_yet(ROWS, KEYS, scores_layout)
    mbarrier.wait(q_full, 0)
    for tile in range(unmasked):
        acc, best, parts = plain_step(
            queries, k_ring, v_ring, full, tile, acc, best, parts, scale_log2, row, q_len, kv_len,
            CAUSAL, False, ROWS, KEYS, DIMS, STAGES,
        )  # fmt: skip
        load(k_desc, v_desc, k_ring, v_ring, full, sequence, kv_head, tile + STAGES, count, KEYS, STAGES)
    for tile in range(gl.maximum(unmasked, 0), count):
        acc, best, parts = plain_step(
            queries, k_ring, v_ring, full, tile, acc, best, parts, scale_log2, row, q_len, kv_len,
            CAUSAL, True, ROWS, KEYS, DIMS, STAGES,
        )  # fmt: skip
        load(k_desc, v_desc, k_ring, v_ring, full, sequence, kv_head, tile + STAGES, count, KEYS, STAGES)

    out, lse = finished(acc, parts, best, scale_log2)
    if WITH_LSE:
        rows = row + gl.arange(0, ROWS, best.type.layout)
        start = (sequence * q_heads + head).to(gl.int64) * q_len
        gl.store(lse_ptr + start + rows, lse, mask=rows < q_len)
    queries.store(out.to(o_desc.dtype))
    fence_async_shared()
    meet()
    tma.async_copy_shared_to_global(o_desc, [sequence, head, row, 0], q_buffer)
    tma.store_wait(0)


@gluon.jit
def load(
    k_desc, v_desc, k_ring, v_ring, full, sequence, kv_head, tile, count, KEYS: gl.constexpr, STAGES: gl.constexpr
):  # fmt: skip
    """Ask for keys and values of a tile, where there are so many."""
    ready = full.index(tile % STAGES)
    there = tile < count
    mbarrier.expect(ready, k_desc.block_type.nbytes + v_desc.block_type.nbytes, pred=there)
    where = [sequence, kv_head, tile * KEYS, 0]
    tma.async_copy_global_to_shared(k_desc, where, ready, k_ring.index(tile % STAGES), pred=there)
    tma.async_copy_global_to_shared(v_desc, where, ready, v_ring.index(tile % STAGES), pred=there)


@gluon.jit
def plain_step(
    queries, k_ring, v_ring, full, tile, acc, best, parts, scale_log2, row, q_len, kv_len,
    CAUSAL: gl.constexpr, MASKED: gl.constexpr, ROWS: gl.constexpr, KEYS: gl.constexpr, DIMS: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """Scores, softmax, values of one tile, one after the other."""
    scores_layout: gl.constexpr = best.type.layout.parent
    stage = tile % STAGES
    mbarrier.wait(full.index(stage), tile // STAGES & 1)
    keys = k_ring.index(stage).reshape([KEYS, DIMS]).permute([1, 0])
    nothing = gl.zeros([ROWS, KEYS], gl.float32, scores_layout)
    scores = warpgroup_mma(queries, keys, nothing, use_acc=False, is_async=True)
    scores = warpgroup_mma_wait(0, deps=(scores,))
    if MASKED:
        scores = mask_scores(scores, row, tile * KEYS, q_len, kv_len, CAUSAL)
    weights, rescale, best, new_parts = softmax_step(scores, best, scale_log2, MASKED, False)
    parts = rescaled(parts, rescale) + new_parts
    acc = acc * gl.convert_layout(rescale, gl.SliceLayout(1, acc.type.layout))[:, None]
    weights = gl.convert_layout(weights.to(queries.dtype), gl.DotOperandLayout(0, acc.type.layout, 2))
    acc = warpgroup_mma(weights, v_ring.index(stage).reshape([KEYS, DIMS]), acc, is_async=True)
    acc = warpgroup_mma_wait(0, deps=(acc,))
    meet()  # the other warpgroup has read this stage as well: it may be filled anew
    return acc, best, parts
