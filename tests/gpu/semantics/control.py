"""Loops, branches, program ids and asserts: Python's words as a kernel means them."""

import triton
import triton.language as tl

from .bits import uniform
from .probe import Open, Probe


@triton.jit
def loop_kernel(out_ptr, n, step):
    """Python's words for control, each with a value that shows what ran."""
    total = 0
    for i in range(n):
        total += i
    tl.store(out_ptr, total)
    total = 0
    for i in range(n, 2, -3):
        total = total * 10 + i
    tl.store(out_ptr + 1, total)
    total = 0
    for i in tl.range(1, n, step):
        total = total * 10 + i
    tl.store(out_ptr + 2, total)
    total = 0
    for i in tl.static_range(4):
        total += i * n
    tl.store(out_ptr + 3, total)
    while total > n:
        total = total // 2
    tl.store(out_ptr + 4, total)
    if n > 5 and step == 2:
        total = -1
    elif n < 0 or step > 7:
        total = -2
    else:
        total = -3
    tl.store(out_ptr + 5, total)
    total = n if step == 2 else step
    tl.store(out_ptr + 6, total)
    tl.store(out_ptr + 7, min(n, 3) + max(step, n))
    for i in range(5, n - 100):  # noqa: B007
        total += 1000
    tl.store(out_ptr + 8, total)
    tl.store(out_ptr + 9, -n // step)
    tl.store(out_ptr + 10, -n % step)
    tl.store(out_ptr + 11, tl.cdiv(-n, step))
    tl.store(out_ptr + 12, n * 1073741824)
    tl.store(out_ptr + 13, -7 // 2)
    tl.store(out_ptr + 14, (-n) >> 1)
    tl.store(out_ptr + 15, tl.num_programs(0) * 100 + tl.num_programs(1))


@triton.jit
def assert_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """Without debug=True the assert is not compiled, and the store happens."""
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.device_assert(x < 0, "every value here is positive")
    tl.store(out_ptr + at, x)


@triton.jit
def grid_kernel(out_ptr):
    place = (tl.program_id(2) * tl.num_programs(1) + tl.program_id(1)) * tl.num_programs(0) + tl.program_id(0)
    tl.store(out_ptr + place, tl.program_id(0) + 10 * tl.program_id(1) + 100 * tl.program_id(2))


def probes() -> list[Probe]:
    found = [
        Probe("loops and branches", loop_kernel, list, [("int32", (16,))], scalars=(11, 2)),
        Probe("loops and branches, negative", loop_kernel, list, [("int32", (16,))], scalars=(-9, 4)),
        Probe(
            "device_assert without debug",
            assert_kernel,
            lambda: [uniform("fp32", (32,), 128)],
            [("fp32", (32,))],
            {"BLOCK": 32},
            rule=Open("compiled without debug=True it is nothing; the interpreter looks at it on purpose"),
        ),
        Probe("program ids", grid_kernel, list, [("int32", (24,))], grid=(4, 3, 2)),
    ]
    return found
