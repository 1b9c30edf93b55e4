"""The producer of the Hopper kernel: one warp that asks the copy engine (TMA) for tiles, and does nothing else.

A stage of the ring holds the keys of one tile and the values of the tile before it, because a consumer needs these two together
(hopper_consumer.py). A tile of queries with n tiles of keys takes n + 1 stages: the first has keys only, the last values only.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma

from .hopper_draw import draw, hand_out
from .hopper_packed import begins, bounds
from .hopper_tiles import DRAWN, is_tile, place_of, tile_number, tiles_of_keys


@gluon.jit
def produce(work, SHAPE: gl.constexpr, OPTIONS: gl.constexpr):
    """Load queries, keys and values of all tiles of this block, as fast as the consumers empty the buffers."""
    _descriptors, _buffers, _barriers, draws, sizes, cu, _out, _scales, schedule_ptr, _lse_ptr, _lse_rows, _scale_log2 = work
    _q_heads, _group, _q_len, _kv_len, _q_tiles, tiles, rounds, _heads_at_a_time = sizes
    QUERIES: gl.constexpr = SHAPE[0] * SHAPE[1]
    CAUSAL: gl.constexpr = OPTIONS[0]
    SCHEDULE: gl.constexpr = OPTIONS[3]
    PACKED: gl.constexpr = OPTIONS[4]
    used = 0  # stages, over all tiles: it gives the place in the ring, and how often that place has been full
    done = 0  # tiles
    if SCHEDULE == DRAWN:
        number = gl.program_id(0)
        while number < tiles:
            live = number >= 0
            if PACKED:
                live = begins(number, sizes, cu, QUERIES, CAUSAL, SCHEDULE)
            if live:
                hand_out(draws, done, number)
                used = load_tile(work, number, used, done, SHAPE, OPTIONS)
                done += 1
            number = draw(schedule_ptr)
        hand_out(draws, done, -1)
    else:
        next_number = tile_number(schedule_ptr, 0, SCHEDULE)
        for i in range(rounds):
            number = next_number
            next_number = tile_number(schedule_ptr, i + 1, SCHEDULE)  # early: the answer takes a while
            live = is_tile(number, sizes)
            if PACKED:
                live = begins(number, sizes, cu, QUERIES, CAUSAL, SCHEDULE)
            if live:
                used = load_tile(work, number, used, done, SHAPE, OPTIONS)
                done += 1


@gluon.jit
def load_tile(work, number, used, done, SHAPE: gl.constexpr, OPTIONS: gl.constexpr):
    """Everything that one tile of queries needs -> stages used until now"""
    descriptors, buffers, barriers, _draws, sizes, cu, _out, _scales, _schedule_ptr, _lse_ptr, _lse_rows, _scale_log2 = work
    q_desc, k_desc, v_desc, _o_desc = descriptors
    q_buffer, k_ring, v_ring, _o_buffer = buffers
    q_full, q_empty, full, empty = barriers
    _q_heads, group, _q_len, _kv_len, _q_tiles, _tiles, _rounds, _heads_at_a_time = sizes
    WARPGROUPS: gl.constexpr = SHAPE[0]
    ROWS: gl.constexpr = SHAPE[1]
    KEYS: gl.constexpr = SHAPE[2]
    STAGES: gl.constexpr = SHAPE[4]
    CAUSAL: gl.constexpr = OPTIONS[0]
    SCHEDULE: gl.constexpr = OPTIONS[3]
    PACKED: gl.constexpr = OPTIONS[4]
    EIGHT: gl.constexpr = k_desc.dtype == gl.float8e4nv
    sequence, head, row = place_of(number, sizes, WARPGROUPS * ROWS, CAUSAL, SCHEDULE)
    sequence, q_first, k_first, q_len, kv_len = bounds(sequence, sizes, cu, PACKED)
    count = tiles_of_keys(row, q_len, kv_len, WARPGROUPS * ROWS, KEYS, CAUSAL)
    kv_head = head // group
    load_queries(q_desc, [sequence, head, q_first + row, 0], q_buffer, q_full, q_empty, done, 0)
    stage = used % STAGES
    mbarrier.wait(empty.index(stage), (used // STAGES & 1) ^ 1)
    mbarrier.expect(full.index(stage), k_desc.block_type.nbytes)
    tma.async_copy_global_to_shared(k_desc, [sequence, kv_head, k_first, 0], full.index(stage), k_ring.index(stage))
    used += 1
    for warpgroup in gl.static_range(1, WARPGROUPS):
        where = [sequence, head, q_first + row + warpgroup * ROWS, 0]
        load_queries(q_desc, where, q_buffer, q_full, q_empty, done, warpgroup)
    for tile in range(1, count):
        key = k_first + tile * KEYS
        stage = used % STAGES
        mbarrier.wait(empty.index(stage), (used // STAGES & 1) ^ 1)
        mbarrier.expect(full.index(stage), k_desc.block_type.nbytes + v_desc.block_type.nbytes)
        before = values_at(sequence, kv_head, key - KEYS, EIGHT)
        tma.async_copy_global_to_shared(k_desc, [sequence, kv_head, key, 0], full.index(stage), k_ring.index(stage))
        tma.async_copy_global_to_shared(v_desc, before, full.index(stage), v_ring.index(stage))
        used += 1
    stage = used % STAGES
    mbarrier.wait(empty.index(stage), (used // STAGES & 1) ^ 1)
    mbarrier.expect(full.index(stage), v_desc.block_type.nbytes)
    last = values_at(sequence, kv_head, k_first + (count - 1) * KEYS, EIGHT)
    tma.async_copy_global_to_shared(v_desc, last, full.index(stage), v_ring.index(stage))
    return used + 1


@gluon.jit
def values_at(sequence, kv_head, key, EIGHT: gl.constexpr):
    """Where a tile of values begins. EIGHT: transposed."""
    return [sequence, kv_head, 0, key] if EIGHT else [sequence, kv_head, key, 0]


@gluon.jit
def load_queries(q_desc, where, q_buffer, q_full, q_empty, done, WARPGROUP: gl.constexpr):
    """The rows of one consumer warpgroup, once it needs those of the tile before no more."""
    mbarrier.wait(q_empty.index(WARPGROUP), (done & 1) ^ 1)
    mbarrier.expect(q_full.index(WARPGROUP), q_desc.block_type.nbytes)
    tma.async_copy_global_to_shared(q_desc, where, q_full.index(WARPGROUP), q_buffer.index(WARPGROUP))
