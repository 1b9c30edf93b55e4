"""Casts: every code of the 16-bit types, every edge of the narrow ones, and what does not fit."""

from collections.abc import Sequence

import numpy as np
import triton
import triton.language as tl

from .bits import Bits, all_codes, fp32_edges, integers, random_bits
from .probe import Exact, Probe, Rule


@triton.jit
def cast_kernel(x_ptr, out_ptr, ROUND: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    if ROUND == "":  # noqa: SIM108
        y = x.to(out_ptr.dtype.element_ty)
    else:
        y = x.to(out_ptr.dtype.element_ty, fp_downcast_rounding=ROUND)
    tl.store(out_ptr + at, y)


@triton.jit
def store_cast_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """tl.store converts what it stores to the pointer's type."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at))


@triton.jit
def to_bool_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at).to(tl.int1).to(tl.int8))


@triton.jit
def through_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """fp32 -> bf16 -> fp32, in registers: nothing may skip the rounding."""
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at).to(tl.bfloat16).to(tl.float32))


def hard_integers(dtype: str) -> Bits:
    """[512]: the ends of the type, whole numbers around every power of two, ties of bf16 and fp16, and random ones."""
    bits, signed = int(dtype.lstrip("uint")), dtype.startswith("int")
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    near = {low, low + 1, high, high - 1, 0, 1}
    for power in range(bits):
        around = [1 << power, (1 << power) + (1 << max(power - 8, 0)), (1 << power) + (1 << max(power - 11, 0)), 3 << power]
        # one more than a tie of bf16 that float32 cannot hold: rounding twice goes astray
        around.append((1 << power) + (1 << max(power - 8, 0)) + (1 << max(power - 25, 0)))
        near |= {sign * (number + step) for number in around for step in (-1, 0, 1) for sign in (1, -1)}
    fit = np.array(sorted(number for number in near if low <= number <= high)[:512], dtype)
    rest = random_bits(dtype, (max(0, 512 - len(fit)),), 17).data.view(dtype)
    return integers(dtype, np.concatenate([fit, rest])[:512])


def floats_for_integers(dtype: str) -> Bits:
    """[256] in range of every integer type's edges, between and beyond: fractions, ends, inf, NaN, large."""
    ends = [2.0**p for p in (7, 8, 15, 16, 31, 32, 63, 64)]
    values = [0.0, -0.0, 0.5, 0.999, 1.5, 2.5, 100.7, 126.9, 127.0, 300.7, 1e4, 3e4, 1e9, 3e38, np.inf, np.nan, 1e-40]
    for end in ends:
        values += [
            end,
            np.nextafter(np.float32(end), np.float32(0)),
            np.nextafter(np.float32(end), np.float32(np.inf)),
            end - 0.5,
        ]
    both = np.array(values + [-v for v in values], np.float32)
    both = np.concatenate([both, np.full(128 - len(both), 7.0, np.float32)])
    if dtype == "fp32":
        random = random_bits("fp32", (128,), 23).data
        return Bits("fp32", np.concatenate([both.view(np.uint32), random]))
    with np.errstate(over="ignore"):
        narrow = both.astype(np.float16).view(np.uint16) if dtype == "fp16" else (both.view(np.uint32) >> 16).astype(np.uint16)
    return Bits(dtype, np.concatenate([narrow, random_bits(dtype, (128,), 23).data]))


def _finite(inputs: Sequence[Bits]) -> np.ndarray:
    return np.isfinite(inputs[0].values())


def _undisturbed(inputs: Sequence[Bits]) -> np.ndarray:
    """Elements of a cast to uint8 that are first of the two in one store, or whose left neighbour fits (see `_RULES`)."""
    values = inputs[0].values().ravel()
    left_is_large = np.append(False, values[:-1] >= 256)
    return (np.arange(values.size) % 2 == 0) | ~left_is_large


_SPILLS = (
    "a number of 256 or more has no uint8; Triton 3.6 and 3.7 convert it to 16 bits and `or` the upper half over the next "
    "element where one thread holds both, which depends on the layout"
)
_RULES: dict[tuple[str, str], Rule] = {
    ("fp8e5", "bf16"): Exact(
        _finite,
        "Triton 3.6 and 3.7 shift the code and multiply by a power of two, so inf comes out as 65536 and NaN as 81920 and more: "
        "a fault of the compiler, not copied",
    ),
    **{(source, "uint8"): Exact(_undisturbed, _SPILLS) for source in ("fp32", "fp16", "bf16")},
}


def _probe(source: str, to: str, inputs: Bits, rounding: str = "", kernel: object = cast_kernel) -> Probe:
    n = inputs.data.size
    block = min(n, 4096)
    meta = {"BLOCK": block} | ({"ROUND": rounding} if kernel is cast_kernel else {})
    name = f"cast {source} to {to}" + (f" {rounding}" if rounding else "") + ("" if kernel is cast_kernel else " by store")
    return Probe(name, kernel, lambda: [inputs], [(to, (n,))], meta, (n // block,), _RULES.get((source, to), Exact()))


def probes() -> list[Probe]:
    sources = {"fp32": fp32_edges(), "fp16": all_codes("fp16"), "bf16": all_codes("bf16")}
    found = []
    for source, bits in sources.items():
        for to in ("fp8e4nv", "fp8e5", "bf16", "fp16"):
            if source != to:
                found.append(_probe(source, to, bits))
    found += [_probe("fp32", to, sources["fp32"], "rtz") for to in ("bf16", "fp16", "fp8e5")]
    found += [_probe("fp32", to, sources["fp32"], kernel=store_cast_kernel) for to in ("bf16", "fp16", "fp8e4nv", "fp8e5")]
    for source in ("fp8e4nv", "fp8e5"):
        found += [_probe(source, to, all_codes(source)) for to in ("fp32", "fp16", "bf16")]
    for to in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"):
        for source in ("fp32", "fp16", "bf16"):
            found.append(_probe(source, to, floats_for_integers(source)))
        found += [_probe(to, source, hard_integers(to)) for source in ("bf16", "fp16", "fp32")]
    found += [_probe(source, to, hard_integers(source)) for source, to in
              (("int64", "int8"), ("int32", "int16"), ("int8", "int32"), ("uint8", "int32"),
               ("int16", "uint64"), ("uint64", "int32"))]  # fmt: skip
    found += [_probe("fp64", to, random_bits("fp64", (512,), 29)) for to in ("fp32",)]
    for source in ("fp32", "fp16", "bf16"):
        bits = floats_for_integers(source)
        found.append(
            Probe(f"cast {source} to int1", to_bool_kernel, lambda bits=bits: [bits], [("int8", (256,))], {"BLOCK": 256})
        )
    found.append(Probe("fp32 through bf16", through_kernel, lambda: [fp32_edges()], [("fp32", (8192,))], {"BLOCK": 8192}))
    return found
