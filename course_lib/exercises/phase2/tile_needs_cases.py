"""Cases of exercise 2.5: tiles on both sides of each limit, on real GPUs and on one that nobody knows by heart.

A tile is (block_q, block_k, head_dim, stages, warps, element_bytes).
"""

import random
from typing import Any

from ...grading.criteria import Case
from ...workloads.tile_gpus import A100, H200, L4, Gpu

TILE = tuple[int, ...]


def _case(tile: TILE, gpu: Gpu) -> Case:
    block_q, block_k, head_dim, stages, warps, size = tile
    words = f"{block_q} x {block_k}, head_dim {head_dim}, {stages} stages, {warps} warps, {size} bytes each, on {gpu.name}"
    return {"name": words, "tile": list(tile), "gpu": list(gpu)}


def _cases(seed: int, rows: Any, gpus: Any, sizes: Any = (2,)) -> list[Case]:
    """The rows, and three drawn tiles: on a GPU of our own and on two of `gpus`."""
    draw = random.Random(seed)
    cases = [_case(tile, gpu) for tile, gpu in rows]
    for gpu in (_own(draw, draw.choice(gpus).products_read_shared), *draw.choices(gpus, k=2)):
        choices = ((64, 128, 256), (32, 64, 128), (64, 80, 96, 128, 256), (2, 3, 4), (4, 8, 16), sizes)
        cases.append(_case(tuple(map(draw.choice, choices)), gpu))
    return cases


def _own(draw: random.Random, reads_shared: bool) -> Gpu:
    block = draw.randrange(96, 300)
    numbers = block * 1024, (block + draw.randrange(1, 9)) * 1024, draw.choice((1024, 1536)), 512 * draw.randrange(3, 20)
    return Gpu("a GPU of our own", "", reads_shared, *numbers, draw.choice((12, 24, 40)))


ODD = Gpu("a GPU of our own, 3584 FLOPs and 24 exponentials a cycle", "", True, 200 * 1024, 208 * 1024, 1536, 3584, 24)
ODD_AMPERE = Gpu("a GPU of our own, without products of shared memory", "", False, 120 * 1024, 128 * 1024, 1024, 1536, 40)


def hopper_cases(seed: int) -> list[Case]:
    rows = [  # in the first one, no two of the usual slips give the same number
        ((64, 128, 128, 4, 8, 2), H200), ((64, 64, 128, 3, 4, 2), H200), ((128, 64, 128, 3, 8, 2), H200),
        ((64, 128, 64, 2, 4, 2), H200), ((128, 64, 80, 2, 8, 2), H200), ((64, 32, 192, 3, 4, 2), H200),
        ((64, 64, 48, 3, 4, 2), H200), ((64, 32, 192, 2, 4, 1), ODD), ((128, 64, 96, 3, 8, 1), H200),
        ((128, 176, 128, 2, 8, 2), H200), ((128, 224, 128, 2, 8, 1), H200),
    ]  # fmt: skip
    return _cases(seed, rows, [H200], (2, 1))


def ampere_cases(seed: int) -> list[Case]:
    """block_q equal to head_dim, above and below."""
    rows = [
        ((64, 80, 128, 5, 8, 2), A100), ((256, 32, 64, 4, 8, 2), A100), ((128, 64, 128, 3, 8, 2), A100),
        ((64, 64, 128, 3, 4, 2), A100), ((64, 32, 64, 2, 4, 2), L4), ((64, 64, 80, 4, 4, 2), A100),
        ((128, 128, 128, 2, 8, 2), A100), ((64, 64, 128, 3, 4, 1), L4), ((96, 64, 80, 3, 8, 2), A100),
        ((128, 32, 192, 3, 8, 2), A100), ((64, 32, 48, 3, 4, 2), ODD_AMPERE), ((32, 64, 48, 3, 4, 1), L4),
    ]  # fmt: skip
    return _cases(seed, rows, [A100, L4], (2, 1))


def register_cases(seed: int) -> list[Case]:
    """256 registers of 255, 128 of 128, 160 of 128, a number that is not whole, and a sum of two that are not."""
    rows = [
        ((128, 64, 128, 3, 8, 2), H200), ((128, 128, 128, 2, 4, 2), H200), ((256, 128, 128, 2, 16, 2), A100),
        ((256, 256, 64, 2, 16, 2), H200), ((80, 80, 64, 2, 16, 2), H200), ((64, 64, 80, 2, 4, 2), A100),
        ((128, 64, 128, 2, 8, 1), H200), ((64, 32, 192, 2, 4, 2), H200), ((64, 64, 48, 2, 4, 2), L4),
        ((40, 80, 32, 2, 16, 2), H200),
    ]  # fmt: skip
    return _cases(seed, rows, [A100, H200], (2, 1))


def traffic_cases(seed: int) -> list[Case]:
    rows = [
        ((128, 32, 128, 3, 8, 2), H200), ((64, 128, 128, 2, 4, 2), H200), ((128, 128, 64, 2, 8, 1), H200),
        ((64, 64, 80, 2, 4, 2), A100), ((64, 64, 192, 2, 4, 2), A100),
    ]  # fmt: skip
    return _cases(seed, rows, [A100, H200], (2, 1))


def cycle_cases(seed: int) -> list[Case]:
    rows = [
        ((128, 64, 128, 3, 8, 2), H200), ((64, 128, 64, 2, 4, 2), H200), ((128, 64, 128, 3, 8, 2), A100),
        ((128, 128, 128, 2, 8, 1), H200), ((64, 64, 80, 2, 4, 2), L4), ((64, 64, 192, 2, 4, 2), H200),
        ((64, 64, 48, 2, 4, 2), A100), ((64, 80, 128, 2, 4, 2), ODD), ((64, 80, 64, 2, 4, 1), ODD),
    ]  # fmt: skip
    return _cases(seed, rows, [A100, H200, L4], (2, 1))


def refused_cases(seed: int) -> list[Case]:
    """64 x 438: 232,448 bytes, all that a block of an H200 can have; 64 x 439: 512 more. 256 x 256, head_dim 64: spills."""
    rows = [
        ((128, 128, 128, 3, 8, 2), H200), ((128, 128, 128, 4, 8, 2), H200), ((128, 176, 128, 2, 8, 2), H200),
        ((96, 96, 64, 2, 4, 2), A100), ((192, 128, 64, 2, 8, 2), H200), ((256, 256, 128, 2, 16, 2), H200),
        ((256, 256, 64, 2, 8, 2), H200), ((64, 438, 64, 2, 8, 2), H200), ((64, 439, 64, 2, 8, 2), H200),
        ((64, 128, 128, 3, 4, 2), A100), ((64, 128, 128, 3, 4, 2), L4), ((64, 64, 80, 3, 4, 2), L4),
        ((64, 92, 128, 4, 4, 2), ODD), ((64, 128, 128, 3, 4, 2), ODD), ((64, 94, 128, 4, 4, 2), ODD),
    ]  # fmt: skip
    return _cases(seed, rows, [A100, H200, L4])


def program_cases(seed: int) -> list[Case]:
    """In turn: shared memory runs out first, what is reserved counts, exactly four, registers, threads; spills; refused."""
    rows = [
        ((64, 64, 128, 3, 4, 2), H200), ((64, 32, 64, 3, 4, 2), H200), ((64, 64, 64, 3, 4, 2), H200),
        ((128, 32, 64, 2, 4, 2), A100), ((64, 64, 64, 2, 16, 2), H200), ((64, 32, 64, 2, 16, 2), L4),
        ((256, 256, 128, 2, 8, 1), H200), ((128, 128, 128, 4, 8, 2), H200), ((64, 96, 64, 2, 4, 2), H200),
        ((64, 64, 128, 3, 4, 2), A100), ((128, 128, 64, 2, 4, 1), H200), ((64, 32, 64, 2, 8, 1), ODD_AMPERE),
    ]  # fmt: skip
    return _cases(seed, rows, [A100, H200, L4])
