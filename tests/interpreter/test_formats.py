"""bf16 and fp8, bit for bit: every code and every tie against torch, and what torch does differently against stated tables."""

import ast
import inspect
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from course_lib.interpreter.numbers import format_codes, formats
from course_lib.interpreter.numbers.format_codes import decode, encode, round_to
from course_lib.interpreter.numbers.formats import NARROW

from .ulps import ulp_distance

TORCH = {
    "bf16": torch.bfloat16,
    "fp8e4nv": torch.float8_e4m3fn,
    "fp8e5": torch.float8_e5m2,
    "fp8e4b8": torch.float8_e4m3fnuz,
    "fp8e5b16": torch.float8_e5m2fnuz,
}
BITS = {8: (torch.uint8, np.uint8), 16: (torch.int16, np.uint16)}
ALL_HALVES = np.arange(1 << 16, dtype=np.uint16)
INF, NAN = np.float32(np.inf), np.float32(np.nan)


def all_codes(name):
    return np.arange(1 << NARROW[name].bits, dtype=NARROW[name].storage)


def torch_codes(values, name):
    of_torch, of_numpy = BITS[NARROW[name].bits]
    return torch.from_numpy(np.array(values, np.float32)).to(TORCH[name]).view(of_torch).numpy().view(of_numpy)


def hard_values(name):
    """float32: all bf16 and fp16 values; codes, midpoints of neighbouring codes, and the float32 on both sides of each."""
    finite = decode(all_codes(name), name)
    finite = np.unique(finite[np.isfinite(finite)]).astype(np.float64)
    step = finite[-1] - finite[-2]
    finite = np.concatenate([[finite[0] - step], finite, [finite[-1] + step]])  # the tie with the first value out of range
    with np.errstate(all="ignore"):
        points = np.concatenate([finite, (finite[1:] + finite[:-1]) / 2]).astype(np.float32)
        around = [points, np.nextafter(points, INF), np.nextafter(points, -INF)]
        halves = [(ALL_HALVES.astype(np.uint32) << 16).view(np.float32), ALL_HALVES.view(np.float16).astype(np.float32)]
    return np.concatenate([*around, *halves, np.float32([0.0, -0.0, 1e-45, -1e-45, INF, -INF, NAN])])


def assert_same_values(got_codes, expected_codes, name, values):
    """Equal values, the sign of zero included; all NaNs are one."""
    got, expected = decode(got_codes, name), decode(expected_codes, name)
    same = (got.view(np.uint32) == expected.view(np.uint32)) | (np.isnan(got) & np.isnan(expected))
    first = np.flatnonzero(~same)[:1]
    where = f"first {values[first]}: got {got[first]}, expected {expected[first]}"
    assert same.all(), f"{(~same).sum()} of {same.size} differ, {where}"


def assert_rounds_as_torch(encode_, name, values):
    """Clamped first, so that every torch version agrees: how overflow ends has tests of its own below."""
    values = values if name == "bf16" else np.clip(values, -NARROW[name].max_finite, NARROW[name].max_finite)
    assert_same_values(encode_(values, name), torch_codes(values, name), name, values)


@pytest.mark.parametrize("name", TORCH)
def test_decode_gives_the_value_that_torch_gives_every_code(name):
    codes = all_codes(name)
    signed = codes.view(np.int16) if name == "bf16" else codes  # torch.from_numpy takes no uint16 in older versions
    expected = torch.from_numpy(signed).view(TORCH[name]).float().numpy()
    got = decode(codes, name)
    assert got.dtype == np.float32
    nans = np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(got), nans)
    np.testing.assert_array_equal(got.view(np.uint32)[~nans], expected.view(np.uint32)[~nans])  # bits: -0 is not 0
    assert set(codes[nans].tolist()) == set(NARROW[name].nan_codes)
    assert np.nanmax(np.where(np.isinf(got), NAN, got)) == NARROW[name].max_finite
    assert np.isinf(got).any() == NARROW[name].has_inf


def test_decode_of_fp8e4b15_is_fp16_with_a_short_exponent():
    codes = all_codes("fp8e4b15").astype(np.uint16)
    expected = ((codes & 0x80) << 8 | (codes & 0x7F) << 7).view(np.float16)
    np.testing.assert_array_equal(decode(codes.astype(np.uint8), "fp8e4b15"), expected)
    assert decode(np.uint8(0x7F), "fp8e4b15") == 1.875  # readable, though no cast writes it


@pytest.mark.parametrize("name", TORCH)
def test_encode_rounds_every_tie_and_its_neighbours_as_torch_does(name):
    assert_rounds_as_torch(encode, name, hard_values(name))


@pytest.mark.parametrize("name", ["bf16", "fp8e5", "fp8e4b8", "fp8e5b16"])
def test_encode_without_saturation_overflows_as_torch_does(name):
    values = hard_values(name)
    assert_same_values(encode(values, name, saturate=False), torch_codes(values, name), name, values)


def half_up(values, name):
    away = np.where(np.isfinite(values), values * np.float32(1 + 2.0**-20), values).astype(np.float32)
    return encode(away, name)


def without_subnormals(values, name):
    return encode(np.where(np.abs(values) < 2.0 ** NARROW[name].min_exponent, np.float32(0), values), name)


@pytest.mark.parametrize(
    "wrong", [lambda v, name: encode(v, name, toward_zero=True), half_up, without_subnormals], ids=["cut", "half up", "flush"]
)
@pytest.mark.parametrize("name", TORCH)
def test_the_comparison_with_torch_sees_a_wrong_rounding(name, wrong):
    with np.errstate(all="ignore"), pytest.raises(AssertionError, match="differ"):
        assert_rounds_as_torch(wrong, name, hard_values(name))


any_bits = st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=99)
any_floats = st.one_of(
    any_bits.map(lambda bits: np.array(bits, np.uint32).view(np.float32)),
    st.lists(st.floats(width=32), min_size=1, max_size=99).map(lambda x: np.array(x, np.float32)),
    st.lists(st.floats(-600, 600, width=32), min_size=1, max_size=99).map(lambda x: np.array(x, np.float32)),
)
NAN_BITS = np.array([0x7F800001, 0x7FFFFFFF, 0xFF80FFFF, 0xFFFFFFFF, 0x7FC00000, 0x7F810000, 0x7F7FFFFF, 0x00000001], np.uint32)


@pytest.mark.parametrize("name", TORCH)
@given(values=any_floats)
@example(values=NAN_BITS.view(np.float32))
@settings(deadline=None)
def test_encode_equals_torch_on_any_bits(name, values):
    with np.errstate(invalid="ignore"):  # np.clip in the oracle, on signalling NaNs
        assert_rounds_as_torch(encode, name, values)


@pytest.mark.parametrize("name", NARROW)
@given(values=any_floats)
@example(values=NAN_BITS.view(np.float32))
@settings(deadline=None)
def test_round_to_is_idempotent_monotone_and_symmetric(name, values):
    rounded = round_to(values, name)
    np.testing.assert_array_equal(rounded, decode(encode(values, name), name))
    np.testing.assert_array_equal(round_to(rounded, name), rounded)
    ordered = np.sort(values[~np.isnan(values)])
    assert (np.diff(np.clip(round_to(ordered, name), -3e38, 3e38)) >= 0).all()
    np.testing.assert_array_equal(round_to(-ordered, name), -round_to(ordered, name))
    assert np.isnan(rounded[np.isnan(values)]).all() or name == "fp8e4b15"


@pytest.mark.parametrize("name", NARROW)
def test_a_copy_changes_no_code_not_even_a_nan(name):
    codes = all_codes(name)
    for toward_zero in (False, True):
        np.testing.assert_array_equal(encode(decode(codes, name), name, toward_zero=toward_zero, saturate=False), codes)


def test_a_cast_of_its_own_values_changes_only_what_saturates():
    changed = {n: codes[encode(decode(codes, n), n) != codes].tolist() for n in NARROW for codes in [all_codes(n)]}
    nans = {n: sorted(NARROW[n].nan_codes[1:]) for n in ("fp8e4nv", "fp8e5")}  # every NaN becomes the one that `cvt` writes
    infs = {"fp8e5": [0x7C, 0xFC], "fp8e4b15": [0x7F, 0xFF]}  # inf, 1.875
    assert changed == {n: sorted(infs.get(n, []) + nans.get(n, [])) for n in NARROW}


TABLE = [  # value, format, code by default, code with saturate=False, code toward zero
    (448.0, "fp8e4nv", 0x7E, 0x7E, 0x7E),
    (464.0, "fp8e4nv", 0x7E, 0x7E, 0x7E),  # a tie, and 448 is the even side
    (465.0, "fp8e4nv", 0x7E, 0x7F, 0x7E),
    (-1e30, "fp8e4nv", 0xFE, 0xFF, 0xFE),
    (np.inf, "fp8e4nv", 0x7E, 0x7F, 0x7E),
    (np.nan, "fp8e4nv", 0x7F, 0x7F, 0x7F),
    (61439.0, "fp8e5", 0x7B, 0x7B, 0x7B),
    (61440.0, "fp8e5", 0x7B, 0x7C, 0x7B),  # a tie, and 57344 is the odd side
    (-1e9, "fp8e5", 0xFB, 0xFC, 0xFB),
    (np.inf, "fp8e5", 0x7B, 0x7C, 0x7C),  # toward zero is done on fp16 bits: inf stays
    (-np.inf, "fp8e5", 0xFB, 0xFC, 0xFC),
    (np.nan, "fp8e5", 0x7F, 0x7F, 0x7F),
    (248.0, "fp8e4b8", 0x7F, 0x80, 0x7F),
    (-np.inf, "fp8e4b8", 0xFF, 0x80, 0xFF),
    (-0.0, "fp8e4b8", 0x00, 0x00, 0x00),
    (-1e-9, "fp8e5b16", 0x00, 0x00, 0x00),
    (np.nan, "fp8e5b16", 0x80, 0x80, 0x80),
    (3.4e38, "bf16", 0x7F80, 0x7F80, 0x7F7F),
    (-np.inf, "bf16", 0xFF80, 0xFF80, 0xFF80),
    (1e300, "bf16", 0x7F80, 0x7F80, 0x7F7F),
]


@pytest.mark.parametrize(("value", "name", "default", "unsaturated", "cut"), TABLE)
def test_overflow_inf_and_nan_end_where_the_table_says(value, name, default, unsaturated, cut):
    for dtype in (np.float64,) if value == 1e300 else (np.float64, np.float32):
        x = np.array([value], dtype)
        got = [int(c[0]) for c in (encode(x, name), encode(x, name, saturate=False), encode(x, name, toward_zero=True))]
        assert got == [default, unsaturated, cut], [hex(c) for c in got]


def test_saturation_can_be_asked_for_or_refused_in_every_format():
    assert encode(INF, "bf16", saturate=True) == 0x7F7F
    assert encode(-INF, "bf16", saturate=True, toward_zero=True) == 0xFF7F
    assert np.isnan(round_to(NAN, "bf16", saturate=True))
    assert encode(INF, "fp8e5", saturate=True, toward_zero=True) == 0x7B
    assert round_to(INF, "fp8e5", saturate=False) == np.inf
    np.testing.assert_array_equal(round_to([-1.8125, 9.0, np.inf, np.nan], "fp8e4b15", saturate=False), [-1.875] + 3 * [1.875])


def nearest_by_fractions(x, name):
    """Slow and plain: the nearest value in exact arithmetic, the even code where two are equally near."""
    values = decode(all_codes(name), name)
    codes = [c for c in range(values.size // 2) if np.isfinite(values[c])]
    distances = [(abs(Fraction(float(values[c])) - Fraction(abs(x))), c & 1, c) for c in codes]
    return float(np.copysign(values[min(distances)[2]], x))


@pytest.mark.parametrize("name", ["fp8e4nv", "fp8e5", "fp8e4b8", "fp8e5b16"])
def test_float64_is_rounded_once(name):
    values = np.unique(decode(all_codes(name), name).astype(np.float64))
    values = values[np.isfinite(values) & (np.abs(values) < 40)]
    ties = (values[1:] + values[:-1]) / 2
    near = np.concatenate([ties, ties + np.abs(ties) * 2.0**-40, ties - np.abs(ties) * 2.0**-40])
    expected = np.array([nearest_by_fractions(x, name) for x in near])
    np.testing.assert_array_equal(round_to(near, name), expected)
    twice = round_to(near.astype(np.float32), name)
    assert (twice != expected).any()  # through float32 the distance to the tie is lost: the check can fail


def test_float64_is_rounded_once_to_bf16_and_where_float32_ends():
    just_above_tie = 1 + 2.0**-8 + 2.0**-40
    assert round_to(just_above_tie, "bf16") == 1 + 2.0**-7
    assert round_to(np.float32(just_above_tie), "bf16") == 1.0
    tie = 2.0**-134  # half of the smallest bf16 subnormal
    np.testing.assert_array_equal(round_to([tie, np.nextafter(tie, 1), -5e-324], "bf16"), [0.0, 2.0**-133, -0.0])
    assert encode(-5e-324, "bf16") == 0x8000


@pytest.mark.parametrize("name", NARROW)
def test_float16_and_a_list_come_out_like_the_same_float32(name):
    with np.errstate(invalid="ignore"):
        wide = ALL_HALVES.view(np.float16).astype(np.float32)
    np.testing.assert_array_equal(encode(ALL_HALVES.view(np.float16), name), encode(wide, name))
    np.testing.assert_array_equal(encode([[0.3, -7.0]], name), encode(np.float32([[0.3, -7.0]]), name))


@pytest.mark.parametrize("name", [n for n in NARROW if n != "fp8e4b15"])
def test_toward_zero_is_the_largest_value_not_beyond(name):
    values = hard_values(name)
    values = values[np.isfinite(values)]
    got = round_to(values, name, toward_zero=True)
    held = np.unique(np.abs(decode(all_codes(name), name)))
    held = held[np.isfinite(held)]
    expected = np.copysign(held[np.searchsorted(held, np.abs(values), side="right") - 1], values)
    np.testing.assert_array_equal(got, expected)
    assert (got != round_to(values, name)).any()


def fp8e4b15_as_the_gpu_does(values):
    """The inline assembly in integers: float32 cut to fp16, stopped at 1.75, half a place added, the top byte kept."""
    with np.errstate(all="ignore"):
        half = values.astype(np.float16)
        half = np.where(np.abs(half.astype(np.float32)) > np.abs(values), np.nextafter(half, np.float16(0)), half)
    bits = half.view(np.uint16).astype(np.uint32)
    magnitude = np.where(np.isnan(half), 0x3F00, np.minimum(bits & 0x7FFF, 0x3F00))
    return ((magnitude * 2 + 0x80) >> 8 | (bits & 0x8000) >> 8).astype(np.uint8)


@pytest.mark.parametrize("toward_zero", [False, True])
def test_fp8e4b15_is_what_tritons_assembly_gives(toward_zero):
    values = hard_values("fp8e4b15")
    values = values[~np.isnan(values)]
    values = np.concatenate([values, np.float32([NAN, -NAN])])
    np.testing.assert_array_equal(encode(values, "fp8e4b15", toward_zero=toward_zero), fp8e4b15_as_the_gpu_does(values))
    tie = np.float32(1 + 1 / 16)  # away from zero, where to-even would give 1.0
    assert round_to(tie, "fp8e4b15") == 1.125


@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 1, 5), (2, 0)])
def test_shapes_are_kept_memory_is_not_shared_and_nothing_warns(name, shape):
    for fill in (1.3, np.nan, np.inf, 3e38, -1e-45):
        values = np.full(shape, fill, np.float32)
        before = values.tobytes()
        with np.errstate(all="raise"):
            rounded, codes = round_to(values, name), encode(values, name)
            round_to(values.astype(np.float64), name)
            again = decode(codes, name)
        for array, dtype in ((rounded, np.float32), (codes, NARROW[name].storage), (again, np.float32)):
            assert isinstance(array, np.ndarray)
            assert (array.shape, array.dtype) == (shape, dtype)
        assert not np.shares_memory(rounded, values)
        assert values.tobytes() == before
        rounded[...] = 0  # a result is the caller's own: writing to it leaves the tables alone
        again[...] = 0
    assert decode(encode(np.float32(1.0), name), name) == 1.0


def test_signalling_nans_and_views_with_strides_are_taken_quietly():
    with np.errstate(all="raise"):
        for name in NARROW:
            round_to(NAN_BITS.view(np.float32), name)
            block = np.arange(24, dtype=np.float32).reshape(4, 6)[::2, ::-3]
            np.testing.assert_array_equal(round_to(block, name), round_to(block.copy(), name))
            codes = encode(block, name)
            np.testing.assert_array_equal(decode(np.repeat(codes, 2, axis=1)[:, ::2], name), decode(codes, name))


def test_signed_storage_is_read_as_bits():
    np.testing.assert_array_equal(decode(np.array([-128, -1], np.int8), "fp8e5")[:1], [-0.0])
    assert decode(np.int16(-16512), "bf16") == -1.0


def test_errors_name_what_came_and_what_is_allowed():
    with pytest.raises(ValueError, match=r"'fp8'.*'bf16', 'fp8e4nv'"):
        round_to(1.0, "fp8")
    with pytest.raises(TypeError, match=r"float16, float32 or float64, got int64"):
        encode(np.arange(3), "bf16")
    with pytest.raises(TypeError, match=r"uint8, got uint16"):
        decode(np.zeros(2, np.uint16), "fp8e5")
    with pytest.raises(TypeError, match=r"uint16, got float32"):
        decode(np.zeros(2, np.float32), "bf16")


@pytest.mark.parametrize("name", [n for n in NARROW if n != "fp8e4b15"])
def test_rounding_stays_within_half_a_place_and_cutting_does_not(name):
    values = hard_values(name)
    values = values[np.isfinite(values)].astype(np.float64)
    assert ulp_distance(round_to(values, name), values, name).max() <= 0.5
    in_range = values[np.abs(values) <= NARROW[name].max_finite]
    assert ulp_distance(round_to(in_range, name, toward_zero=True), in_range, name).max() > 0.9


@pytest.mark.parametrize(
    ("got", "exact", "name", "distance"),
    [
        (1.0, 1.0, "bf16", 0.0),
        (1.0078125, 1.0, "bf16", 1.0),  # 2**-7 above 1
        (0.99609375, 1.0, "bf16", 0.5),  # one value below 1: the unit is that of the binade of `exact`
        (2.0**-9, 0.0, "fp8e4nv", 1.0),  # the smallest subnormal
        (-(2.0**-9), 2.0**-9, "fp8e4nv", 2.0),
        (1.0, 1.0 + 2.0**-12, "fp16", 0.25),
        (1.0, 1.0 + 2.0**-23, "fp32", 1.0),
        (0.0, 5e-324, "fp64", 1.0),
        (np.nan, np.nan, "fp16", 0.0),
        (np.nan, 1.0, "fp16", np.inf),
        (1.0, np.nan, "bf16", np.inf),
        (np.nan, np.inf, "bf16", np.inf),
        (np.inf, np.inf, "fp32", 0.0),
        (-np.inf, np.inf, "fp32", np.inf),
        (65504.0, np.inf, "fp16", np.inf),  # an inf that was lost is no small error
        (np.inf, 65520.0, "fp16", 0.5),
        (65504.0, 65520.0, "fp16", 0.5),
        (np.inf, 1e30, "fp16", 0.0),
        (np.inf, 60000.0, "fp16", (65536 - 60000) / 32),
        (np.inf, 1.7976931348623157e308, "fp64", np.inf),  # what follows the largest float64 cannot be written down
        (448.0, 1e30, "fp8e4nv", 0.0),
        (448.0, np.inf, "fp8e4nv", 0.0),
        (-448.0, np.inf, "fp8e4nv", np.inf),
        (57344.0, 1e9, "fp8e5", 0.0),
        (np.inf, 57344.0, "fp8e5", np.inf),  # compiled casts never give it
        (np.inf, np.inf, "fp8e5", np.inf),
        (1.875, 1.875, "fp8e4b15", 1.0),  # readable, but a cast gives 1.75
    ],
)
def test_ulp_distance_by_hand(got, exact, name, distance):
    with np.errstate(all="raise"):
        assert ulp_distance(got, exact, name) == distance


def test_ulp_distance_broadcasts_and_refuses_values_of_another_format():
    assert ulp_distance(np.float32([1.0, 2.0]), 1.0, "bf16").tolist() == [0.0, 128.0]
    with pytest.raises(ValueError, match=r"got\[\[1\]\].*0.3.* no bf16 value"):
        ulp_distance([0.5, 0.3], [0.5, 0.3], "bf16")
    with pytest.raises(ValueError, match=r"no fp16 value"):
        ulp_distance(1.0 + 2.0**-20, 1.0, "fp16")
    with pytest.raises(ValueError, match=r"no fp8e4nv value"):
        ulp_distance(np.inf, 1.0, "fp8e4nv")


@pytest.mark.parametrize("module", [formats, format_codes], ids=lambda m: m.__name__.rpartition(".")[2])
def test_formats_need_numpy_only(module):
    tree = ast.walk(ast.parse(inspect.getsource(module)))
    nodes = [node for node in tree if isinstance(node, ast.Import | ast.ImportFrom)]
    imported = {node.module if isinstance(node, ast.ImportFrom) else node.names[0].name for node in nodes}
    assert imported <= {"dataclasses", "functools", "numpy", "numpy.typing", "formats"}
