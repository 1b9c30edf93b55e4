"""tl.dot on tensor cores: exact where exact arithmetic needs no rounding, else a bound on the error for the magnitudes added."""

from collections.abc import Sequence

import numpy as np
import triton
import triton.language as tl

from .bits import FLOATS, Bits, small_integers, special_values, uniform, wide
from .probe import Exact, Probe, Rule, Within

M = N = 64


@triton.jit
def dot_kernel(
    a_ptr,
    b_ptr,
    out_ptr,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    BK: tl.constexpr,
    ACC: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """a [M, K], b [K, N], in steps of BK added to one accumulator."""
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    acc = tl.zeros((M, N), dtype=ACC)
    for start in range(0, K, BK):
        a = tl.load(a_ptr + m[:, None] * K + (start + k)[None, :])
        b = tl.load(b_ptr + (start + k)[:, None] * N + n[None, :])
        acc = tl.dot(a, b, acc, input_precision=PRECISION, out_dtype=ACC)
    tl.store(out_ptr + m[:, None] * N + n[None, :], acc)


@triton.jit
def promoted_kernel(
    a_ptr, b_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, BK: tl.constexpr, EVERY: tl.constexpr
):
    """fp8 with sums carried to float32 registers every EVERY products."""
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    acc = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, K, BK):
        a = tl.load(a_ptr + m[:, None] * K + (start + k)[None, :])
        b = tl.load(b_ptr + (start + k)[:, None] * N + n[None, :])
        acc = tl.dot(a, b, acc, max_num_imprecise_acc=EVERY)
    tl.store(out_ptr + m[:, None] * N + n[None, :], acc)


@triton.jit
def single_kernel(a_ptr, b_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """One dot without an accumulator."""
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :])
    b = tl.load(b_ptr + k[:, None] * N + n[None, :])
    tl.store(out_ptr + m[:, None] * N + n[None, :], tl.dot(a, b))


@triton.jit
def batched_kernel(a_ptr, b_ptr, out_ptr, G: tl.constexpr, M: tl.constexpr, K: tl.constexpr):
    """a, b [G, M, K] -> a b^T for each of G."""
    g, m, k = tl.arange(0, G), tl.arange(0, M), tl.arange(0, K)
    a = tl.load(a_ptr + g[:, None, None] * M * K + m[None, :, None] * K + k[None, None, :])
    b = tl.load(b_ptr + g[:, None, None] * M * K + m[None, :, None] * K + k[None, None, :])
    r = tl.dot(a, tl.permute(b, (0, 2, 1)))
    tl.store(out_ptr + g[:, None, None] * M * M + m[None, :, None] * M + m[None, None, :], r)


def exact(inputs: Sequence[Bits]) -> np.ndarray:
    a, b = (bits.values().astype(np.float64) for bits in inputs)
    with np.errstate(invalid="ignore"):
        return a @ b


def magnitudes(inputs: Sequence[Bits]) -> np.ndarray:
    a, b = (np.abs(bits.values().astype(np.float64)) for bits in inputs)
    return a @ b


# The share of the magnitudes by which two ways to add may differ, for K up to 1024 (the recorder prints the device's own).
# fp8: the tensor core keeps about 14 bits of a sum (DeepSeek-V3, arXiv 2412.19437, 3.3.2), which is 2**-10.5 measured here.
# tf32 is as near as fp16, because both sides cut the factors alike.
EPS = {
    "fp16": 2.0**-17,
    "bf16": 2.0**-17,
    "fp8e4nv": 2.0**-10,
    "fp8e5": 2.0**-10,
    "tf32": 2.0**-17,
    "tf32x3": 2.0**-17,
    "ieee": 2.0**-17,
    "acc16": 2.0**-5,
}


def probes() -> list[Probe]:
    found = []

    def add(
        name: str,
        dtype: str,
        inputs: tuple[Bits, Bits],
        out: str,
        rule: Rule,
        precision: str = "tf32",
        acc: tl.dtype = tl.float32,
        bk: int = 64,
    ) -> None:
        (m, k), n = inputs[0].data.shape, inputs[1].data.shape[1]
        meta = {"M": m, "N": n, "K": k, "BK": min(bk, k), "ACC": acc, "PRECISION": precision}
        found.append(Probe(f"dot {name}", dot_kernel, lambda: inputs, [(out, (m, n))], meta, rule=rule, truth=exact))

    for dtype in ("fp16", "bf16", "fp8e4nv", "fp8e5", "int8", "fp32"):
        acc, out = (tl.int32, "int32") if dtype == "int8" else (tl.float32, "fp32")
        for k in (64, 256):
            whole = small_integers(dtype, (M, k), 101, 2), small_integers(dtype, (k, N), 102, 2)
            add(f"{dtype} K={k}, whole numbers", dtype, whole, out, Exact(), acc=acc)
        if dtype == "int8":
            full = tuple(
                Bits(dtype, np.random.default_rng(seed).integers(0, 256, shape, np.uint8))
                for seed, shape in ((103, (M, 1024)), (104, (1024, N)))
            )
            add("int8 K=1024, every code", dtype, full, out, Exact(), acc=acc)
            continue
        for precision in ("tf32", "tf32x3", "ieee") if dtype == "fp32" else ("tf32",):
            kind = precision if dtype == "fp32" else dtype
            for k in (64, 256, 1024):
                steps = {"fp32": 22, "fp16": 10, "bf16": 7}.get(dtype)
                pair = [
                    uniform(dtype, shape, seed, steps) if steps else wide(dtype, shape, seed, 2)
                    for shape, seed in (((M, k), 105), ((k, N), 106))
                ]
                add(f"{kind} K={k}, near", dtype, tuple(pair), out, Within(EPS[kind], magnitudes), precision)
                pair = [wide(dtype, shape, seed, 6) for shape, seed in (((M, k), 107), ((k, N), 108))]
                add(f"{kind} K={k}, wide", dtype, tuple(pair), out, Within(EPS[kind], magnitudes), precision)
    for k in (64, 1024):
        near = uniform("fp16", (M, k), 109, 10), uniform("fp16", (k, N), 110, 10)
        add(f"fp16 into fp16, K={k}", "fp16", near, "fp16", Within(EPS["acc16"], magnitudes), acc=tl.float16)
    add(
        "fp16 into fp16, whole numbers",
        "fp16",
        (small_integers("fp16", (M, 128), 111, 2), small_integers("fp16", (128, N), 112, 2)),
        "fp16",
        Exact(),
        acc=tl.float16,
    )
    return found + _products() + _unusual()


def _products() -> list[Probe]:
    """One product each, beside zeros: is a product rounded, are subnormals kept, what do inf and NaN do?"""
    found = []
    for dtype in ("fp16", "bf16", "fp32"):
        column = special_values(dtype).data
        a, b = np.zeros((32, 16), column.dtype), np.zeros((16, 32), column.dtype)
        a[:, 3], b[3, :] = column, column
        meta = {"M": 32, "N": 32, "K": 16, "BK": 16, "ACC": tl.float32}
        for precision in ("tf32", "ieee") if dtype == "fp32" else ("tf32",):
            name = f"dot {dtype if dtype != 'fp32' else precision}, special values"
            found.append(
                Probe(
                    name,
                    dot_kernel,
                    lambda a=a, b=b, d=dtype: [Bits(d, a), Bits(d, b)],
                    [("fp32", (32, 32))],
                    meta | {"PRECISION": precision},
                )
            )
    for dtype in ("fp8e4nv", "fp8e5"):
        a, b = np.zeros((256, 32), np.uint8), np.zeros((32, 64), np.uint8)
        a[:, 5], b[5, :] = np.arange(256), np.arange(64) * 4 + 3
        meta = {"M": 256, "N": 64, "K": 32, "BK": 32, "ACC": tl.float32, "PRECISION": "tf32"}
        found.append(
            Probe(
                f"dot {dtype}, every code",
                dot_kernel,
                lambda a=a, b=b, d=dtype: [Bits(d, a), Bits(d, b)],
                [("fp32", (256, 64))],
                meta,
                rule=Within(2.0**-12, _single),
            )
        )
    return found


def _single(inputs: Sequence[Bits]) -> np.ndarray:
    a, b = (np.nan_to_num(np.abs(bits.values()), posinf=0.0) for bits in inputs)
    return a @ b


def _unusual() -> list[Probe]:
    found = []
    for dtype in ("fp8e4nv", "fp8e5"):
        pair = wide(dtype, (M, 512), 113, 2), wide(dtype, (512, N), 114, 2)
        for every in (0, 32, 128):
            meta = {"M": M, "N": N, "K": 512, "BK": 128, "EVERY": every}
            found.append(
                Probe(
                    f"dot {dtype} carried every {every}",
                    promoted_kernel,
                    lambda p=pair: p,
                    [("fp32", (M, N))],
                    meta,
                    rule=Within(EPS[dtype], magnitudes),
                    truth=exact,
                )
            )
    for dtype, shape in (
        ("fp16", (16, 16, 16)),
        ("bf16", (16, 8, 16)),
        ("fp16", (128, 32, 16)),
        ("fp8e4nv", (16, 16, 32)),
        ("int8", (16, 16, 32)),
        ("fp32", (16, 16, 16)),
    ):
        m, n, k = shape
        out = "fp32" if dtype in FLOATS else "int32"
        pair = small_integers(dtype, (m, k), 115, 2), small_integers(dtype, (k, n), 116, 2)
        found.append(
            Probe(
                f"dot {dtype} {m}x{n}x{k}, no accumulator",
                single_kernel,
                lambda p=pair: p,
                [(out, (m, n))],
                {"M": m, "N": n, "K": k},
            )
        )
    pair = small_integers("fp16", (4, 16, 16), 117, 2), small_integers("fp16", (4, 16, 16), 118, 2)
    mixed = small_integers("fp8e4nv", (M, 64), 119, 2), small_integers("fp8e5", (64, N), 120, 2)
    found.append(Probe("dot fp8e4nv with fp8e5", single_kernel, lambda: mixed, [("fp32", (M, N))], {"M": M, "N": N, "K": 64}))
    found.append(Probe("dot of a batch", batched_kernel, lambda: pair, [("fp32", (4, 16, 16))], {"G": 4, "M": 16, "K": 16}))
    return found
