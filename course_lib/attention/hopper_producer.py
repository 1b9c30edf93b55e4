"""The producer of the Hopper kernel: one warp that asks the copy engine (TMA) for tiles, and does nothing else.

A stage of the ring holds the keys of one tile and the values of the tile before it, because a consumer needs these two together
(hopper_consumer.py). A tile of queries with n tiles of keys takes n + 1 stages: the first has keys only, the last values only.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma

from .hopper_packed import begins, bounds
from .hopper_tiles import is_tile, place_of, tile_number, tiles_of_keys


@gluon.jit
def produce(work, SHAPE: gl.constexpr, OPTIONS: gl.constexpr):
    """Load queries, keys and values of all tiles of this block, as fast as the consumers empty the buffers."""
    descriptors, buffers, barriers, sizes, cu, _out, schedule_ptr, _lse_ptr, _lse_rows, _scale_log2 = work
    q_desc, k_desc, v_desc, _o_desc = descriptors
    q_buffer, k_ring, v_ring, _o_buffer = buffers
    q_full, q_empty, full, empty = barriers
    q_heads, group, _q_len, _kv_len, q_tiles, tiles, rounds = sizes
    WARPGROUPS: gl.constexpr = SHAPE[0]
    ROWS: gl.constexpr = SHAPE[1]
    KEYS: gl.constexpr = SHAPE[2]
    STAGES: gl.constexpr = SHAPE[4]
    CAUSAL: gl.constexpr = OPTIONS[0]
    LISTED: gl.constexpr = OPTIONS[3]
    PACKED: gl.constexpr = OPTIONS[4]
    used = 0  # stages, over all tiles: it gives the place in the ring, and how often that place has been full
    done = 0  # tiles
    next_number = tile_number(schedule_ptr, 0, LISTED)
    for i in range(rounds):
        number = next_number
        next_number = tile_number(schedule_ptr, i + 1, LISTED)  # early: the answer takes a while
        live = is_tile(number, tiles)
        if PACKED:
            live = begins(number, tiles, sizes, cu, WARPGROUPS * ROWS, CAUSAL)
        if live:
            sequence, head, row = place_of(number, q_heads, q_tiles, WARPGROUPS * ROWS, CAUSAL)
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
                before = [sequence, kv_head, key - KEYS, 0]
                tma.async_copy_global_to_shared(k_desc, [sequence, kv_head, key, 0], full.index(stage), k_ring.index(stage))
                tma.async_copy_global_to_shared(v_desc, before, full.index(stage), v_ring.index(stage))
                used += 1
            stage = used % STAGES
            mbarrier.wait(empty.index(stage), (used // STAGES & 1) ^ 1)
            mbarrier.expect(full.index(stage), v_desc.block_type.nbytes)
            last = [sequence, kv_head, k_first + (count - 1) * KEYS, 0]
            tma.async_copy_global_to_shared(v_desc, last, full.index(stage), v_ring.index(stage))
            used += 1
            done += 1


@gluon.jit
def load_queries(q_desc, where, q_buffer, q_full, q_empty, done, WARPGROUP: gl.constexpr):
    """The rows of one consumer warpgroup, once it needs those of the tile before no more."""
    mbarrier.wait(q_empty.index(WARPGROUP), (done & 1) ^ 1)
    mbarrier.expect(q_full.index(WARPGROUP), q_desc.block_type.nbytes)
    tma.async_copy_global_to_shared(q_desc, where, q_full.index(WARPGROUP), q_buffer.index(WARPGROUP))
