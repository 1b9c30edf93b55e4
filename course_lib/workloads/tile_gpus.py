"""Tiles of attention, and what an SM of three GPUs has for them: plain numbers.

CUDA C++ Programming Guide, technical specifications and arithmetic throughput for compute capability 8.0, 8.9 and 9.0. FLOPs of a
cycle are the data sheet's dense 16-bit peak over SMs and boost clock: 312e12 / 108 / 1.41e9, 121e12 / 58 / 2.04e9,
989.4e12 / 132 / 1.83e9.
"""

from typing import NamedTuple


class TileChoice(NamedTuple):
    """block_q queries by block_k keys; stages and warps of the launch; element_bytes of q, k and v."""

    block_q: int
    block_k: int
    head_dim: int
    stages: int
    warps: int
    element_bytes: int = 2


class Gpu(NamedTuple):
    """products_read_shared  True: a matrix product reads both factors in shared memory. False: it reads registers
    shared_block_bytes    most shared memory that one block (program) can have
    shared_sm_bytes       that an SM has for all of its blocks
    threads_sm            most threads on an SM at once
    flops_per_cycle       of an SM's tensor cores, factors of 2 bytes
    exps_per_cycle        exponentials of an SM
    """

    name: str
    target: str
    products_read_shared: bool
    shared_block_bytes: int
    shared_sm_bytes: int
    threads_sm: int
    flops_per_cycle: int
    exps_per_cycle: int


A100 = Gpu("A100", "sm_80", False, 163 * 1024, 164 * 1024, 2048, 2048, 16)
L4 = Gpu("L4", "sm_89", False, 99 * 1024, 100 * 1024, 1536, 1024, 16)
H200 = Gpu("H200", "sm_90", True, 227 * 1024, 228 * 1024, 2048, 4096, 16)  # H100 too
