"""Which tile of queries a thread block works on next, and which tiles of keys that takes. Asked by every partition alike.

A tile of queries is a number: (sequence * q_heads + head) * q_tiles + place, and a causal place counts from the last queries,
which see the most keys. Keys are walked from key 0 on: the tiles that need a mask, on the diagonal and at the end, come last.
A block takes every n-th tile, where there are n blocks (IN_TURN), or has a list made ahead (LISTED; hopper_schedule.py), or draws
the next number whenever it has finished one (DRAWN; hopper_draw.py).
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

IN_TURN, LISTED, DRAWN = gl.constexpr(0), gl.constexpr(1), gl.constexpr(2)


@gluon.jit
def tile_number(schedule_ptr, i, SCHEDULE: gl.constexpr):
    """This block's i-th tile, or -1 or `tiles` and more where it has no i-th."""
    if SCHEDULE == LISTED:
        number = gl.load(schedule_ptr + i * gl.num_programs(0) + gl.program_id(0))
    else:
        number = gl.program_id(0) + i * gl.num_programs(0)
    return number


@gluon.jit
def is_tile(number, sizes):
    _q_heads, _group, _q_len, _kv_len, _q_tiles, tiles, _rounds, _heads_at_a_time = sizes
    return (number >= 0) & (number < tiles)


@gluon.jit
def place_of(number, sizes, ROWS: gl.constexpr, CAUSAL: gl.constexpr, SCHEDULE: gl.constexpr):
    """-> sequence, head, first row of queries

    DRAWN: in the order in which hopper_schedule.py deals: of `heads_at_a_time` heads, whose keys stay in the L2 cache together,
    all first places, all second ones, ...; then of as many heads more.
    """
    q_heads, _group, _q_len, _kv_len, q_tiles, tiles, _rounds, heads_at_a_time = sizes
    if SCHEDULE == DRAWN:
        first = number // (heads_at_a_time * q_tiles) * heads_at_a_time
        among = gl.minimum(heads_at_a_time, tiles // q_tiles - first)
        number = number - first * q_tiles
        head = first + number % among
        tile = number // among
    else:
        head = number // q_tiles
        tile = number % q_tiles
    if CAUSAL:
        tile = q_tiles - 1 - tile
    return head // q_heads, head % q_heads, tile * ROWS


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
