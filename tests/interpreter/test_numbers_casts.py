"""Casts between all pairs of types, bit for bit: against torch where it agrees with a GPU, else against a stated rule."""

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
    FP8,
    INTS,
    MANY,
    MODEST,
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
def cast_kernel(x, out, n, TO: tl.constexpr, BITS: tl.constexpr, ROUNDING: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    live = at < n
    value = tl.load(x + at, mask=live, other=0.0 if x.dtype.element_ty.is_floating() else 0)
    if BITS:
        value = value.to(TO, bitcast=True)
    elif ROUNDING is None:
        value = value.to(TO)
    else:
        value = value.to(TO, fp_downcast_rounding=ROUNDING)
    tl.store(out + at, value, mask=live)


def cast(x: torch.Tensor, to: str, *, bits: bool = False, rounding: str | None = None) -> torch.Tensor:
    out = empty(x.shape, to)
    cast_kernel[(1,)](x, out, x.numel(), TRITON[to], bits, rounding, triton.next_power_of_2(x.numel()))
    return out


def same_bits(got: torch.Tensor, expected: torch.Tensor) -> None:
    """Equal bits; NaNs are all one (but must be NaNs)."""
    kind = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[got.element_size()]
    same = got.view(kind) == expected.view(kind)
    if got.is_floating_point():
        same |= got.double().isnan() & expected.double().isnan()
    first = torch.nonzero(~same)[:1].flatten().tolist()
    assert same.all(), f"{int((~same).sum())} differ, first {first}: got {got[first]}, expected {expected[first]}"


PAIRS = [(a, b) for a in (*FLOATS, *FP8) for b in (*FLOATS, *FP8) if a == b or not (a in (*FP8, "fp64") and b in FP8)]


@given(pair=st.sampled_from(PAIRS), seed=seeds, n=sizes)
@MANY
def test_float_to_float_rounds_to_nearest_even(pair, seed, n):
    name, to = pair
    data = random_floats(np.random.default_rng(seed), n, name)
    got = values(cast(tensor(data, name), to), to)
    expected = data if name == to else rounded(data, to)  # once, also from float64 to bf16 (torch passes through float32)
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(expected) | (np.isnan(expected) & np.signbit(got)))


STANDARD = [("fp32", "bf16"), ("fp32", "fp16"), ("fp64", "fp32"), ("bf16", "fp32"), ("fp16", "fp64")]


@given(pair=st.sampled_from(STANDARD), seed=seeds, n=sizes)
@MODEST
def test_standard_float_casts_are_those_of_torch(pair, seed, n):
    name, to = pair
    x = tensor(random_floats(np.random.default_rng(seed), n, name), name)
    same_bits(cast(x, to), x.to(TORCH[to]))


@given(name=st.sampled_from(["fp32", "fp64"]), to=st.sampled_from(["fp16", "bf16", "fp8e5", "fp32"]), seed=seeds, n=sizes)
@MANY
def test_rtz_gives_the_largest_value_not_beyond(name, to, seed, n):
    if name == to or (name, to) == ("fp64", "fp8e5"):
        return
    data = random_floats(np.random.default_rng(seed), n, name)
    finite = np.isfinite(data)
    got = values(cast(tensor(data, name), to, rounding="rtz"), to)
    assert (np.abs(got[finite]) <= np.abs(data[finite])).all()
    assert np.isfinite(got[finite]).all()
    np.testing.assert_array_equal(got[~finite], data[~finite])
    largest = {"fp16": 65504.0, "bf16": float.fromhex("0x1.fep127"), "fp8e5": 57344.0, "fp32": float(np.finfo(np.float32).max)}
    inside = finite & (np.abs(data) <= largest[to])
    close(got[inside], data[inside], to, 0.9999999999)  # less than one place away
    np.testing.assert_array_equal(np.abs(got[finite & ~inside]), largest[to])


def test_a_nan_that_is_cast_to_fp8_becomes_one_code():
    nans = torch.tensor([0x7E01, 0x7DFF, -1], dtype=torch.int16).view(torch.float16)
    for to in FP8:
        assert cast(nans, to).view(torch.uint8).tolist() == [0x7F] * 3


def test_rtz_differs_from_nearest():
    x = torch.tensor([1 + 2**-8 + 2**-9, -65519.0])
    assert cast(x, "bf16", rounding="rtz").tolist() == [1.0, -65280.0]
    assert cast(x, "bf16").tolist() == [1.0078125, -65536.0]


@given(name=st.sampled_from(FLOATS), to=st.sampled_from(INTS), seed=seeds, n=sizes)
@MANY
def test_float_to_int_cuts_towards_zero(name, to, seed, n):
    info = np.iinfo(to)
    data = random_floats(np.random.default_rng(seed), n, name, special=False)
    whole = np.trunc(data)
    low, high = max(float(info.min), -(2.0**62)), min(float(info.max), 2.0**62)
    data = np.where((whole >= low) & (whole <= high), data, 0.75)
    got = values(cast(tensor(data, name), to), to)
    np.testing.assert_array_equal(got, np.trunc(data).astype(to))


# PTX's cvt.rzi saturates at the width that it converts to; the compiler reaches 8 bits through 16 and keeps the low ones.
# A NaN gives 0, but the top bit where 64 bits are involved. The same values are to be read from a GPU: change them here.
OUT_OF_RANGE = [
    ("fp32", "int32", [2.0**31, 1e30, np.inf, -(2.0**31), -1e30, -np.inf, np.nan], [2**31 - 1] * 3 + [-(2**31)] * 3 + [0]),
    ("fp32", "uint32", [2.0**32, np.inf, -1.0, -np.inf, np.nan, 2.0**31], [2**32 - 1] * 2 + [0, 0, 0, 2**31]),
    ("fp32", "int64", [2.0**63, np.inf, -np.inf, np.nan], [2**63 - 1] * 2 + [-(2**63)] * 2),
    ("fp64", "int32", [2.0**31, -np.inf, np.nan], [2**31 - 1, -(2**31), -(2**31)]),
    ("fp32", "int16", [32767.9, 32768.0, -1e9, np.nan], [32767, 32767, -32768, 0]),
    ("fp32", "uint16", [65535.9, 65536.0, -1.0, np.nan], [65535, 65535, 0, 0]),
    ("fp32", "int8", [127.0, 128.0, 300.0, -129.0, 1e30, -1e30, np.nan], [127, -128, 44, 127, -1, 0, 0]),
    ("bf16", "uint8", [255.0, 256.0, 300.0, -1.0, 1e30, np.nan], [255, 0, 44, 0, 255, 0]),
]


@pytest.mark.parametrize(("name", "to", "data", "expected"), OUT_OF_RANGE, ids=[f"{row[0]}-{row[1]}" for row in OUT_OF_RANGE])
def test_floats_out_of_an_integers_range_end_as_ptx_says(name, to, data, expected):
    assert cast(torch.tensor(data, dtype=TORCH[name]), to).tolist() == expected


REFUSED = [("fp64", "fp8e5", None), ("fp64", "fp8e4nv", None), ("fp8e4nv", "fp8e5", None), ("fp32", "fp8e4nv", "rtz"),
           ("int32", "fp8e5", None), ("fp8e5", "int32", None), ("fp16", "fp32", "rtz"), ("fp32", "fp16", "upwards")]  # fmt: skip


@pytest.mark.parametrize(("name", "to", "rounding"), REFUSED)
def test_casts_that_no_compiler_has_are_refused(name, to, rounding):
    with pytest.raises(KernelMistake, match=r"line \d+ `value = value\.to"):
        cast(empty(8, name), to, rounding=rounding)


@given(name=st.sampled_from((*INTS, "int1")), to=st.sampled_from(FLOATS), seed=seeds, n=sizes)
@MANY
def test_int_to_float_is_rounded_once(name, to, seed, n):
    rng = np.random.default_rng(seed)
    data = rng.integers(0, 2, n).astype(bool) if name == "int1" else random_ints(rng, n, name)
    got = values(cast(tensor(data, name), to), to)
    for value, result in zip(data.tolist(), got.tolist(), strict=True):
        if to == "fp16" and abs(int(value)) >= 65520:
            assert result == np.copysign(np.inf, float(value))
            continue
        # exact integers: no candidate of the format may lie nearer than the one that was given
        step = {"fp64": 53, "fp32": 24, "fp16": 11, "bf16": 8}[to]
        place = 2 ** max(abs(int(value)).bit_length() - step, 0)
        error = abs(int(result) - int(value))
        assert 2 * error <= place
        assert 2 * error < place or place == 1 or (int(result) // (2 * error)) % 2 == 0  # a tie goes to the even side


def test_an_int64_is_rounded_once_on_its_way_to_a_narrow_float():
    x = torch.tensor([(1 << 62) + (1 << 54) + 1, -((1 << 62) + (1 << 54) + 1)])  # just above a bf16 tie, lost in float64
    assert cast(x, "bf16").tolist() == [float((1 << 62) + (1 << 55)), -float((1 << 62) + (1 << 55))]
    assert cast(torch.tensor([2049, 2051, 33775, 33776 + 17]), "fp16").tolist() == [2048.0, 2052.0, 33760.0, 33792.0]


@given(name=st.sampled_from((*INTS, "int1")), to=st.sampled_from((*INTS, "int1")), seed=seeds, n=sizes)
@MANY
def test_int_to_int_keeps_the_low_bits_and_bool_asks_for_zero(name, to, seed, n):
    rng = np.random.default_rng(seed)
    data = rng.integers(0, 2, n).astype(bool) if name == "int1" else random_ints(rng, n, name)
    got = values(cast(tensor(data, name), to), to)
    expected = data != 0 if to == "int1" else data.astype(to)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("name", FLOATS)
def test_float_to_bool_is_not_zero(name):
    x = tensor(rounded([0.0, -0.0, 0.25, np.nan, np.inf, -2.0], name), name)
    assert cast(x, "int1").tolist() == [False, False, True, True, True, True]


BITS = [("fp32", "int32"), ("int32", "fp32"), ("bf16", "int16"), ("int16", "bf16"), ("fp16", "uint16"), ("uint8", "fp8e4nv"),
        ("fp8e5", "int8"), ("fp64", "int64"), ("int64", "fp64"), ("bf16", "fp16"), ("fp16", "bf16")]  # fmt: skip


@given(pair=st.sampled_from(BITS), seed=seeds, n=sizes)
@MODEST
def test_a_bitcast_changes_no_bit(pair, seed, n):
    name, to = pair
    rng = np.random.default_rng(seed)
    size = TORCH[name].itemsize
    raw = torch.from_numpy(rng.integers(0, 256, n * size, dtype=np.uint8))
    got = cast(raw.view(TORCH[name]), to, bits=True)
    assert torch.equal(got.view(torch.uint8), raw)


@pytest.mark.parametrize("name", [*FLOATS, *FP8, *INTS, "int1"])
def test_a_copy_changes_no_bit(name):
    raw = torch.arange(0, 256, dtype=torch.uint8) if name != "int1" else torch.arange(0, 32, dtype=torch.uint8) % 2
    x = raw.repeat(TORCH[name].itemsize).view(TORCH[name])
    assert torch.equal(cast(x, name).view(torch.uint8), x.view(torch.uint8))


@triton.jit
def python_scalar_kernel(x, out, scalar, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=0.0)
    tl.store(out + at, value * 1.1 + scalar, mask=at < n)


@pytest.mark.parametrize("name", ["bf16", "fp16"])
def test_a_python_number_takes_the_blocks_type_and_a_launch_argument_is_float32(name):
    data = random_floats(np.random.default_rng(7), 33, name, special=False)
    out = empty(33, "fp32")
    python_scalar_kernel[(1,)](tensor(data, name), out, 0.1, 33, 64)
    product = rounded(data * rounded(1.1, name), name)  # in bf16: 1.1 is rounded first, then the product
    if name == "fp16":
        product = values(tensor(data, name) * tensor(rounded([1.1], name), name), name)  # and torch says the same
    expected = product.astype(np.float32) + np.float32(0.1)  # the argument is a float32 scalar, not a constant
    np.testing.assert_array_equal(values(out, "fp32"), expected)
