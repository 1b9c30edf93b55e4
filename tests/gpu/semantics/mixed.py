"""Which type an expression of two types gets, and what a Python number becomes beside a block."""

from collections.abc import Sequence

import numpy as np
import triton
import triton.language as tl

from .bits import Bits, integers, uniform, wide
from .probe import Exact, Probe, Rule, Within


@triton.jit
def mixed_kernel(x_ptr, y_ptr, out_ptr, scalar, OP: tl.constexpr, BLOCK: tl.constexpr):
    """Which type an expression gets: out is float64, which shows every digit of it."""
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    y = tl.load(y_ptr + at)
    if OP == "block + block":
        r = x + y
    elif OP == "block / block":
        r = x / y
    elif OP == "block + 0.1":
        r = x + 0.1
    elif OP == "block * 3":
        r = x * 3
    elif OP == "block + scalar":
        r = x + scalar
    elif OP == "scalar / block":
        r = scalar / x
    elif OP == "where 0.1":
        r = tl.where(y > 0, x, 0.1)
    elif OP == "maximum 0.1":
        r = tl.maximum(x, 0.1)
    tl.store(out_ptr + at, r.to(tl.float64))


def probes() -> list[Probe]:
    numbers = {
        "int32": integers("int32", np.arange(1, 65) * 4099), "int8": integers("int8", np.arange(-40, 88)[::2]),
        "uint8": integers("uint8", np.arange(1, 65)),
        "fp32": uniform("fp32", (64,), 51, 20), "fp16": uniform("fp16", (64,), 52, 10), "bf16": uniform("bf16", (64,), 53, 7),
        "fp8e4nv": wide("fp8e4nv", (64,), 54, 3), "fp8e5": wide("fp8e5", (64,), 55, 3),
    }  # fmt: skip
    found = []
    for left, right in (
        ("bf16", "fp16"),
        ("bf16", "fp32"),
        ("fp16", "fp32"),
        ("bf16", "int32"),
        ("fp16", "int32"),
        ("int8", "fp16"),
        ("int8", "int32"),
        ("uint8", "int8"),
        ("fp8e4nv", "bf16"),
        ("fp8e5", "fp16"),
        ("fp8e4nv", "fp32"),
        ("fp8e4nv", "fp8e5"),
    ):
        for op in ("block + block",):
            found.append(_mix(f"{left} {op} {right}", op, numbers[left], numbers[right]))
    found += [
        _mix(f"{left} block / block {right}", "block / block", numbers[left], numbers[right], Within(2.0**-22, _quotient))
        for left, right in (("int32", "int32"), ("bf16", "int32"))  # div.full.f32: 2 ulp of float32
    ]
    for dtype in ("bf16", "fp16", "fp32", "int32"):
        for op in ("block + 0.1", "block * 3", "block + scalar", "where 0.1", "maximum 0.1"):
            found.append(_mix(f"{dtype} {op}", op, numbers[dtype], numbers["fp32"]))
        found.append(_mix(f"{dtype} scalar / block", "scalar / block", numbers[dtype], numbers["fp32"], Within(2.0**-20, _one)))
    found.append(_mix("bf16 block + integer scalar", "block + scalar", numbers["bf16"], numbers["fp32"], scalar=257))
    return found


def _one(inputs: Sequence[Bits]) -> np.ndarray:
    return np.abs(0.7 / np.where(inputs[0].values() == 0, 1, inputs[0].values()))


def _quotient(inputs: Sequence[Bits]) -> np.ndarray:
    x, y = (bits.values().astype(np.float64) for bits in inputs)
    return np.abs(x / y)


def _mix(name: str, op: str, x: Bits, y: Bits, rule: Rule | None = None, scalar: float | int = 0.7) -> Probe:
    return Probe(
        "mixed: " + name,
        mixed_kernel,
        lambda: [x, y],
        [("fp64", (64,))],
        {"OP": op, "BLOCK": 64},
        rule=rule or Exact(),
        scalars=(scalar,),
    )
