"""Integers: overflow, division of negatives, shifts, comparisons, and what a bool is."""

import numpy as np
import triton
import triton.language as tl

from .bits import Bits, integers, random_bits
from .probe import Exact, Open, Probe, Rule

TYPES = ("int8", "int16", "int32", "int64", "uint8", "uint32", "uint64")


@triton.jit
def binary_kernel(x_ptr, y_ptr, out_ptr, OP: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    y = tl.load(y_ptr + at)
    if OP == "add":
        r = x + y
    elif OP == "sub":
        r = x - y
    elif OP == "mul":
        r = x * y
    elif OP == "floordiv":
        r = x // y
    elif OP == "mod":
        r = x % y
    elif OP == "cdiv":
        r = tl.cdiv(x, y)
    elif OP == "and":
        r = x & y
    elif OP == "or":
        r = x | y
    elif OP == "xor":
        r = x ^ y
    elif OP == "shl":
        r = x << y
    elif OP == "shr":
        r = x >> y
    elif OP == "maximum":
        r = tl.maximum(x, y)
    elif OP == "minimum":
        r = tl.minimum(x, y)
    elif OP == "umulhi":
        r = tl.umulhi(x, y)
    elif OP == "abs":
        r = tl.abs(x)
    elif OP == "invert":
        r = ~x
    elif OP == "neg":
        r = -x
    tl.store(out_ptr + at, r)


@triton.jit
def compare_kernel(x_ptr, y_ptr, out_ptr, BLOCK: tl.constexpr):
    """One bit for each comparison."""
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    y = tl.load(y_ptr + at)
    r = (x < y).to(tl.int8) + (x <= y).to(tl.int8) * 2 + (x > y).to(tl.int8) * 4 + (x >= y).to(tl.int8) * 8
    tl.store(out_ptr + at, r + (x == y).to(tl.int8) * 16 + (x != y).to(tl.int8) * 32)


@triton.jit
def bool_kernel(x_ptr, y_ptr, out_ptr, OP: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a = tl.load(x_ptr + at) > 0
    b = tl.load(y_ptr + at) > 0
    if OP == "add":
        r = a + b
    elif OP == "sub":
        r = a - b
    elif OP == "mul":
        r = a * b
    elif OP == "invert":
        r = ~a
    elif OP == "neg":
        r = -a
    elif OP == "add 1":
        r = a + 1
    elif OP == "add int8":
        r = a + tl.load(y_ptr + at).to(tl.int8)
    elif OP == "times 2.5":
        r = a * 2.5
    elif OP == "sum":
        r = tl.sum(a.to(tl.int32) * 0 + tl.sum(a, 0), 0) + tl.zeros([BLOCK], tl.int32)
    elif OP == "less":
        r = a < b
    elif OP == "xor":
        r = a ^ b
    elif OP == "logical":
        r = (a and b) or not a
    tl.store(out_ptr + at, r.to(tl.float32))


@triton.jit
def constants_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """A constant takes the block's type, and the sum wraps around in it."""
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, (x + 100).to(tl.int64))
    tl.store(out_ptr + BLOCK + at, (x * 3).to(tl.int64))
    tl.store(out_ptr + 2 * BLOCK + at, (at + 2147483647).to(tl.int64))
    tl.store(out_ptr + 3 * BLOCK + at, (at.to(tl.int64) + 4294967296).to(tl.int64))


def _pair(dtype: str, small_right: bool = False) -> tuple[Bits, Bits]:
    """Two [512]: hard values with each other, then random bits."""
    info = np.iinfo(dtype)
    hard = np.array(
        [
            0,
            1,
            2,
            3,
            7,
            info.max,
            info.max - 1,
            info.max // 2,
            *([info.min, info.min + 1, -1, -2, -3, -7, -8, -100] if info.min else [4, 5, 6, 8, 100, 127, 128, 200]),
        ],
        dtype,
    )
    left, right = np.repeat(hard, 16), np.tile(hard, 16)
    random = [random_bits(dtype, (256,), seed).data.view(dtype) for seed in (61, 62)]
    if small_right:
        random[1] = (random[1] % np.array(13, dtype)).astype(dtype)
    return integers(dtype, np.concatenate([left, random[0]])), integers(dtype, np.concatenate([right, random[1]]))


def _divisible(dtype: str) -> tuple[Bits, Bits]:
    """Without division by zero and without the lowest number over -1, which LLVM leaves open."""
    x, y = (bits.values().copy() for bits in _pair(dtype, small_right=True))
    y[y == 0] = 5
    info = np.iinfo(dtype)
    if info.min:
        x[(x == info.min) & (y == -1)] = info.max
    return integers(dtype, x), integers(dtype, y)


def _shifts(dtype: str, inside: bool) -> tuple[Bits, Bits]:
    x, _ = _pair(dtype)
    width = 8 * x.data.itemsize
    by = np.arange(512) % width if inside else width + np.arange(512) % 9
    return x, integers(dtype, by)


def probes() -> list[Probe]:
    found = []

    def add(name: str, op: str, both: tuple[Bits, Bits], dtype: str, rule: Rule | None = None) -> None:
        out = [(dtype, (512,))]
        found.append(Probe(f"{dtype} {name}", binary_kernel, lambda: both, out, {"OP": op, "BLOCK": 512}, rule=rule or Exact()))

    for dtype in TYPES:
        both = _pair(dtype)
        for op in ("add", "sub", "mul", "and", "or", "xor", "maximum", "minimum", "invert"):
            add(op, op, both, dtype)
        if dtype.startswith("int"):
            add("abs", "abs", both, dtype)
            add("neg", "neg", both, dtype)
        for op in ("floordiv", "mod", "cdiv"):
            add(op, op, _divisible(dtype), dtype)
        for op in ("shl", "shr"):
            add(op, op, _shifts(dtype, True), dtype)
            add(
                f"{op} by the width or more",
                op,
                _shifts(dtype, False),
                dtype,
                Open("LLVM leaves a shift by the width or more open"),
            )
        found.append(Probe(f"{dtype} compare", compare_kernel, lambda both=both: both, [("int8", (512,))], {"BLOCK": 512}))
    for dtype in ("int32", "uint32", "int64", "uint64"):
        add("umulhi", "umulhi", _pair(dtype), dtype)
    flags = integers("int32", np.array([0, 0, 1, 1] * 4)), integers("int32", np.array([0, 1, 0, 1] * 4))
    for op in ("add", "sub", "mul", "invert", "neg", "add 1", "add int8", "times 2.5", "sum", "less", "xor", "logical"):
        found.append(Probe(f"bool {op}", bool_kernel, lambda: flags, [("fp32", (16,))], {"OP": op, "BLOCK": 16}))
    for dtype in ("int8", "uint8", "int16", "int32"):
        bits = Bits(dtype, _pair(dtype)[0].data[-64:])
        found.append(
            Probe(f"{dtype} with constants", constants_kernel, lambda bits=bits: [bits], [("int64", (256,))], {"BLOCK": 64})
        )
    return found
