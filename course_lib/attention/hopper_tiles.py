"""Which tile of queries a thread block works on next, and which tiles of keys that takes. Asked by every partition alike.

A tile of queries is a number: (sequence * q_heads + head) * q_tiles + place, and a causal place counts from the last queries,
which see the most keys. Keys are walked from key 0 on: the tiles that need a mask, on the diagonal and at the end, come last.
A block takes its tiles from a list made ahead (LISTED; hopper_schedule.py), or every n-th of them, where there are n blocks.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def tile_number(schedule_ptr, i, LISTED: gl.constexpr):
    """This block's i-th tile, or -1 or `tiles` and more where it has no i-th."""
    if LISTED:
        number = gl.load(schedule_ptr + i * gl.num_programs(0) + gl.program_id(0))
    else:
        number = gl.program_id(0) + i * gl.num_programs(0)
    return number


@gluon.jit
def is_tile(number, tiles):
    return (number >= 0) & (number < tiles)


@gluon.jit
def place_of(number, q_heads, q_tiles, ROWS: gl.constexpr, CAUSAL: gl.constexpr):
    """-> sequence, head, first row of queries"""
    tile = number % q_tiles
    if CAUSAL:
        tile = q_tiles - 1 - tile
    return number // q_tiles // q_heads, number // q_tiles % q_heads, tile * ROWS


@gluon.jit
def tiles_of_keys(row, q_len, kv_len, ROWS: gl.constexpr, KEYS: gl.constexpr, CAUSAL: gl.constexpr):
    """How many tiles of KEYS keys the queries from `row` on look at; 1 where they see none, so that every tile has a first.

    Causal, 128 and 128, as many keys as queries: row 0 -> 1, row 128 -> 2. One key more: row 0 sees 129 of them -> 2.
    """
    end = kv_len
    if CAUSAL:
        end = gl.minimum(kv_len, row + ROWS + kv_len - q_len)
    return gl.maximum((end + KEYS - 1) // KEYS, 1)


@gluon.jit
def unmasked_tiles(row, q_len, kv_len, KEYS: gl.constexpr, CAUSAL: gl.constexpr):
    """How many tiles of keys, counted from key 0, all queries from `row` on see whole; 0 or less: none."""
    end = kv_len
    if CAUSAL:
        end = gl.minimum(kv_len, row + 1 + kv_len - q_len)
    return end // KEYS
