"""Loads and stores: descriptors over an edge, masks and what stands in for a masked-off lane, copies and bitcasts."""

from collections.abc import Callable

import numpy as np
import triton
import triton.language as tl

from .bits import Bits, all_codes, random_bits, uniform
from .probe import Exact, Open, Probe, Rule


@triton.jit
def descriptor_kernel(x_ptr, out_ptr, rows, cols, PAD: tl.constexpr, B: tl.constexpr):
    """Tiles B x B from (-B/2, -B/2) on over [rows, cols]: partly before, partly behind the tensor.

    The device stops with an illegal instruction unless a tile starts at a multiple of 16 bytes in its row.
    """
    at = tl.arange(0, B)[:, None] * B + tl.arange(0, B)[None, :]
    source = tl.make_tensor_descriptor(x_ptr, [rows, cols], [cols, 1], [B, B], padding_option=PAD)
    place = 0
    for i in range(-1, 4, 2):
        for j in range(-1, 4, 2):
            tile = source.load([i * (B // 2), j * (B // 2)])
            tl.store(out_ptr + place * B * B + at, tile)
            place += 1


@triton.jit
def descriptor_store_kernel(x_ptr, out_ptr, rows, cols, OP: tl.constexpr, B: tl.constexpr):
    """Tiles that hang over the far edges: what lies outside is not written. They start at 16 bytes in their row, as above.

    A tile that is written may not start before the tensor: the device stops with an illegal instruction.
    """
    at = tl.arange(0, B)[:, None] * B + tl.arange(0, B)[None, :]
    x = tl.load(x_ptr + at)
    target = tl.make_tensor_descriptor(out_ptr, [rows, cols], [cols, 1], [B, B])
    if OP == "store":
        target.store([rows - 5, cols - 4], x)
        target.store([9, cols - 12], x)
        target.store([rows - 3, 8], x)
    elif OP == "add":
        target.atomic_add([rows - 5, cols - 4], x)


@triton.jit
def masked_kernel(x_ptr, out_ptr, OP: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    live = at < 21
    if OP == "other 0.1":
        r = tl.load(x_ptr + at, mask=live, other=0.1)
    elif OP == "other -inf":
        r = tl.load(x_ptr + at, mask=live, other=float("-inf"))
    elif OP == "other 3":
        r = tl.load(x_ptr + at, mask=live, other=3)
    elif OP == "no other":
        r = tl.load(x_ptr + at, mask=live)
    elif OP == "other block":
        r = tl.load(x_ptr + at, mask=live, other=at)
    if OP == "stored":
        tl.store(out_ptr + at, tl.load(x_ptr + at), mask=live)
    else:
        tl.store(out_ptr + at, r)


@triton.jit
def copy_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at))


@triton.jit
def bitcast_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at).to(out_ptr.dtype.element_ty, bitcast=True))


def probes() -> list[Probe]:
    found = []
    for dtype in ("fp32", "fp16", "bf16", "fp8e5", "int32"):
        x = random_bits(dtype, (40, 48), 125) if dtype in ("int32", "fp8e5") else uniform(dtype, (40, 48), 125, 7)
        for pad in ("zero", "nan") if dtype in ("fp32", "fp16", "bf16") else ("zero",):
            b = 32 if dtype == "fp8e5" else 16
            name, meta = f"descriptor {dtype}, padding {pad}", {"PAD": pad, "B": b}
            found.append(_descriptor(name, descriptor_kernel, x, (dtype, (9, b, b)), meta))
    tile = uniform("fp32", (16, 16), 126, 7)
    for op in ("store", "add"):
        start = Bits("fp32", np.zeros((40, 48), np.uint32)) if op == "add" else ("fp32", (40, 48))
        found.append(_descriptor(f"descriptor {op}", descriptor_store_kernel, tile, start, {"OP": op, "B": 16}))
    for dtype in ("fp32", "fp16", "bf16", "int32"):
        bits = uniform(dtype, (32,), 127, 7) if dtype != "int32" else random_bits(dtype, (32,), 127)
        for op in ("other 0.1", "other -inf", "other 3", "other block", "stored", "no other"):
            if dtype == "int32" and op in ("other 0.1", "other -inf"):
                continue
            rule: Rule = Open("without other= a masked-off lane has no value") if op == "no other" else Exact()
            found.append(
                Probe(
                    f"masked load {dtype}, {op}",
                    masked_kernel,
                    lambda b=bits: [b],
                    [(dtype, (32,))],
                    {"OP": op, "BLOCK": 32},
                    rule=rule,
                )
            )
    for dtype in ("fp16", "bf16", "fp8e4nv", "fp8e5"):
        bits = all_codes(dtype)
        found.append(
            Probe(
                f"copy of every {dtype}", copy_kernel, lambda b=bits: [b], [(dtype, bits.data.shape)], {"BLOCK": bits.data.size}
            )
        )
    for source, to in (
        ("fp32", "int32"),
        ("int16", "bf16"),
        ("bf16", "uint16"),
        ("uint8", "fp8e4nv"),
        ("fp8e5", "int8"),
        ("int64", "fp64"),
    ):
        bits = random_bits(source, (256,), 129)
        found.append(Probe(f"bitcast {source} to {to}", bitcast_kernel, lambda b=bits: [b], [(to, (256,))], {"BLOCK": 256}))
    return found


def _descriptor(name: str, kernel: Callable, x: Bits, out: object, meta: dict) -> Probe:
    return Probe(name, kernel, lambda: [x], [out], meta, scalars=(40, 48))
