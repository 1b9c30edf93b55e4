"""libdevice by numpy, random numbers by a Philox of our own, and what is refused by name."""

import math

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.cuda import libdevice as cuda_libdevice
from triton.language.extra.libdevice import erfc as complement

from course_lib.interpreter import KernelMistake, NotEmulated

from .numbers_helpers import close, interpreted

__all__ = ["interpreted"]


@triton.jit
def library_kernel(x, out, n, NAME: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, getattr(libdevice, NAME)(tl.load(x + at, mask=at < n, other=1.0)), mask=at < n)


@triton.jit
def library_kernel_of_two(x, y, out, n, NAME: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a, b = tl.load(x + at, mask=at < n, other=1.0), tl.load(y + at, mask=at < n, other=1.0)
    tl.store(out + at, getattr(cuda_libdevice, NAME)(a, b), mask=at < n)


ONE = {
    "sin": math.sin, "cos": math.cos, "tan": math.tan, "asin": math.asin, "acos": math.acos, "atan": math.atan,
    "sinh": math.sinh, "cosh": math.cosh, "tanh": math.tanh, "asinh": math.asinh, "atanh": math.atanh,
    "exp": math.exp, "exp2": lambda x: 2.0**x, "exp10": lambda x: 10.0**x, "expm1": math.expm1,
    "erf": math.erf, "erfc": math.erfc, "tgamma": math.gamma, "lgamma": math.lgamma, "cbrt": math.cbrt,
    "abs": abs, "floor": math.floor, "ceil": math.ceil, "trunc": math.trunc, "rint": round,
    "sinpi": lambda x: math.sin(math.pi * x), "cospi": lambda x: 0.0 if abs(x) == 0.5 else math.cos(math.pi * x),
    "normcdf": lambda x: 0.5 * math.erfc(-x / math.sqrt(2)),
}  # fmt: skip
POSITIVE = {
    "log": math.log, "log2": math.log2, "log10": math.log10, "log1p": math.log1p, "sqrt": math.sqrt,
    "rsqrt": lambda x: x**-0.5, "rcbrt": lambda x: x ** (-1 / 3), "fast_logf": math.log,
}  # fmt: skip
TWO = {
    "pow": lambda a, b: abs(a) ** b, "atan2": math.atan2, "hypot": math.hypot, "fmod": math.fmod, "copysign": math.copysign,
    "fdim": lambda a, b: max(a - b, 0.0), "add_rn": lambda a, b: a + b, "div_rn": lambda a, b: a / b,
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", [*ONE, *POSITIVE])
def test_a_function_of_one_number_is_the_one_of_python(name, dtype):
    if name.startswith("fast_") and dtype == torch.float64:
        return
    x = torch.tensor([-0.9, -0.5, -0.25, 0.1, 0.5, 0.75, 0.99], dtype=dtype)
    x = x.abs() if name in POSITIVE else x
    out = torch.empty(7, dtype=dtype)
    library_kernel[(1,)](x, out, 7, name, 8)
    exact = np.array([(ONE | POSITIVE)[name](v) for v in x.tolist()])
    # float32 is computed in float64 and rounded once; in float64 numpy and Python's math differ by a few last places
    close(out.double().numpy(), exact, "fp32" if dtype == torch.float32 else "fp64", 0.51 if dtype == torch.float32 else 8)


@pytest.mark.parametrize("name", TWO)
def test_a_function_of_two_numbers_is_the_one_of_python(name):
    x, y = torch.tensor([-3.0, 0.5, 2.0, -7.25, 1e-3]), torch.tensor([2.0, -1.5, 0.5, 4.0, 3.0])
    x = x.abs() if name == "pow" else x
    out = torch.empty(5)
    library_kernel_of_two[(1,)](x, y, out, 5, name, 8)
    close(out.double().numpy(), np.array([TWO[name](*pair) for pair in zip(x.tolist(), y.tolist(), strict=True)]), "fp32", 0.51)


@pytest.mark.parametrize(
    ("name", "x", "expected"),
    [
        ("tanh", [math.inf, -math.inf, math.nan, -0.0], [1.0, -1.0, math.nan, -0.0]),
        ("round", [0.5, 1.5, -2.5, 2.4999], [1.0, 2.0, -3.0, 2.0]),
        ("rint", [0.5, 1.5, -2.5, 2.4999], [0.0, 2.0, -2.0, 2.0]),
        ("sinpi", [0.5, 1.0, 1.5, 2.0], [1.0, 0.0, -1.0, 0.0]),
        ("cospi", [0.5, 1.0, 1.5, 2.0], [0.0, -1.0, 0.0, 1.0]),
        ("log", [0.0, -1.0, math.inf, 1.0], [-math.inf, math.nan, math.inf, 0.0]),
        ("saturatef", [-1.0, 0.25, 3.0, math.nan], [0.0, 0.25, 1.0, 0.0]),
    ],
)
def test_edges(name, x, expected):
    out = torch.empty(4)
    library_kernel[(1,)](torch.tensor(x), out, 4, name, 4)
    np.testing.assert_array_equal(out.numpy(), np.float32(expected))


@triton.jit
def questions_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + at)
    answer = libdevice.isnan(value).to(tl.int32) + 2 * libdevice.isinf(value).to(tl.int32)
    tl.store(out + at, answer + 4 * libdevice.signbit(value).to(tl.int32))


def test_questions_about_floats():
    x, out = torch.tensor([1.0, math.nan, math.inf, -math.inf]), torch.empty(4, dtype=torch.int32)
    questions_kernel[(1,)](x, out, 4, 4)
    assert out.tolist() in ([0, 1, 2, 6], [0, 5, 2, 6])  # a NaN may have either sign


@triton.jit
def bits_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, libdevice.popc(tl.load(x + at)) * 100 + libdevice.clz(tl.load(x + at)))


def test_functions_of_integers():
    x, out = torch.tensor([1, 255, -1, 0], dtype=torch.int32), torch.empty(4, dtype=torch.int32)
    bits_kernel[(1,)](x, out, 4, 4)
    assert out.tolist() == [131, 824, 3200, 32]


@triton.jit
def imported_kernel(x, out):
    tl.store(out, complement(tl.load(x)))


def test_a_function_imported_by_its_name_is_not_the_stub():
    x, out = torch.tensor([0.3]), torch.empty(1)
    imported_kernel[(1,)](x, out)
    assert abs(out.item() - math.erfc(0.3)) < 1e-7


@pytest.mark.parametrize("name", ["j0", "y1", "cyl_bessel_i0", "erfinv", "rcp_ru"])
def test_what_numpy_does_not_have_is_refused_by_its_symbol(name):
    with pytest.raises(NotEmulated, match=r"line \d+ .*__nv_\w+ exists only in compiled code; run it on a GPU"):
        library_kernel[(1,)](torch.ones(4), torch.empty(4), 4, name, 4)


def test_types_that_libdevice_does_not_have_are_refused():
    with pytest.raises(KernelMistake, match="bfloat16"):
        library_kernel[(1,)](torch.ones(4).bfloat16(), torch.empty(4), 4, "tanh", 4)


# -- random numbers ----------------------------------------------------------------------------------------------------


def philox(seed, offset, rounds=10):
    """Philox 4x32 as its paper has it: -> four arrays of uint32 for an array of offsets."""
    key = [np.uint64(seed & 0xFFFFFFFF), np.uint64(seed >> 32 & 0xFFFFFFFF)]
    mask = np.uint64(0xFFFFFFFF)
    c = [offset.astype(np.uint64) & mask, offset.astype(np.uint64) >> np.uint64(32)] + [np.zeros(offset.shape, np.uint64)] * 2
    for _ in range(rounds):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(b >> np.uint64(32)) ^ c[1] ^ key[0], b & mask, (a >> np.uint64(32)) ^ c[3] ^ key[1], a & mask]
        key = [key[0] + np.uint64(0x9E3779B9) & mask, key[1] + np.uint64(0xBB67AE85) & mask]
    return [part.astype(np.uint32) for part in c]


@triton.jit
def random_kernel(ints, four, uniform, normal, seed, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(ints + at, tl.randint(seed, at))
    a, b, c, d = tl.randint4x(seed, at)
    tl.store(four + at, a)
    tl.store(four + N + at, b)
    tl.store(four + 2 * N + at, c)
    tl.store(four + 3 * N + at, d)
    tl.store(uniform + at, tl.rand(seed, at))
    tl.store(normal + at, tl.randn(seed, at))


@pytest.mark.parametrize("seed", [0, 42, 2**31 - 1, 2**40 + 7])
def test_random_numbers_are_those_of_philox(seed):
    n = 64
    ints, four = torch.empty(n, dtype=torch.int32), torch.empty(4, n, dtype=torch.int32)
    uniform, normal = torch.empty(n), torch.empty(n)
    random_kernel[(1,)](ints, four, uniform, normal, seed, n)
    expected = np.stack(philox(seed, np.arange(n))).view(np.int32)
    np.testing.assert_array_equal(ints.numpy(), expected[0])
    np.testing.assert_array_equal(four.numpy(), expected)
    positive = np.where(expected < 0, -expected - 1, expected).astype(np.float32)
    np.testing.assert_array_equal(uniform.numpy(), positive[0] * np.float32(4.6566127342e-10))
    assert ((uniform >= 0) & (uniform < 1)).all()
    u1, u2 = (np.where(e < 0, -e - 1, e).astype(np.float64) * 4.6566127342e-10 for e in expected[:2])
    exact = np.sqrt(-2 * np.log(np.maximum(u1, 1e-7))) * np.cos(2 * np.pi * u2)
    np.testing.assert_allclose(normal.numpy(), exact, rtol=2e-5, atol=2e-6)  # cos of a float32 angle up to 2 pi
