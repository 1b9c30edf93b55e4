"""Reductions and scans: sums, extremes with ties and NaN, combine functions of the kernel's own, tuples, sort and topk."""

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given
from hypothesis import strategies as st

from course_lib.interpreter.numbers.format_codes import round_to

from .numbers_helpers import (
    FLOATS,
    INTS,
    MANY,
    MODEST,
    empty,
    interpreted,
    random_floats,
    random_ints,
    rounded,
    seeds,
    tensor,
    values,
)

__all__ = ["interpreted"]
powers = st.integers(0, 5).map(lambda e: 2**e)


@triton.jit
def rows_kernel(x, out, FN: tl.constexpr, AXIS: tl.constexpr, KEEP: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :]
    result = FN(tl.load(x + at), AXIS, KEEP)
    if AXIS is None:
        if KEEP:
            tl.store(out + tl.zeros((1, 1), tl.int32), result)
        else:
            tl.store(out, result)
    elif AXIS == 0:
        if KEEP:
            tl.store(out + tl.arange(0, COLS)[None, :], result)
        else:
            tl.store(out + tl.arange(0, COLS), result)
    else:
        if KEEP:
            tl.store(out + tl.arange(0, ROWS)[:, None], result)
        else:
            tl.store(out + tl.arange(0, ROWS), result)


def over(fn, data, name, axis, keep=False, out=None):
    rows, cols = data.shape
    result = empty({0: cols, 1: rows, -1: rows, None: 1}[axis], out or name)
    rows_kernel[(1,)](tensor(data, name), result, fn, axis, keep, rows, cols)
    return values(result, out or name)


@triton.jit
def total(x, AXIS: tl.constexpr, KEEP: tl.constexpr):
    return tl.sum(x, AXIS, KEEP)


@triton.jit
def largest(x, AXIS: tl.constexpr, KEEP: tl.constexpr):
    return tl.max(x, AXIS, keep_dims=KEEP)


@triton.jit
def smallest(x, AXIS: tl.constexpr, KEEP: tl.constexpr):
    return tl.min(x, AXIS, keep_dims=KEEP)


@triton.jit
def place_of_largest(x, AXIS: tl.constexpr, KEEP: tl.constexpr):
    return tl.argmax(x, AXIS, keep_dims=KEEP)


@triton.jit
def place_of_smallest(x, AXIS: tl.constexpr, KEEP: tl.constexpr):
    return tl.argmin(x, AXIS, keep_dims=KEEP)


@triton.jit
def exclusive(x, AXIS: tl.constexpr, KEEP: tl.constexpr):
    return tl.xor_sum(x, AXIS, keep_dims=KEEP)


axes = st.sampled_from([0, 1, -1, None])


@given(name=st.sampled_from(FLOATS), axis=axes, keep=st.booleans(), rows=powers, cols=powers, seed=seeds)
@MANY
def test_a_float_sum_is_off_by_at_most_one_rounding_for_each_term(name, axis, keep, rows, cols, seed):
    data = random_floats(np.random.default_rng(seed), rows * cols, name, special=False).reshape(rows, cols)
    exact = np.atleast_1d(data.sum(axis))
    got = over(total, data, name, axis, keep)
    size = np.atleast_1d(np.abs(data).sum(axis))
    # every partial sum is at most `size`, and is rounded by half a unit of its last place
    terms = data.size if axis is None else data.shape[axis]
    unit = 2.0 ** -{"fp64": 52, "fp32": 23, "fp16": 10, "bf16": 7}[name]
    assert (np.abs(got - exact) <= terms * size * unit / 2 + 1e-7 * (name == "fp16")).all()


def test_a_bf16_sum_is_rounded_at_each_step_as_compiled_code_does():
    # pairs at half the length apart, as the last steps of a compiled reduction do it
    data = rounded(np.random.default_rng(3).uniform(1, 2, (1, 1024)), "bf16")
    part = data[0]
    while part.size > 1:
        part = round_to(part[: part.size // 2] + part[part.size // 2 :], "bf16").astype(np.float64)
    got = over(total, data, "bf16", 1)
    assert got.tolist() == part.tolist()
    assert got[0] != rounded(data.sum(), "bf16")  # a sum kept in float32 would show
    assert over(total, np.ones((1, 1024)), "bf16", 1).tolist() == [1024.0]


@pytest.mark.parametrize("name", FLOATS)
def test_a_sum_keeps_nan_and_infinity(name):
    data = np.ones((4, 8))
    data[0, 3], data[1, 2], data[2, 1], data[2, 5] = np.nan, np.inf, np.inf, -np.inf
    np.testing.assert_array_equal(over(total, data, name, 1), [np.nan, np.inf, np.nan, 8.0])


@given(name=st.sampled_from((*INTS, "int1")), axis=axes, seed=seeds)
@MODEST
def test_small_integers_are_summed_in_32_bits(name, axis, seed):
    rng = np.random.default_rng(seed)
    data = (rng.integers(0, 2, 32).astype(bool) if name == "int1" else random_ints(rng, 32, name)).reshape(4, 8)
    out = {"int64": "int64", "uint64": "uint64"}.get(name, "uint32" if name[0] == "u" or name == "int1" else "int32")
    with np.errstate(all="ignore"):
        expected = np.atleast_1d(data.astype(out).sum(axis, dtype=out))
    np.testing.assert_array_equal(over(total, data, name, axis, out=out), expected)


@given(op=st.sampled_from(["max", "min"]), name=st.sampled_from((*FLOATS, *INTS)), axis=axes, keep=st.booleans(), seed=seeds)
@MANY
def test_extremes_drop_nan_as_maxnum_does(op, name, axis, keep, seed):
    rng = np.random.default_rng(seed)
    data = (random_floats if name in FLOATS else random_ints)(rng, 64, name).reshape(4, 16)
    fn, exact = (largest, np.fmax.reduce) if op == "max" else (smallest, np.fmin.reduce)
    np.testing.assert_array_equal(over(fn, data, name, axis, keep), np.atleast_1d(exact(data, axis=axis)))


def test_an_extreme_of_nothing_but_nan_is_nan():
    data = np.full((2, 4), np.nan)
    assert np.isnan(over(largest, data, "fp32", 1)).all()
    assert np.isnan(over(smallest, data, "bf16", 1)).all()


@given(name=st.sampled_from((*FLOATS, "int32", "int8", "uint8", "int64")), axis=st.sampled_from([0, 1]), seed=seeds)
@MODEST
def test_the_first_of_equal_extremes_is_found(name, axis, seed):
    data = np.random.default_rng(seed).integers(0, 4, (8, 16))  # ties everywhere
    assert over(place_of_largest, data, name, axis, out="int32").tolist() == data.argmax(axis).tolist()
    assert over(place_of_smallest, data, name, axis, True, out="int32").tolist() == data.argmin(axis).tolist()


@triton.jit
def with_place_kernel(x, out, place, TIE_LEFT: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    top, where = tl.max(tl.load(x + at), 0, return_indices=True, return_indices_tie_break_left=TIE_LEFT)
    tl.store(out, top)
    tl.store(place, where)


def test_an_extreme_comes_with_its_place():
    x, out, place = torch.tensor([3, 9, 1, 9], dtype=torch.bfloat16), torch.empty(1), torch.empty(1, dtype=torch.int64)
    with_place_kernel[(1,)](x, out, place, True, 4)
    assert (out.item(), place.item()) == (9.0, 1)
    with_place_kernel[(1,)](x, out, place, False, 4)
    assert out.item() == 9.0
    assert place.item() in (1, 3)  # the fast tie break promises no more


@given(name=st.sampled_from(INTS), axis=axes, seed=seeds)
@MODEST
def test_xor_sum(name, axis, seed):
    data = random_ints(np.random.default_rng(seed), 64, name).reshape(8, 8)
    np.testing.assert_array_equal(over(exclusive, data, name, axis), np.atleast_1d(np.bitwise_xor.reduce(data, axis=axis)))


# -- combine functions of one's own ------------------------------------------------------------------------------------


@triton.jit
def welford(mean_a, m2_a, n_a, mean_b, m2_b, n_b):
    delta = mean_b - mean_a
    n = n_a + n_b
    return mean_a + delta * (n_b / n), m2_a + m2_b + delta * delta * (n_a * n_b / n), n


@triton.jit
def variance_kernel(x, mean, var, ROWS: tl.constexpr, COLS: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :]
    value = tl.load(x + at)
    m, s, n = tl.reduce((value, tl.zeros_like(value), tl.full(value.shape, 1.0, tl.float32)), 1, welford)
    tl.store(mean + tl.arange(0, ROWS), m)
    tl.store(var + tl.arange(0, ROWS), s / n)


def test_a_reduction_of_three_values_at_once():
    x, mean, var = torch.randn(8, 64) + 3, torch.empty(8), torch.empty(8)
    variance_kernel[(1,)](x, mean, var, 8, 64)
    torch.testing.assert_close(mean, x.mean(1), rtol=1e-6, atol=1e-6)  # 6 levels of float32 arithmetic
    torch.testing.assert_close(var, x.var(1, unbiased=False), rtol=1e-5, atol=1e-5)


@triton.jit
def product(a, b):
    return a * b


@triton.jit
def multiplied(x, AXIS: tl.constexpr, KEEP: tl.constexpr):
    return tl.reduce(x, AXIS, product, KEEP)


@pytest.mark.parametrize("axis", [0, 1, -1, None])
@pytest.mark.parametrize("keep", [False, True])
def test_a_combine_function_of_ones_own(axis, keep):
    data = np.random.default_rng(5).choice([-1.0, 1.0, 2.0, 0.5], (8, 4))  # exact in every order
    np.testing.assert_array_equal(over(multiplied, data, "fp32", axis, keep), np.atleast_1d(data.prod(axis)))


# -- scans -------------------------------------------------------------------------------------------------------------


@triton.jit
def scan_kernel(x, out, FN: tl.constexpr, AXIS: tl.constexpr, REVERSE: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :]
    tl.store(out + at, FN(tl.load(x + at), AXIS, REVERSE))


def scanned(fn, data, name, axis, reverse, out=None):
    result = empty(data.shape, out or name)
    scan_kernel[(1,)](tensor(data, name), result, fn, axis, reverse, *data.shape)
    return values(result, out or name)


@triton.jit
def running_sum(x, AXIS: tl.constexpr, REVERSE: tl.constexpr):
    return tl.cumsum(x, AXIS, reverse=REVERSE)


@triton.jit
def running_product(x, AXIS: tl.constexpr, REVERSE: tl.constexpr):
    return tl.cumprod(x, AXIS, reverse=REVERSE)


@triton.jit
def maximum(a, b):
    return tl.maximum(a, b)


@triton.jit
def running_maximum(x, AXIS: tl.constexpr, REVERSE: tl.constexpr):
    return tl.associative_scan(x, AXIS, maximum, REVERSE)


SCANS = {
    "cumsum": (running_sum, np.add.accumulate),
    "cumprod": (running_product, np.multiply.accumulate),
    "maximum": (running_maximum, np.fmax.accumulate),
}


@given(op=st.sampled_from(list(SCANS)), name=st.sampled_from((*FLOATS, "int32", "int64")), axis=st.sampled_from([0, 1, -1]),
       reverse=st.booleans(), seed=seeds)  # fmt: skip
@MANY
def test_a_scan_is_that_of_numpy_in_both_directions(op, name, axis, reverse, seed):
    data = np.random.default_rng(seed).choice([-2, -1, 0, 1, 2, 1], (4, 16))  # exact in every type and order
    fn, exact = SCANS[op]
    wide = data.astype(np.float64)
    expected = np.flip(exact(np.flip(wide, axis), axis=axis), axis) if reverse else exact(wide, axis=axis)
    np.testing.assert_array_equal(scanned(fn, data, name, axis, reverse), expected)


def test_a_running_sum_of_floats_stays_near_float64():
    data = random_floats(np.random.default_rng(1), 256, "fp32", special=False).reshape(4, 64)
    exact = data.cumsum(1)
    error = np.abs(scanned(running_sum, data, "fp32", 1, False) - exact)
    assert (error <= np.abs(data).cumsum(1) * 64 * 2.0**-24).all()


@triton.jit
def affine(scale_a, shift_a, scale_b, shift_b):
    return scale_b * scale_a, scale_b * shift_a + shift_b


@triton.jit
def recurrence_kernel(scale, shift, out, REVERSE: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    _, h = tl.associative_scan((tl.load(scale + at), tl.load(shift + at)), 0, affine, REVERSE)
    tl.store(out + at, h)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_of_two_values_keeps_the_order_of_a_linear_recurrence(reverse):
    scale, shift = torch.tensor([0.5, 2.0, -1.0, 0.25] * 4), torch.arange(16.0)
    out, h, expected = torch.empty(16), 0.0, []
    for a, b in list(zip(scale.tolist(), shift.tolist(), strict=True))[:: -1 if reverse else 1]:
        h = a * h + b
        expected.append(h)
    recurrence_kernel[(1,)](scale, shift, out, reverse, 16)
    assert out.tolist() == expected[:: -1 if reverse else 1]


@triton.jit
def bf16_sum_kernel(x, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.associative_scan(tl.load(x + at), 0, add))


@triton.jit
def add(a, b):
    return a + b


def test_a_bf16_scan_rounds_at_each_step():
    x, out = torch.full((512,), 1.0, dtype=torch.bfloat16), torch.empty(512, dtype=torch.bfloat16)
    bf16_sum_kernel[(1,)](x, out, 512)
    assert out[255] == 256
    assert out[511] == 256  # 256 + 1 is a tie in bf16, and 256 is even


# -- sort, topk, flip, histogram ---------------------------------------------------------------------------------------


@triton.jit
def sort_kernel(x, out, DESCENDING: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :]
    tl.store(out + at, tl.sort(tl.load(x + at), descending=DESCENDING))


@given(name=st.sampled_from(["fp32", "bf16", "fp16", "int32", "int8", "uint8", "int64", "fp64"]), seed=seeds,
       down=st.booleans(), rows=powers, cols=powers)  # fmt: skip
@MODEST
def test_sort_orders_the_last_axis(name, seed, down, rows, cols):
    rng = np.random.default_rng(seed)
    data = random_floats(rng, rows * cols, name, special=False) if name in FLOATS else random_ints(rng, rows * cols, name)
    data = data.reshape(rows, cols)
    out = empty(data.shape, name)
    sort_kernel[(1,)](tensor(data, name), out, down, rows, cols)
    expected = np.sort(data, axis=1)
    np.testing.assert_array_equal(values(out, name), expected[:, ::-1] if down else expected)


@triton.jit
def topk_kernel(x, out, K: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :]
    tl.store(out + tl.arange(0, ROWS)[:, None] * K + tl.arange(0, K)[None, :], tl.topk(tl.load(x + at), K))


@pytest.mark.parametrize("name", ["fp32", "bf16", "int32"])
@pytest.mark.parametrize("k", [1, 2, 8, 16])
def test_topk_gives_the_largest_in_order(name, k):
    if name == "bf16" and k < 16:
        name = "fp16"  # tl.max turns bf16 into float32 on the way
    data = rounded(np.random.default_rng(k).standard_normal((4, 16)) * 50, name if name != "int32" else "fp32")
    data = data.astype(np.int32) if name == "int32" else data
    out = empty((4, k), name)
    topk_kernel[(1,)](tensor(data, name), out, k, 4, 16)
    np.testing.assert_array_equal(values(out, name), np.sort(data, axis=1)[:, ::-1][:, :k])


@triton.jit
def flip_kernel(x, out, DIM: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :]
    tl.store(out + at, tl.flip(tl.load(x + at), DIM))


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_flip(dim):
    x, out = torch.randn(4, 8).bfloat16(), torch.empty(4, 8, dtype=torch.bfloat16)
    flip_kernel[(1,)](x, out, dim, 4, 8)
    assert torch.equal(out, x.flip(dim))


@triton.jit
def histogram_kernel(x, out, n, BINS: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + tl.arange(0, BINS), tl.histogram(tl.load(x + at, mask=at < n), BINS, mask=at < n))


@pytest.mark.parametrize("n", [1, 37, 64])
def test_a_histogram_counts_only_lanes_under_its_mask(n):
    x, out = torch.randint(0, 8, (n,), dtype=torch.int32), torch.empty(8, dtype=torch.int32)
    histogram_kernel[(1,)](x, out, n, 8, 64)
    assert out.tolist() == torch.bincount(x, minlength=8).tolist()
