"""Tiles drawn one by one: a counter in memory says which is next, and every block takes it when it needs one.

Whoever has an easy tile comes back sooner, so blocks end together without anybody knowing lengths ahead: packed sequences have
theirs on the device. The producer draws, a tile ahead of the consumers, and hands the number to them through two slots of shared
memory, each with a `full` and an `empty` barrier like any other ring. -1 is the end.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier


@gluon.jit
def draw(counter_ptr):
    """The next tile. The first of each block is its own number, so that nobody waits for memory at the start."""
    return gl.num_programs(0) + gl.atomic_add(counter_ptr, 1)


@gluon.jit
def hand_out(draws, turn, number):
    """By the producer, one warp: this is the `turn`-th tile of this block."""
    slots, full, empty = draws
    slot = turn % 2
    mbarrier.wait(empty.index(slot), (turn // 2 & 1) ^ 1)
    slots.index(slot).store(gl.full([32], number, gl.int32, gl.BlockedLayout([1], [32], [1], [0])))
    mbarrier.arrive(full.index(slot), count=1)


@gluon.jit
def take(draws, turn):
    """By each consumer: the number that was handed out as the `turn`-th."""
    slots, full, empty = draws
    slot = turn % 2
    mbarrier.wait(full.index(slot), turn // 2 & 1)
    number = gl.max(slots.index(slot).load(gl.BlockedLayout([1], [32], [4], [0])), 0)  # 32 times the same
    mbarrier.arrive(empty.index(slot), count=1)
    return number
