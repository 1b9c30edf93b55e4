"""Atomics: what they leave in memory, what they return, and what a mask changes."""

import numpy as np
import triton
import triton.language as tl

from .bits import Bits, floats, integers, random_bits, special_values
from .probe import Exact, Probe


@triton.jit
def atomic_kernel(x_ptr, place_ptr, memory_ptr, old_ptr, OP: tl.constexpr, LIVE: tl.constexpr, BLOCK: tl.constexpr):
    """Lanes from LIVE on are masked off; old values are stored for the others only."""
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    place = tl.load(place_ptr + at)
    live = at < LIVE
    if OP == "add":
        old = tl.atomic_add(memory_ptr + place, x, mask=live)
    elif OP == "max":
        old = tl.atomic_max(memory_ptr + place, x, mask=live)
    elif OP == "min":
        old = tl.atomic_min(memory_ptr + place, x, mask=live)
    elif OP == "and":
        old = tl.atomic_and(memory_ptr + place, x, mask=live)
    elif OP == "or":
        old = tl.atomic_or(memory_ptr + place, x, mask=live)
    elif OP == "xor":
        old = tl.atomic_xor(memory_ptr + place, x, mask=live)
    elif OP == "xchg":
        old = tl.atomic_xchg(memory_ptr + place, x, mask=live)
    tl.store(old_ptr + at, old, mask=live)


@triton.jit
def cas_kernel(expected_ptr, x_ptr, memory_ptr, old_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(old_ptr + at, tl.atomic_cas(memory_ptr + at, tl.load(expected_ptr + at), tl.load(x_ptr + at)))


@triton.jit
def contended_kernel(x_ptr, place_ptr, memory_ptr, OP: tl.constexpr, BLOCK: tl.constexpr):
    """Several lanes and several programs meet at one address."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if OP == "add":
        tl.atomic_add(memory_ptr + tl.load(place_ptr + at), tl.load(x_ptr + at))
    elif OP == "max":
        tl.atomic_max(memory_ptr + tl.load(place_ptr + at), tl.load(x_ptr + at))
    elif OP == "min":
        tl.atomic_min(memory_ptr + tl.load(place_ptr + at), tl.load(x_ptr + at))


@triton.jit
def scalar_kernel(memory_ptr, old_ptr):
    """Each program takes a ticket."""
    tl.store(old_ptr + tl.program_id(0), tl.atomic_add(memory_ptr, 1))


def probes() -> list[Probe]:
    found = []
    own = integers("int32", np.random.default_rng(91).permutation(64))
    shared = integers("int32", np.random.default_rng(92).integers(0, 16, 512))
    for dtype, ops in {
        "fp32": ("add", "max", "min", "xchg"), "fp16": ("add",), "bf16": ("add",),
        "int32": ("add", "max", "min", "and", "or", "xor", "xchg"),
        "uint32": ("add", "max", "min", "and", "or", "xor", "xchg"), "int64": ("add", "max", "min", "xchg"), "fp64": ("add",),
    }.items():  # fmt: skip
        kind = dtype[0] == "f" or dtype == "bf16"
        whole = np.random.default_rng(93).integers(-30 if dtype[0] != "u" else 0, 30, (2, 64))
        values, memory = ((floats if kind else integers)(dtype, part) for part in whole)
        for op in ops:
            outputs = [memory, (dtype, (64,))]
            for live in (64, 41):
                name = f"atomic_{op} {dtype}" + ("" if live == 64 else " with a mask")
                found.append(
                    Probe(name, atomic_kernel, lambda v=values: [v, own], outputs, {"OP": op, "LIVE": live, "BLOCK": 64})
                )
        many = np.random.default_rng(94).integers(-2 if dtype[0] != "u" else 0, 3, 512)
        start = (floats if kind else integers)(dtype, np.zeros(16))
        x = (floats if kind else integers)(dtype, many)
        for op in ops:
            if op in ("add", "max", "min"):
                found.append(
                    Probe(
                        f"atomic_{op} {dtype}, contended",
                        contended_kernel,
                        lambda x=x: [x, shared],
                        [start],
                        {"OP": op, "BLOCK": 128},
                        (4,),
                    )
                )
    special = special_values("fp32").data
    number = special[~np.isnan(Bits("fp32", special).values())]
    x, memory = (
        Bits("fp32", np.concatenate([np.repeat(number[::3], 6)[:56], number[:8]])),
        Bits("fp32", np.concatenate([np.tile(number[::5], 12)[:56], number[8:16]])),
    )
    nan = Bits("fp32", np.tile(special[[14, 15, 30, 31, 0, 6, 16, 22]], 8))
    for op in ("max", "min"):  # they go through integers, where -0 < +0 and a NaN lies beyond inf of its sign
        meta = {"OP": op, "LIVE": 64, "BLOCK": 64}
        found.append(
            Probe(
                f"atomic_{op} fp32 special values",
                atomic_kernel,
                lambda x=x: [x, own],
                [memory, ("fp32", (64,))],
                meta,
                rule=Exact(),
            )
        )
        found.append(
            Probe(
                f"atomic_{op} fp32 with NaN",
                atomic_kernel,
                lambda: [nan, own],
                [Bits("fp32", np.sort(nan.data)), ("fp32", (64,))],
                meta,
            )
        )
    # rounding of a 16-bit sum that does not fit: one step, to nearest even
    for dtype in ("fp16", "bf16"):
        a, b = Bits(dtype, random_bits(dtype, (64,), 95).data & 0xBFFF), Bits(dtype, random_bits(dtype, (64,), 96).data & 0xBFFF)
        found.append(
            Probe(
                f"atomic_add {dtype} rounds",
                atomic_kernel,
                lambda a=a: [a, own],
                [b, (dtype, (64,))],
                {"OP": "add", "LIVE": 64, "BLOCK": 64},
            )
        )
    for dtype in ("int32", "int64", "uint32"):
        memory, expected, new = (integers(dtype, np.random.default_rng(seed).integers(0, 3, 64)) for seed in (97, 98, 99))
        found.append(
            Probe(f"atomic_cas {dtype}", cas_kernel, lambda e=expected, n=new: [e, n], [memory, (dtype, (64,))], {"BLOCK": 64})
        )
    found.append(Probe("atomic_add of one program", scalar_kernel, list, [integers("int32", [5]), ("int32", (1,))]))
    return found
