"""tl.dot: products exact, sums in the accumulator's type, each input precision as the compiler splits it."""

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given
from hypothesis import strategies as st

from course_lib.interpreter import KernelMistake, switch
from course_lib.interpreter.numbers.rounding import cut_to_tf32, tf32

from .numbers_helpers import MODEST, TORCH, empty, interpreted, random_floats, rounded, seeds, tensor, values

__all__ = ["interpreted"]


@triton.jit
def dot_kernel(a, b, c, out, PRECISION: tl.constexpr, OUT: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    left = tl.load(a + m[:, None] * K + k[None, :])
    right = tl.load(b + k[:, None] * N + n[None, :])
    if c is None:
        result = tl.dot(left, right, input_precision=PRECISION, out_dtype=OUT)
    else:
        acc = tl.load(c + m[:, None] * N + n[None, :])
        result = tl.dot(left, right, acc=acc, input_precision=PRECISION, out_dtype=OUT)
    tl.store(out + m[:, None] * N + n[None, :], result)


def dot(a, b, name, acc=None, precision=None, out_dtype=tl.float32, out="fp32"):
    m, k, n = *a.shape, b.shape[1]
    result = empty((m, n), out)
    c = None if acc is None else tensor(acc, out)
    dot_kernel[(1,)](tensor(a, name), tensor(b, name), c, result, precision, out_dtype, m, n, k)
    return values(result, out)


def near(got, a, b, acc=0.0, unit=2.0**-23):
    """k products and sums, each rounded once in the accumulator's type: (k + 1) halves of a unit of the sum of magnitudes."""
    exact = a @ b + acc
    size = np.abs(a) @ np.abs(b) + np.abs(acc)
    worst = (np.abs(got - exact) / (size * unit * (a.shape[1] + 1) / 2 + 1e-300)).max()
    assert worst <= 1, f"{worst:.2f} times the error that {a.shape[1]} rounded sums can have"


sides = st.sampled_from([16, 32])


@given(name=st.sampled_from(["bf16", "fp16", "fp8e4nv", "fp8e5"]), m=sides, n=sides, k=st.sampled_from([32, 64]), seed=seeds,
       accumulate=st.booleans())  # fmt: skip
@MODEST
def test_narrow_floats_are_multiplied_exactly_and_added_in_float32(name, m, n, k, seed, accumulate):
    rng = np.random.default_rng(seed)
    a = random_floats(rng, m * k, name, special=False, spread=1).reshape(m, k)
    b = random_floats(rng, k * n, name, special=False, spread=1).reshape(k, n)
    acc = rounded(rng.standard_normal((m, n)) * 10, "fp32") if accumulate else None
    near(dot(a, b, name, acc), a, b, 0.0 if acc is None else acc)


def test_a_wrong_product_is_seen():
    a = np.eye(16, 32) + 2.0**-9
    with pytest.raises(AssertionError, match="times the error"):
        near(rounded(a @ a.T, "bf16"), a, a.T)


@pytest.mark.parametrize("name", ["fp32", "fp64"])
def test_float32_and_float64_in_full_precision(name):
    rng = np.random.default_rng(1)
    a, b = rounded(rng.standard_normal((16, 32)), name), rounded(rng.standard_normal((32, 16)), name)
    out, kind = ("fp64", tl.float64) if name == "fp64" else ("fp32", tl.float32)
    got = dot(a, b, name, precision="ieee", out_dtype=kind, out=out)
    near(got, a, b, unit=2.0**-52 if name == "fp64" else 2.0**-23)


def test_tf32_keeps_ten_bits_of_each_factor():
    rng = np.random.default_rng(2)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((16, 64), (64, 16)))
    got = dot(a, b, "fp32")  # tf32 is the default
    near(got, cut_to_tf32(a).astype(np.float64), cut_to_tf32(b).astype(np.float64))
    with pytest.raises(AssertionError, match="times the error"):  # the tensor core cuts, it does not round
        near(got, tf32(a).astype(np.float64), tf32(b).astype(np.float64))
    with pytest.raises(AssertionError, match="times the error"):
        near(got, a.astype(np.float64), b.astype(np.float64))
    cut = cut_to_tf32(np.float32([1 + 2**-10 + 2**-11, -2 + 2**-12, np.finfo(np.float32).max, np.inf]))
    assert cut.tolist() == [1 + 2**-10, -2 + 2**-10, 2.0**128 - 2.0**117, np.inf]
    assert np.isnan(cut_to_tf32(np.uint32([0x7F800001]).view(np.float32)))
    # tf32x3 rounds its parts: ties away from zero, and a carry into the exponent
    assert tf32(np.float32([1 + 2**-11, -1 - 2**-11, 2 - 2**-11, np.inf])).tolist() == [1 + 2**-10, -1 - 2**-10, 2.0, np.inf]


PARTS = {"tf32x3": 2.0**-20, "bf16x3": 2.0**-15, "bf16x6": 2.0**-22}  # what the parts left out can add up to


@pytest.mark.parametrize("precision", PARTS)
def test_split_products_are_as_near_as_their_parts_allow(precision):
    unit = PARTS[precision]
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(shape).astype(np.float32).astype(np.float64) for shape in ((16, 32), (32, 16)))
    got = dot(a, b, "fp32", precision=precision)
    size = np.abs(a) @ np.abs(b)
    error = (np.abs(got - a @ b) / size).max()
    assert error <= unit
    full = dot(a, b, "fp32", precision="ieee")
    assert (got != full).any()  # the split is really done
    if precision == "bf16x3":
        assert error > 2 * (np.abs(full - a @ b) / size).max()


def test_out_dtype_fp16_rounds_the_result():
    rng = np.random.default_rng(4)
    a, b = (rounded(rng.standard_normal(shape), "fp16") for shape in ((16, 32), (32, 16)))
    got = dot(a, b, "fp16", out_dtype=tl.float16, out="fp16")
    near(got, a, b, unit=2.0**-10)
    assert (got == rounded(got, "fp16")).all()


def test_integers_are_multiplied_exactly_in_int32():
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-128, 128, shape) for shape in ((16, 256), (256, 16)))
    a[0], b[:, 0] = -128, -128
    acc = np.full((16, 16), 2**31 - 1)  # and wrap around there
    expected = (a @ b + 2**31 - 1).astype(np.int32)
    np.testing.assert_array_equal(dot(a, b, "int8", acc, out_dtype=tl.int32, out="int32"), expected)


def test_nan_and_infinity_pass_through():
    a, b = np.ones((16, 32)), np.ones((32, 16))
    a[1, 2], b[3, 4], a[5, 6] = np.nan, np.inf, -np.inf
    for name in ("bf16", "fp16", "fp32"):
        got = dot(a, b, name)
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(got, a @ b)


@triton.jit
def batched_kernel(a, b, out, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    batch, m, n, k = tl.arange(0, B), tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    left = tl.load(a + batch[:, None, None] * (M * K) + m[None, :, None] * K + k[None, None, :])
    right = tl.load(b + batch[:, None, None] * (K * N) + k[None, :, None] * N + n[None, None, :])
    tl.store(out + batch[:, None, None] * (M * N) + m[None, :, None] * N + n[None, None, :], tl.dot(left, right))


def test_a_batch_of_products():
    a, b, out = torch.randn(2, 16, 32).half(), torch.randn(2, 32, 16).half(), torch.empty(2, 16, 16)
    batched_kernel[(1,)](a, b, out, 2, 16, 16, 32)
    for i in range(2):
        near(out[i].double().numpy(), a[i].double().numpy(), b[i].double().numpy())


WRONG = [
    ("bf16", (16, 8, 16), {}, r"K >= 16"),
    ("fp16", (16, 8, 16), {}, r"K >= 16"),
    ("int8", (16, 16, 16), {"out_dtype": tl.int32, "out": "int32"}, r"K >= 32"),
    ("fp8e4nv", (16, 16, 16), {}, r"K >= 32"),
    ("uint8", (16, 32, 16), {"out_dtype": tl.int32, "out": "int32"}, r"only int8 supported"),
    ("int32", (16, 32, 16), {"out_dtype": tl.int32, "out": "int32"}, r"Unsupported lhs dtype int32"),
    ("bf16", (16, 32, 16), {"out_dtype": tl.bfloat16, "out": "bf16"}, r"out_dtype=bfloat16 is unsupported"),
    ("fp32", (16, 32, 16), {"precision": "exact"}, r"input_precision must be one of"),
]


@pytest.mark.parametrize(("name", "shape", "options", "says"), WRONG)
def test_products_that_no_compiler_takes_are_refused(name, shape, options, says):
    m, k, n = shape
    with pytest.raises(KernelMistake, match=says):
        dot(np.zeros((m, k)), np.zeros((k, n)), name, **options)


@triton.jit
def mixed_kernel(a, b, out):
    at = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    tl.store(out + at, tl.dot(tl.load(a + at), tl.load(b + at)))


@pytest.mark.parametrize("pair", [("fp16", "bf16"), ("fp16", "fp32")])
def test_factors_of_two_types_are_refused(pair):
    with pytest.raises(KernelMistake, match="Both operands must be same dtype"):
        mixed_kernel[(1,)](*(torch.zeros(16, 16, dtype=TORCH[name]) for name in pair), torch.empty(16, 16))


def test_fp8_is_refused_where_the_target_has_none():
    a = np.zeros((16, 32))
    switch.enable(target="sm_80")
    try:
        with pytest.raises(KernelMistake, match=r"sm_80 has no fp8e4nv"):
            dot(a, a.T, "fp8e4nv")
        dot(a, a.T, "fp8e5")
    finally:
        switch.enable()
    dot(a, a.T, "fp8e4nv")


@triton.jit
def scaled_kernel(a, scale, out):
    at = tl.arange(0, 128)[:, None] * 128 + tl.arange(0, 128)[None, :]
    x = tl.load(a + at)
    s = tl.load(scale + tl.arange(0, 128)[:, None] * 4 + tl.arange(0, 4)[None, :])
    tl.store(out + at, tl.dot_scaled(x, s, "e4m3", x, s, "e4m3"))


def test_dot_scaled_is_refused_by_name():
    from course_lib.interpreter import NotEmulated

    a, scale = torch.zeros(128, 128).to(torch.float8_e4m3fn), torch.full((128, 4), 127, dtype=torch.uint8)
    with pytest.raises(NotEmulated, match=r"tl\.dot_scaled is not emulated"):
        scaled_kernel[(1,)](a, scale, torch.empty(128, 128))
