"""Everything that moves elements without arithmetic, and random numbers."""

import numpy as np
import triton
import triton.language as tl

from .bits import integers, random_bits
from .probe import Exact, Open, Probe, Ulp


@triton.jit
def shape_kernel(x_ptr, y_ptr, out_ptr, OP: tl.constexpr):
    """x, y [16, 8] -> whatever OP makes of them, flat."""
    at = tl.arange(0, 16)[:, None] * 8 + tl.arange(0, 8)[None, :]
    x = tl.load(x_ptr + at)
    y = tl.load(y_ptr + at)
    if OP == "join":
        r = tl.join(x, y)
    elif OP == "split":
        r, _ = tl.split(tl.reshape(x, (16, 4, 2)))
    elif OP == "split second":
        _, r = tl.split(tl.reshape(x, (16, 4, 2)))
    elif OP == "interleave":
        r = tl.interleave(x, y)
    elif OP == "flip 0":
        r = tl.flip(x, 0)
    elif OP == "flip 1":
        r = tl.flip(x, 1)
    elif OP == "trans":
        r = tl.trans(x)
    elif OP == "permute":
        r = tl.permute(tl.reshape(x, (4, 4, 8)), (2, 0, 1))
    elif OP == "reshape":
        r = tl.reshape(x, (4, 32))
    elif OP == "ravel":
        r = tl.ravel(x)
    elif OP == "expand and broadcast":
        r = tl.broadcast_to(tl.expand_dims(tl.sum(x, 1), 1), (16, 8))
    elif OP == "keep_dims":
        r = x - tl.max(x, axis=0, keep_dims=True)
    elif OP == "sum of all":
        r = tl.sum(x) + tl.zeros((1,), tl.int32)
    elif OP == "middle axis":
        r = tl.sum(tl.reshape(x, (4, 4, 8)), axis=1)
    elif OP == "gather":
        r = tl.gather(x, y & 7, 1)
    elif OP == "gather 0":
        r = tl.gather(x, y & 15, 0)
    elif OP == "cat":
        r = tl.sort(tl.cat(tl.ravel(x), tl.ravel(y), can_reorder=True))
    flat = tl.reshape(r, (r.numel,))
    tl.store(out_ptr + tl.arange(0, r.numel), flat)


@triton.jit
def histogram_kernel(x_ptr, out_ptr, BINS: tl.constexpr, MASKED: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    if MASKED:  # noqa: SIM108
        counts = tl.histogram(x, BINS, mask=at < 100)
    else:
        counts = tl.histogram(x, BINS)
    tl.store(out_ptr + tl.arange(0, BINS), counts)


@triton.jit
def random_kernel(out_ptr, seed, OP: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if OP == "rand":
        tl.store(out_ptr + at, tl.rand(seed, at))
    elif OP == "randint":
        tl.store(out_ptr + at, tl.randint(seed, at))
    elif OP == "randn":
        tl.store(out_ptr + at, tl.randn(seed, at))
    elif OP == "randint4x":
        a, b, c, d = tl.randint4x(seed, at)
        tl.store(out_ptr + 4 * at, a)
        tl.store(out_ptr + 4 * at + 1, b)
        tl.store(out_ptr + 4 * at + 2, c)
        tl.store(out_ptr + 4 * at + 3, d)


@triton.jit
def philox_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    a, b, c, d = tl.philox(0x123456789ABCDEF, x, x + 1, x * 3, x ^ 0x5555)
    tl.store(out_ptr + at, a ^ b)
    tl.store(out_ptr + BLOCK + at, c ^ d)


def probes() -> list[Probe]:
    x, y = (
        integers("int32", np.arange(128).reshape(16, 8)),
        integers("int32", np.random.default_rng(121).integers(0, 1000, (16, 8))),
    )
    sizes = {"join": 256, "split": 64, "split second": 64, "interleave": 256, "sum of all": 1, "middle axis": 32, "cat": 256}
    ops = ("join", "split", "split second", "interleave", "flip 0", "flip 1", "trans", "permute", "reshape", "ravel",
           "expand and broadcast",
           "keep_dims", "sum of all", "middle axis", "gather", "gather 0", "cat")  # fmt: skip
    found = [Probe(f"shape: {op}", shape_kernel, lambda: [x, y], [("int32", (sizes.get(op, 128),))], {"OP": op}) for op in ops]
    inside = integers("int32", np.random.default_rng(122).integers(0, 16, 128))
    beyond = integers("int32", np.random.default_rng(123).integers(-8, 24, 128))
    for name, bits, masked, rule in (
        ("", inside, False, Exact()),
        (" with a mask", inside, True, Exact()),
        (" with values outside", beyond, False, Open("a value outside the bins is undefined")),
    ):
        found.append(
            Probe(
                f"histogram{name}",
                histogram_kernel,
                lambda b=bits: [b],
                [("int32", (16,))],
                {"BINS": 16, "MASKED": masked, "BLOCK": 128},
                rule=rule,
            )
        )
    for op, kind, rule in (
        ("rand", "fp32", Exact()),
        ("randint", "int32", Exact()),
        ("randn", "fp32", Ulp(64, 2.0**-19)),
        ("randint4x", "int32", Exact()),
    ):
        size = 1024 if op == "randint4x" else 256
        for seed in (0, 12345):
            found.append(
                Probe(
                    f"{op} seed {seed}",
                    random_kernel,
                    list,
                    [(kind, (size,))],
                    {"OP": op, "BLOCK": 128},
                    (2,),
                    rule,
                    scalars=(seed,),
                )
            )
    found.append(
        Probe(
            "rand with a seed of 64 bits",
            random_kernel,
            list,
            [("fp32", (128,))],
            {"OP": "rand", "BLOCK": 128},
            scalars=(0x123456789ABCDEF,),
        )
    )
    found.append(
        Probe("philox", philox_kernel, lambda: [random_bits("uint32", (128,), 124)], [("uint32", (256,))], {"BLOCK": 128})
    )
    return found
