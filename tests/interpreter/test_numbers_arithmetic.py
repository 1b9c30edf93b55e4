"""Arithmetic, comparisons and special functions, element by element against float64, with errors in units of the last place."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given
from hypothesis import strategies as st

from course_lib.interpreter import KernelMistake

from .numbers_helpers import (
    FLOATS,
    INTS,
    MANY,
    MODEST,
    NUMPY,
    TORCH,
    TRITON,
    close,
    empty,
    interpreted,
    random_floats,
    random_ints,
    rounded,
    seeds,
    sizes,
    tensor,
    values,
)

__all__ = ["interpreted"]


@triton.jit
def unary_kernel(x, out, n, FN: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=1.0)
    tl.store(out + at, FN(value), mask=at < n)


@triton.jit
def binary_kernel(x, y, out, n, FN: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a, b = tl.load(x + at, mask=at < n, other=1.0), tl.load(y + at, mask=at < n, other=1.0)
    tl.store(out + at, FN(a, b), mask=at < n)


@triton.jit
def ternary_kernel(x, y, z, out, n, FN: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a, b = tl.load(x + at, mask=at < n, other=1.0), tl.load(y + at, mask=at < n, other=1.0)
    c = tl.load(z + at, mask=at < n, other=1.0)
    tl.store(out + at, FN(a, b, c), mask=at < n)


def run(kernel, fn, name, *data, out=None):
    """Store the operands as `name`, run fn on them, and give the result back as values of `out` (default `name`)."""
    size = data[0].size
    result = empty(size, out or name)
    kernel[(1,)](*(tensor(d, name) for d in data), result, size, fn, triton.next_power_of_2(size))
    return values(result, out or name)


# -- floats ------------------------------------------------------------------------------------------------------------


@triton.jit
def add(a, b):
    return a + b


@triton.jit
def subtract(a, b):
    return a - b


@triton.jit
def multiply(a, b):
    return a * b


@triton.jit
def divide(a, b):
    return a / b


@triton.jit
def remainder(a, b):
    return a % b


@triton.jit
def minimum(a, b):
    return tl.minimum(a, b)


@triton.jit
def maximum(a, b):
    return tl.maximum(a, b)


@triton.jit
def minimum_keeping_nan(a, b):
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def maximum_keeping_nan(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


BINARY = {
    "add": (add, np.add), "subtract": (subtract, np.subtract), "multiply": (multiply, np.multiply),
    "minimum": (minimum, np.fmin), "maximum": (maximum, np.fmax),
    "minimum_keeping_nan": (minimum_keeping_nan, np.minimum), "maximum_keeping_nan": (maximum_keeping_nan, np.maximum),
}  # fmt: skip


@given(op=st.sampled_from(list(BINARY)), name=st.sampled_from(FLOATS), seed=seeds, n=sizes)
@MANY
def test_float_operations_are_rounded_once(op, name, seed, n):
    rng = np.random.default_rng(seed)
    a, b = random_floats(rng, n, name), random_floats(rng, n, name)
    fn, exact = BINARY[op]
    with np.errstate(all="ignore"):
        # float64 has more than twice the digits of float32: rounding its sum or product again changes nothing
        expected = rounded(exact(a, b), name)
    np.testing.assert_array_equal(run(binary_kernel, fn, name, a, b), expected)


@pytest.mark.parametrize("name", ["bf16", "fp16", "fp32"])
def test_the_sign_of_zero_follows_ieee(name):
    zeros = np.array([0.0, 0.0, -0.0, -0.0])
    other = np.array([0.0, -0.0, 0.0, -0.0])
    for fn, exact in ((add, np.add), (subtract, np.subtract), (multiply, np.multiply)):
        assert np.signbit(run(binary_kernel, fn, name, zeros, other)).tolist() == np.signbit(exact(zeros, other)).tolist()
    # PTX orders -0 below +0
    assert np.signbit(run(binary_kernel, maximum, name, zeros, other)).tolist() == [False, False, False, True]
    assert np.signbit(run(binary_kernel, minimum, name, zeros, other)).tolist() == [False, True, True, True]


@given(name=st.sampled_from(FLOATS), seed=seeds, n=sizes)
@MODEST
def test_division_of_narrow_floats_is_done_in_float32(name, seed, n):
    rng = np.random.default_rng(seed)
    a, b = random_floats(rng, n, name), random_floats(rng, n, name)
    with np.errstate(all="ignore"):
        exact = a / b
    wide = "fp64" if name == "fp64" else "fp32"
    close(run(binary_kernel, divide, name, a, b, out=wide), exact, wide, 0.5)
    finite = np.isfinite(a) & np.isfinite(b) & (b != 0) & (np.abs(exact) < 1e6)
    a, b = np.where(finite, a, 7.5), np.where(finite, b, -2.0)
    # not C's fmod: a quotient that is rounded, then one rounding of the rest; an exact multiple gives +0
    with np.errstate(over="ignore"):
        quotient = np.trunc(a.astype(NUMPY[wide]) / b.astype(NUMPY[wide]))
    rest = [Fraction(float(x)) - Fraction(float(q)) * Fraction(float(y)) for x, q, y in zip(a, quotient, b, strict=True)]
    got = run(binary_kernel, remainder, name, a, b, out=wide)
    np.testing.assert_array_equal(got, rounded(np.array([float(value) for value in rest]), name))
    assert not np.signbit(got[np.array(rest) == 0]).any() or name == "fp64"


@triton.jit
def fused(a, b, c):
    return tl.fma(a, b, c)


@given(name=st.sampled_from(FLOATS), seed=seeds, n=sizes)
@MODEST
def test_fma_is_rounded_once(name, seed, n):
    rng = np.random.default_rng(seed)
    a, b = (random_floats(rng, n, name, special=False, spread=2.0) for _ in range(2))
    # half of the sums cancel, so that what a rounded product would lose is all that remains
    c = np.where(rng.random(n) < 0.5, -rounded(a * b, name), random_floats(rng, n, name, special=False))
    got = run(ternary_kernel, fused, name, a, b, c)
    for i in range(n):
        exact = Fraction(a[i]) * Fraction(b[i]) + Fraction(c[i])
        near = float(exact)  # correctly rounded; narrower formats are checked where that decides nothing
        assert near == got[i] if name == "fp64" or not exact else abs(Fraction(got[i]) - exact) <= half_place(near, name)


def half_place(x, name):
    bits, least = {"fp32": (24, -149), "fp16": (11, -24), "bf16": (8, -133)}[name]
    return Fraction(2) ** (max(math.frexp(x)[1] - bits, least) - 1)


def test_fma_keeps_what_a_rounded_product_loses():
    a = np.array([1 + 2.0**-12])
    for name, expected in (("fp32", 2.0**-24), ("fp64", 2.0**-24)):
        assert run(ternary_kernel, fused, name, a, a, -np.array([1 + 2.0**-11]))[0] == expected
    # float64 cannot hold this sum either: 2**-100 decides a float32 tie
    tie, little = np.array([1 + 2.0**-23]), np.array([2.0**-24])
    got = run(ternary_kernel, fused, "fp32", little, np.array([1.0]), tie)
    assert got[0] == 1 + 2.0**-22  # a tie, to even
    got = run(ternary_kernel, fused, "fp32", little, np.array([1.0 - 2.0**-24]), tie)
    assert got[0] == 1 + 2.0**-23  # just below the tie
    tiny, huge = np.array([2.0**-60]), np.array([-(2.0**120)])
    assert run(ternary_kernel, fused, "fp32", tiny, tiny, huge)[0] == huge[0]


@triton.jit
def clamped(a, b, c):
    return tl.clamp(a, b, c)


@triton.jit
def clamped_keeping_nan(a, b, c):
    return tl.clamp(a, b, c, propagate_nan=tl.PropagateNan.ALL)


@given(name=st.sampled_from(FLOATS), seed=seeds, n=sizes)
@MODEST
def test_clamp_drops_a_nan_unless_told_otherwise(name, seed, n):
    rng = np.random.default_rng(seed)
    x = random_floats(rng, n, name)
    low, high = rounded(np.full(n, -1.25), name), rounded(np.full(n, 2.5), name)
    np.testing.assert_array_equal(run(ternary_kernel, clamped, name, x, low, high), np.fmin(np.fmax(x, low), high))
    np.testing.assert_array_equal(run(ternary_kernel, clamped_keeping_nan, name, x, low, high), np.clip(x, low, high))


@triton.jit
def compared(a, b):
    return (a < b).to(tl.int32) + 2 * (a <= b) + 4 * (a > b) + 8 * (a >= b) + 16 * (a == b) + 32 * (a != b)


@given(name=st.sampled_from((*FLOATS, *INTS)), seed=seeds, n=sizes)
@MANY
def test_comparisons_are_ordered_and_only_not_equal_holds_for_nan(name, seed, n):
    rng = np.random.default_rng(seed)
    make = random_floats if name in FLOATS else random_ints
    a, b = make(rng, n, name), make(rng, n, name)
    b = np.where(rng.random(n) < 0.3, a, b)
    signs = (a < b) + 2 * (a <= b) + 4 * (a > b) + 8 * (a >= b) + 16 * (a == b) + 32 * (a != b)
    np.testing.assert_array_equal(run(binary_kernel, compared, name, a, b, out="int32"), signs)


@triton.jit
def chosen(a, b, c):
    return tl.where(a > 0, b, c)


@given(name=st.sampled_from((*FLOATS, *INTS)), seed=seeds, n=sizes)
@MODEST
def test_where_takes_each_element_from_its_side(name, seed, n):
    rng = np.random.default_rng(seed)
    make = random_floats if name in FLOATS else random_ints
    a, b, c = (make(rng, n, name) for _ in range(3))
    np.testing.assert_array_equal(run(ternary_kernel, chosen, name, a, b, c), np.where(a > 0, b, c))


# -- special functions: what numpy adds to the rounding of the result, in ulps ------------------------------------------


@triton.jit
def sigmoid(x):
    return tl.sigmoid(x)


@triton.jit
def absolute(x):
    return tl.abs(x)


@triton.jit
def negative(x):
    return -x


_erf = np.vectorize(math.erf, otypes=[np.float64])
_FLUSH = ("exp2", "sin", "cos", "sqrt", "rsqrt", "erf", "floor", "ceil")  # compiled float32 code takes a subnormal for zero
SPECIAL = {  # exact value, ulps: numpy's float32 exp, log, sin and cos promise 4 at most; sqrt, floor and ceil are exact
    "exp": (np.exp, 4), "exp2": (np.exp2, 4), "log": (np.log, 4), "log2": (np.log2, 4), "sin": (np.sin, 4), "cos": (np.cos, 4),
    "sqrt": (np.sqrt, 0.5), "rsqrt": (lambda x: 1 / np.sqrt(x), 1.5), "erf": (_erf, 1.0),
    "floor": (np.floor, 0), "ceil": (np.ceil, 0),
}  # fmt: skip


@triton.jit
def special_kernel(x, out, n, NAME: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=1.0)
    tl.store(out + at, getattr(tl, NAME)(value), mask=at < n)


@given(op=st.sampled_from(list(SPECIAL)), name=st.sampled_from(["fp32", "fp64"]), seed=seeds, n=sizes)
@MANY
def test_special_functions_stay_near_float64(op, name, seed, n):
    exact, ulps = SPECIAL[op]
    x = random_floats(np.random.default_rng(seed), n, name)
    x = np.where(np.abs(x) > 1e4, np.sign(x) * 300.0, x) if op in ("sin", "cos") else x
    out = empty(n, name)
    special_kernel[(1,)](tensor(x, name), out, n, op, triton.next_power_of_2(n))
    tiny = (np.abs(x) < 2.0**-126) & (name == "fp32" and op in _FLUSH)
    with np.errstate(all="ignore"):
        expected = exact(np.where(tiny, np.copysign(0.0, x), x))
    expected = np.where(np.isnan(x), np.nan, expected)
    if op == "exp2" and name == "fp32":
        expected = np.where(np.abs(expected) < 2.0**-126, 0.0, expected)
    allowed = (ulps if name == "fp32" else max(ulps, 1)) + (_of_exp(x, name) if op == "exp" else 0)
    close(values(out, name), expected, name, allowed)


def _of_exp(x, name):
    """exp is 2 ** (x log2 e) in float32: the product's rounding and the constant's error, in ulps of the result."""
    return np.where(np.isfinite(x), 1.25 * np.abs(x), 0) if name == "fp32" else 0


@pytest.mark.parametrize("op", _FLUSH)
def test_a_subnormal_argument_is_zero_to_approximate_instructions(op):
    x = np.array([1e-45, 1.1754942e-38, -1e-45, -1.1754942e-38], np.float32).astype(np.float64)
    out = empty(4, "fp32")
    special_kernel[(1,)](tensor(x, "fp32"), out, 4, op, 4)
    with np.errstate(all="ignore"):
        expected = SPECIAL[op][0](np.copysign(0.0, x))
    np.testing.assert_array_equal(values(out, "fp32"), expected)
    assert (np.signbit(values(out, "fp32")) == np.signbit(expected)).all()


@pytest.mark.parametrize("op", ["exp", "exp2", "log", "log2", "sin", "cos", "sqrt", "rsqrt", "erf", "floor", "ceil"])
@pytest.mark.parametrize("name", ["bf16", "fp16", "int32"])
def test_special_functions_refuse_what_the_compiler_refuses(op, name):
    with pytest.raises(KernelMistake, match=rf"Expected dtype .* but got {name}"):
        special_kernel[(1,)](empty(4, name).zero_(), empty(4, name), 4, op, 4)


@given(name=st.sampled_from(["fp32", "fp64"]), seed=seeds, n=sizes)
@MODEST
def test_sigmoid_stays_near_float64(name, seed, n):
    x = random_floats(np.random.default_rng(seed), n, name, special=False)
    x = np.clip(x, -80, 80)
    with np.errstate(all="ignore"):
        exact = 1 / (1 + np.exp(-x))
    allowed = 6 + _of_exp(x, name)  # exp's 4, the sum's and the quotient's half
    close(run(unary_kernel, sigmoid, name, rounded(x, name)), exact, name, allowed)


@triton.jit
def softmax_kernel(x, out, COLS: tl.constexpr, ROWS: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :]
    tl.store(out + at, tl.softmax(tl.load(x + at), dim=1, keep_dims=True))


def test_softmax_is_that_of_torch():
    x, out = torch.randn(4, 32), torch.empty(4, 32)
    softmax_kernel[(1,)](x, out, 32, 4)
    close(out.double().numpy(), torch.softmax(x.double(), 1).numpy(), "fp32", 12)  # exp 4 (twice), 31 sums, a quotient


@given(name=st.sampled_from(FLOATS), seed=seeds, n=sizes)
@MODEST
def test_absolute_and_negative_touch_only_the_sign(name, seed, n):
    x = random_floats(np.random.default_rng(seed), n, name)
    got = run(unary_kernel, absolute, name, x)
    np.testing.assert_array_equal(got, np.abs(x))
    assert not np.signbit(got).any()
    got = run(unary_kernel, negative, name, x)
    np.testing.assert_array_equal(got, -x)


@triton.jit
def larger_copy(a, b):
    return tl.maximum(tl.abs(a), b)


def test_fp8_keeps_infinity_where_it_computes_nothing():
    x = np.array([np.inf, -np.inf, 3.0])
    assert run(binary_kernel, larger_copy, "fp8e5", x, np.array([1.0, -2.0, 4.0])).tolist() == [np.inf, np.inf, 4.0]


@pytest.mark.parametrize("fn", [add, multiply, divide, compared], ids=lambda fn: fn.__name__)
@pytest.mark.parametrize("name", ["fp8e4nv", "fp8e5"])
def test_fp8_has_no_arithmetic(fn, name):
    with pytest.raises(KernelMistake, match=f"no GPU computes in {name}"):
        run(binary_kernel, fn, name, np.ones(4), np.ones(4), out="fp32")


# -- integers ----------------------------------------------------------------------------------------------------------


@triton.jit
def quotient(a, b):
    return a // b


@triton.jit
def ceiling(a, b):
    return tl.cdiv(a, b)


@triton.jit
def left(a, b):
    return a << b


@triton.jit
def right(a, b):
    return a >> b


@triton.jit
def conjunction(a, b):
    return a & b


@triton.jit
def disjunction(a, b):
    return a | b


@triton.jit
def exclusive(a, b):
    return a ^ b


@triton.jit
def high(a, b):
    return tl.umulhi(a, b)


@triton.jit
def inverted(a):
    return ~a


WRAPPING = {
    "add": (add, np.add), "subtract": (subtract, np.subtract), "multiply": (multiply, np.multiply),
    "conjunction": (conjunction, np.bitwise_and), "disjunction": (disjunction, np.bitwise_or),
    "exclusive": (exclusive, np.bitwise_xor), "minimum": (minimum, np.minimum), "maximum": (maximum, np.maximum),
}  # fmt: skip


@given(op=st.sampled_from(list(WRAPPING)), name=st.sampled_from(INTS), seed=seeds, n=sizes)
@MANY
def test_integer_operations_wrap_around(op, name, seed, n):
    rng = np.random.default_rng(seed)
    a, b = random_ints(rng, n, name), random_ints(rng, n, name)
    fn, exact = WRAPPING[op]
    with np.errstate(all="ignore"):
        expected = exact(a, b)
    np.testing.assert_array_equal(run(binary_kernel, fn, name, a, b), expected)


@given(name=st.sampled_from(INTS), seed=seeds, n=sizes)
@MANY
def test_division_goes_towards_zero_and_the_remainder_has_the_dividends_sign(name, seed, n):
    rng = np.random.default_rng(seed)
    a, b = random_ints(rng, n, name), random_ints(rng, n, name)
    b = np.where((b == 0) | ((b == -1) & (a == np.iinfo(name).min)), 3, b).astype(name)
    whole = [abs(int(x)) // abs(int(y)) * (1 if (x < 0) == (y < 0) else -1) for x, y in zip(a, b, strict=True)]
    rest = [int(x) - q * int(y) for x, y, q in zip(a, b, whole, strict=True)]
    assert run(binary_kernel, quotient, name, a, b).tolist() == whole
    assert run(binary_kernel, remainder, name, a, b).tolist() == rest


def test_ceiling_division_and_c_semantics_of_negatives():
    a, b = np.array([7, 8, -7, -8, 0, 9]), np.array([4, 4, 4, -3, 5, -2])
    assert run(binary_kernel, quotient, "int32", a, b).tolist() == [1, 2, -1, 2, 0, -4]
    assert run(binary_kernel, remainder, "int32", a, b).tolist() == [3, 0, -3, -2, 0, 1]
    assert run(binary_kernel, ceiling, "int32", a[:2], b[:2]).tolist() == [2, 2]


@given(name=st.sampled_from(INTS), seed=seeds, n=sizes)
@MODEST
def test_shifts_fill_with_the_sign_only_where_there_is_one(name, seed, n):
    rng = np.random.default_rng(seed)
    a, by = random_ints(rng, n, name), rng.integers(0, np.iinfo(name).bits, n).astype(name)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(run(binary_kernel, left, name, a, by), a << by)
    np.testing.assert_array_equal(run(binary_kernel, right, name, a, by), a >> by)


@given(name=st.sampled_from(["int32", "uint32", "int64", "uint64"]), seed=seeds, n=sizes)
@MODEST
def test_umulhi_gives_the_upper_half_of_the_unsigned_product(name, seed, n):
    rng = np.random.default_rng(seed)
    a, b = random_ints(rng, n, name), random_ints(rng, n, name)
    bits, mask = np.iinfo(name).bits, 2 ** np.iinfo(name).bits - 1
    expected = [((int(x) & mask) * (int(y) & mask)) >> bits for x, y in zip(a, b, strict=True)]
    got = [int(x) & mask for x in run(binary_kernel, high, name, a, b)]
    assert got == expected


@given(name=st.sampled_from(INTS), seed=seeds, n=sizes)
@MODEST
def test_absolute_of_the_smallest_integer_wraps(name, seed, n):
    x = random_ints(np.random.default_rng(seed), n, name)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(run(unary_kernel, absolute, name, x), np.abs(x))
        np.testing.assert_array_equal(run(unary_kernel, inverted, name, x), ~x)


@triton.jit
def sum_of_bools(a, b):
    return ((a > 0) + (b > 0)).to(tl.int32)


def test_bools_are_one_bit_wide():
    a, b = np.array([1, 1, 0, 0]), np.array([1, 0, 1, 0])
    assert run(binary_kernel, sum_of_bools, "int32", a, b).tolist() == [0, 1, 1, 0]  # i1 arithmetic: 1 + 1 = 0


PROMOTED = [
    ("bf16", "bf16", "bf16"), ("bf16", "fp16", "fp16"), ("bf16", "fp32", "fp32"), ("fp16", "fp32", "fp32"),
    ("fp32", "fp64", "fp64"), ("int32", "fp16", "fp16"), ("int64", "fp32", "fp32"), ("int8", "int32", "int32"),
    ("uint32", "int32", "uint32"), ("uint8", "int16", "int16"), ("int32", "int64", "int64"), ("int1", "int32", "int32"),
]  # fmt: skip


@triton.jit
def type_of_sum_kernel(x, y, out, WANTED: tl.constexpr):
    tl.static_assert((tl.load(x) + tl.load(y)).dtype == WANTED)
    tl.store(out, 1)


@pytest.mark.parametrize(("left_name", "right_name", "expected"), PROMOTED)
def test_operands_of_two_types_meet_in_the_compilers_type(left_name, right_name, expected):
    x, y, out = (torch.ones(1, dtype=TORCH[name]) for name in (left_name, right_name, "int32"))
    type_of_sum_kernel[(1,)](x, y, out, TRITON[expected])
