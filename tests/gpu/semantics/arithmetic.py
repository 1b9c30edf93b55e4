"""Arithmetic on floats: each operation alone, on special values too, in fp32, fp16 and bf16; and the fast functions."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import triton
import triton.language as tl

from .bits import Bits, all_codes, floats, pairs, random_bits, uniform, wide
from .probe import Exact, Probe, Rule, Ulp, Within


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
    elif OP == "div":
        r = x / y
    elif OP == "mod":
        r = x % y
    elif OP == "maximum":
        r = tl.maximum(x, y)
    elif OP == "minimum":
        r = tl.minimum(x, y)
    elif OP == "maximum all":
        r = tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)
    elif OP == "minimum all":
        r = tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL)
    elif OP == "where greater":
        r = tl.where(x > y, x, y)
    elif OP == "clamp":
        r = tl.clamp(x, tl.zeros_like(x), tl.abs(y))
    elif OP == "clamp all":
        r = tl.clamp(x, tl.zeros_like(x), tl.abs(y), propagate_nan=tl.PropagateNan.ALL)
    elif OP == "neg":
        r = -x
    elif OP == "abs":
        r = tl.abs(x)
    elif OP == "fma":
        r = tl.fma(x, y, y)
    elif OP == "mul then add":
        r = x * y + y
    elif OP == "fdiv":
        r = tl.fdiv(x, y)
    elif OP == "div_rn":
        r = tl.div_rn(x, y)
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
def unary_kernel(x_ptr, out_ptr, OP: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    if OP == "exp":
        r = tl.exp(x)
    elif OP == "exp2":
        r = tl.exp2(x)
    elif OP == "log":
        r = tl.log(x)
    elif OP == "log2":
        r = tl.log2(x)
    elif OP == "sqrt":
        r = tl.sqrt(x)
    elif OP == "sqrt_rn":
        r = tl.sqrt_rn(x)
    elif OP == "rsqrt":
        r = tl.rsqrt(x)
    elif OP == "sin":
        r = tl.sin(x)
    elif OP == "cos":
        r = tl.cos(x)
    elif OP == "erf":
        r = tl.erf(x)
    elif OP == "floor":
        r = tl.floor(x)
    elif OP == "ceil":
        r = tl.ceil(x)
    elif OP == "sigmoid":
        r = tl.sigmoid(x)
    tl.store(out_ptr + at, r)


def _exactly(function: Callable) -> Callable[[Sequence[Bits]], np.ndarray]:
    def truth(inputs: Sequence[Bits]) -> np.ndarray:
        with np.errstate(all="ignore"):
            return function(*(bits.values() for bits in inputs))

    return truth


# Bounds of the instructions (PTX ISA: ex2 and lg2 2 ulp, sqrt.approx 1, div.full 2) and of CUDA's functions (sin, cos 2 ulp in
# the math API's table), with what the other side may be off from the truth added. exp is 2 ** (x log2 e) with the product in
# float32 on both sides, so what it is off from the truth (54 ulp at x = 60) is no difference between them.
_MATH: dict[str, tuple[Callable, Rule]] = {
    "exp": (np.exp, Ulp(4, 2.0**-126)),
    "exp2": (np.exp2, Ulp(3, 2.0**-126)),
    "log": (np.log, Ulp(4, 2.0**-22)),
    "log2": (np.log2, Ulp(3, 2.0**-22)),
    "sqrt": (np.sqrt, Ulp(2)),
    "sqrt_rn": (np.sqrt, Exact()),
    "rsqrt": (lambda x: 1 / np.sqrt(x), Ulp(3)),
    "sin": (np.sin, Ulp(3, 2.0**-24)),
    "cos": (np.cos, Ulp(3, 2.0**-24)),
    "erf": (np.vectorize(math.erf, otypes=[float]), Ulp(3)),
    "floor": (np.floor, Exact()),
    "ceil": (np.ceil, Exact()),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), Ulp(6, 2.0**-126)),
}


def _arguments(name: str) -> Bits:
    """[512] over the range where the result is finite and not trivial, then [32] special values."""
    from .bits import special_values

    span = {"exp": 87, "exp2": 126, "sin": 40, "cos": 40, "erf": 4, "sigmoid": 30, "floor": 100, "ceil": 100}.get(name)
    if span:
        fine = uniform("fp32", (480,), 31, steps=16).values() * span
        fine = fine.astype(np.float32).astype(np.float64)
    else:
        fine = np.abs(wide("fp32", (480,), 31, 20).values())
    special = special_values("fp32")
    return Bits("fp32", np.concatenate([floats("fp32", fine).data, special.data]))


def _added(inputs: Sequence[Bits]) -> np.ndarray:
    """|x y| + |y|, what `mul then add` adds up."""
    x, y = (bits.values() for bits in inputs)
    with np.errstate(all="ignore"):
        return np.nan_to_num(np.abs(x * y) + np.abs(y), posinf=0.0)


def _tame(dtype: str) -> tuple[Bits, Bits]:
    """Without values whose product overflows on the way."""
    return wide(dtype, (2048,), 41, 5), wide(dtype, (2048,), 42, 5)


def probes() -> list[Probe]:
    found = []
    digits = {"fp32": 23, "fp16": 10, "bf16": 7}
    for dtype in digits:
        both = pairs(dtype, 40)
        meta = {"BLOCK": 2048}

        def add(op: str, rule: Rule, inputs: tuple[Bits, Bits] = both, dtype: str = dtype, truth: Callable | None = None) -> None:
            out = [(dtype, (2048,))]
            found.append(
                Probe(
                    f"{dtype} {op}",
                    binary_kernel,
                    lambda: inputs,
                    out,
                    {"OP": op.removesuffix(" of special values"), "BLOCK": 2048},
                    rule=rule,
                    truth=truth,
                )
            )

        for op in (
            "add",
            "sub",
            "mul",
            "maximum",
            "minimum",
            "maximum all",
            "minimum all",
            "where greater",
            "clamp",
            "clamp all",
            "neg",
            "abs",
            "fma",
        ):
            add(op, Exact())
        add("div", Exact() if dtype != "fp32" else Ulp(2, 2.0**-126), truth=_exactly(np.divide))
        # compiled code may contract x * y + y to one rounding; where it does not, the product is rounded first
        add("mul then add", Within(2.0 ** -digits[dtype], _added), _tame(dtype))
        add("mod", Exact(), _tame(dtype))
        add("mod of special values", Exact())
        found.append(Probe(f"{dtype} compare", compare_kernel, lambda both=both: both, [("int8", (2048,))], meta))
    for dtype in ("fp8e4nv", "fp8e5"):  # the compiler has no other arithmetic on fp8, not even a maximum
        codes = all_codes(dtype).data
        both = Bits(dtype, np.repeat(codes, 8)), Bits(dtype, np.tile(random_bits(dtype, (256,), 43).data, 8))
        out = [(dtype, (2048,))]
        found.append(Probe(f"{dtype} abs", binary_kernel, lambda both=both: both, out, {"OP": "abs", "BLOCK": 2048}))
    for op in ("fdiv", "div_rn"):
        out, rule = [("fp32", (2048,))], Exact() if op == "div_rn" else Ulp(2, 2.0**-126)
        found.append(
            Probe(
                f"fp32 {op}",
                binary_kernel,
                lambda: pairs("fp32", 40),
                out,
                {"OP": op, "BLOCK": 2048},
                rule=rule,
                truth=_exactly(np.divide),
            )
        )
    for op, unit in (("exp", np.log2(np.e)), ("exp2", 1.0)):
        # exp2 flushes a subnormal result, exp does not; one that is kept is right to 4 of its steps
        low = Bits("fp32", (-np.linspace(125.5, 152.0, 64) / unit).astype(np.float32).view(np.uint32))
        found.append(
            Probe(
                f"fp32 {op} into subnormals",
                unary_kernel,
                lambda low=low: [low],
                [("fp32", (64,))],
                {"OP": op, "BLOCK": 64},
                rule=Ulp(3, 2.0**-147),
            )
        )
    for op, (truth, rule) in _MATH.items():
        bits = _arguments(op)
        found.append(
            Probe(
                f"fp32 {op}",
                unary_kernel,
                lambda bits=bits: [bits],
                [("fp32", (512,))],
                {"OP": op, "BLOCK": 512},
                rule=rule,
                truth=_exactly(truth),
            )
        )
    return found
