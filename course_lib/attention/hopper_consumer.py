"""A consumer of the Hopper kernel: one warpgroup (4 warps) that owns some rows of queries, and multiplies."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from .hopper_draw import take
from .hopper_eight import WEIGHTS_LOG2, add_values, carry_eight, scales_of, step_eight, values_of
from .hopper_order import give_turn, meet, wait_for_turn
from .hopper_packed import begins, bounds, clear_rows, store_packed
from .hopper_softmax import finished, mask_scores, no_scores_yet, rescaled, softmax_step
from .hopper_tiles import DRAWN, is_tile, place_of, tile_number, tiles_of_keys, unmasked_tiles
from .hopper_weights import behind_loop, carry, operand


@gluon.jit
def consume(work, WARPGROUP: gl.constexpr, SHAPE: gl.constexpr, OPTIONS: gl.constexpr, STEPS: gl.constexpr):
    """All tiles of this block, one after the other: this warpgroup's rows of each. Arguments: see hopper_kernel.py."""
    _descriptors, _buffers, _barriers, draws, sizes, cu, _out, _scales, schedule_ptr, _lse_ptr, _lse_rows, _scale_log2 = work
    _q_heads, _group, _q_len, _kv_len, _q_tiles, _tiles, rounds, _heads_at_a_time = sizes
    WARPGROUPS: gl.constexpr = SHAPE[0]
    QUERIES: gl.constexpr = SHAPE[0] * SHAPE[1]
    CAUSAL: gl.constexpr = OPTIONS[0]
    SCHEDULE: gl.constexpr = OPTIONS[3]
    PACKED: gl.constexpr = OPTIONS[4]
    PING_PONG: gl.constexpr = STEPS[2]
    used = 0
    done = 0
    if PING_PONG and WARPGROUP + 1 == WARPGROUPS:
        give_turn(WARPGROUP, WARPGROUPS)  # warpgroup 0 begins
    if SCHEDULE == DRAWN:
        number = take(draws, 0)
        while number >= 0:
            used = attend(work, number, used, done, WARPGROUP, SHAPE, OPTIONS, STEPS)
            done += 1
            number = take(draws, done)
    else:
        next_number = tile_number(schedule_ptr, 0, SCHEDULE)
        for i in range(rounds):
            number = next_number
            next_number = tile_number(schedule_ptr, i + 1, SCHEDULE)
            live = is_tile(number, sizes)
            if PACKED:
                live = begins(number, sizes, cu, QUERIES, CAUSAL, SCHEDULE)
            if live:
                used = attend(work, number, used, done, WARPGROUP, SHAPE, OPTIONS, STEPS)
                done += 1
    tma.store_wait(0)
    if PING_PONG and WARPGROUP == 0:
        wait_for_turn(WARPGROUP)  # the last one given: nobody may leave a barrier half full


@gluon.jit
def attend(
    work, number, used, done, WARPGROUP: gl.constexpr, SHAPE: gl.constexpr, OPTIONS: gl.constexpr, STEPS: gl.constexpr
):  # fmt: skip
    """ROWS queries of one tile: scores, softmax, values; the result leaves by TMA -> stages used until now"""
    descriptors, buffers, barriers, _draws, sizes, cu, out, scales, _schedule_ptr, lse_ptr, lse_rows, scale_log2 = work
    q_desc, _k_desc, _v_desc, o_desc = descriptors
    q_buffer, k_ring, v_ring, o_buffer = buffers
    q_full, q_empty, full, empty = barriers
    q_heads, _group, _q_len, _kv_len, _q_tiles, _tiles, _rounds, _heads_at_a_time = sizes
    WARPGROUPS: gl.constexpr = SHAPE[0]
    ROWS: gl.constexpr = SHAPE[1]
    KEYS: gl.constexpr = SHAPE[2]
    DIMS: gl.constexpr = SHAPE[3]
    STAGES: gl.constexpr = SHAPE[4]
    CAUSAL: gl.constexpr = OPTIONS[0]
    WITH_LSE: gl.constexpr = OPTIONS[1]
    OUT_APART: gl.constexpr = OPTIONS[2]
    SCHEDULE: gl.constexpr = OPTIONS[3]
    PACKED: gl.constexpr = OPTIONS[4]
    PING_PONG: gl.constexpr = STEPS[2]
    EIGHT: gl.constexpr = q_desc.dtype == gl.float8e4nv
    scores_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, KEYS, 32 if EIGHT else 16])
    acc_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, DIMS, 32 if EIGHT else 16])
    weights_layout: gl.constexpr = gl.DotOperandLayout(0, acc_layout, 4 if EIGHT else 2)
    PAIRS: gl.constexpr = WARPGROUPS == 3
    TIMES_LOG2: gl.constexpr = WEIGHTS_LOG2 if EIGHT else 0
    queries = q_buffer.index(WARPGROUP).reshape([ROWS, DIMS])
    result = o_buffer.index(WARPGROUP)
    sequence, head, row = place_of(number, sizes, WARPGROUPS * ROWS, CAUSAL, SCHEDULE)
    place, q_first, _k_first, q_len, kv_len = bounds(sequence, sizes, cu, PACKED)
    count = tiles_of_keys(row, q_len, kv_len, WARPGROUPS * ROWS, KEYS, CAUSAL)
    row += WARPGROUP * ROWS
    unmasked = unmasked_tiles(row, q_len, kv_len, KEYS, CAUSAL)
    if EIGHT:
        scale_log2, v_scale = scales_of(scales, sequence, head, sizes, scale_log2)
    acc = gl.zeros([ROWS, DIMS], gl.float32, acc_layout)
    best = no_scores_yet(ROWS, scores_layout)

    mbarrier.wait(q_full.index(WARPGROUP), done & 1)
    stage = used % STAGES
    mbarrier.wait(full.index(stage), used // STAGES & 1)
    if PING_PONG:
        wait_for_turn(WARPGROUP)
    keys = k_ring.index(stage).reshape([KEYS, DIMS]).permute([1, 0])
    nothing = gl.zeros([ROWS, KEYS], gl.float32, scores_layout)
    scores = warpgroup_mma(queries, keys, nothing, use_acc=False, is_async=True)
    if PING_PONG:
        give_turn(WARPGROUP, WARPGROUPS)
    scores = warpgroup_mma_wait(0, deps=(scores,))
    mbarrier.arrive(empty.index(stage), count=1)
    used += 1
    scores = mask_scores(scores, row, 0, q_len, kv_len, CAUSAL)
    weights, rescale, best, parts = softmax_step(scores, best, scale_log2, True, False, TIMES_LOG2)
    weights = carry_eight(weights) if EIGHT else carry(weights, weights_layout, o_desc.dtype, PAIRS)

    for _ in range(1, unmasked):
        if EIGHT:
            acc, weights, rescale, best, parts = step_eight(
                queries, k_ring, v_ring, full, empty, used, acc, weights, rescale, best, parts, scale_log2, row, 0, q_len, kv_len,
                False, CAUSAL, WARPGROUP, SHAPE, STEPS,
            )  # fmt: skip
        else:
            acc, weights, best, parts = step(
                queries, k_ring, v_ring, full, empty, used, acc, weights, best, parts, scale_log2, row, 0, q_len, kv_len,
                False, CAUSAL, WARPGROUP, SHAPE, STEPS,
            )  # fmt: skip
        used += 1
    weights = behind_loop(weights, PAIRS or EIGHT)
    for tile in range(gl.maximum(unmasked, 1), count):
        if EIGHT:
            acc, weights, rescale, best, parts = step_eight(
                queries, k_ring, v_ring, full, empty, used, acc, weights, rescale, best, parts, scale_log2, row, tile * KEYS,
                q_len, kv_len, True, CAUSAL, WARPGROUP, SHAPE, STEPS,
            )  # fmt: skip
        else:
            acc, weights, best, parts = step(
                queries, k_ring, v_ring, full, empty, used, acc, weights, best, parts, scale_log2, row, tile * KEYS,
                q_len, kv_len, True, CAUSAL, WARPGROUP, SHAPE, STEPS,
            )  # fmt: skip
        used += 1
    if OUT_APART:
        mbarrier.arrive(q_empty.index(WARPGROUP), count=1)

    stage = used % STAGES
    mbarrier.wait(full.index(stage), used // STAGES & 1)
    values = values_of(v_ring, stage, KEYS, DIMS, EIGHT)
    if PACKED:
        last = (count - 1) * KEYS
        if kv_len < last + KEYS:
            clear_rows(values, kv_len - last, WARPGROUP, SHAPE)
    if EIGHT:
        acc = add_values(acc, weights, rescale, values, weights_layout)
    else:
        weights = operand(weights, weights_layout, o_desc.dtype, PAIRS)
        acc = warpgroup_mma(weights, values, acc, is_async=True)
        acc = warpgroup_mma_wait(0, deps=(acc,))
    mbarrier.arrive(empty.index(stage), count=1)
    used += 1

    acc, lse = finished(acc, parts, best, scale_log2, TIMES_LOG2)
    if EIGHT:
        acc = acc * v_scale
    if WITH_LSE:
        rows = row + gl.arange(0, ROWS, best.type.layout)
        start = (place * q_heads + head).to(gl.int64) * lse_rows + q_first
        gl.store(lse_ptr + start + rows, lse, mask=rows < q_len)
    tma.store_wait(0)
    meet()
    result.reshape([ROWS, DIMS]).store(acc.to(o_desc.dtype))
    fence_async_shared()
    meet()
    if PACKED:
        store_packed(o_desc, result, out, place, head, q_first, row, q_len, SHAPE)
    else:
        tma.async_copy_shared_to_global(o_desc, [place, head, row, 0], result)
    if not OUT_APART:
        tma.store_wait(0)
        meet()
        mbarrier.arrive(q_empty.index(WARPGROUP), count=1)
    return used


@gluon.jit
def step(
    queries, k_ring, v_ring, full, empty, used, acc, weights, best, parts, scale_log2, row, key, q_len, kv_len,
    MASKED: gl.constexpr, CAUSAL: gl.constexpr, WARPGROUP: gl.constexpr, SHAPE: gl.constexpr, STEPS: gl.constexpr,
):  # fmt: skip
    """Scores of this tile of keys and values of the one before: two products in flight, and a softmax meanwhile."""
    WARPGROUPS: gl.constexpr = SHAPE[0]
    ROWS: gl.constexpr = SHAPE[1]
    KEYS: gl.constexpr = SHAPE[2]
    DIMS: gl.constexpr = SHAPE[3]
    STAGES: gl.constexpr = SHAPE[4]
    OVERLAP: gl.constexpr = STEPS[0]
    PINNED: gl.constexpr = STEPS[1]
    PING_PONG: gl.constexpr = STEPS[2]
    PAIRS: gl.constexpr = WARPGROUPS == 3
    weights_layout: gl.constexpr = gl.DotOperandLayout(0, acc.type.layout, 2)
    scores_layout: gl.constexpr = best.type.layout.parent
    stage = used % STAGES
    keys = k_ring.index(stage).reshape([KEYS, DIMS]).permute([1, 0])
    values = v_ring.index(stage).reshape([KEYS, DIMS])
    nothing = gl.zeros([ROWS, KEYS], gl.float32, scores_layout)
    mbarrier.wait(full.index(stage), used // STAGES & 1)
    if PING_PONG:
        wait_for_turn(WARPGROUP)
    scores = warpgroup_mma(queries, keys, nothing, use_acc=False, is_async=True)
    weights = operand(weights, weights_layout, queries.dtype, PAIRS)
    acc = warpgroup_mma(weights, values, acc, is_async=True)
    if PING_PONG:
        give_turn(WARPGROUP, WARPGROUPS)
    if OVERLAP:
        scores = warpgroup_mma_wait(1, deps=(scores,))
    else:
        scores, acc, weights = warpgroup_mma_wait(0, deps=(scores, acc, weights))
        mbarrier.arrive(empty.index(stage), count=1)
    if MASKED:
        scores = mask_scores(scores, row, key, q_len, kv_len, CAUSAL)
    new_weights, rescale, best, new_parts = softmax_step(scores, best, scale_log2, MASKED, PINNED)
    parts = rescaled(parts, rescale) + new_parts
    if OVERLAP:
        acc, weights = warpgroup_mma_wait(0, deps=(acc, weights))
        mbarrier.arrive(empty.index(stage), count=1)
    acc = acc * gl.convert_layout(rescale, gl.SliceLayout(1, acc.type.layout))[:, None]
    return acc, carry(new_weights, weights_layout, queries.dtype, PAIRS), best, parts
