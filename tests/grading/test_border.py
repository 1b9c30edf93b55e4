"""Plain data crosses the border unchanged; everything else arrives as a name; damaged bytes are refused."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.grading.inside.border import MAX_NODES, BorderError, Opaque, pack, unpack

DTYPES = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
          torch.float32, torch.float64, torch.complex64, torch.float8_e4m3fn, torch.float8_e5m2]  # fmt: skip
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(max_size=50),
    lambda inner: st.lists(inner, max_size=4) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def same(a, b):
    if type(a) is float and math.isnan(a):
        return type(b) is float and math.isnan(b)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return type(b) is dict and list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    return type(a) is type(b) and a == b


@settings(max_examples=300, deadline=None)
@given(PLAIN)
def test_plain_data_comes_back_with_its_types(value):
    assert same(unpack(pack(value)), value)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0, 2), (5, 7)])
def test_a_tensor_comes_back_bit_for_bit(dtype, shape):
    tensor = torch.randint(0, 2, shape).to(dtype) if dtype is torch.bool else torch.randn(shape).abs().mul(50).to(dtype)
    back = unpack(pack({"x": tensor, "n": 1}))["x"]
    assert back.dtype == dtype
    assert back.shape == tensor.shape
    assert pack(back) == pack(tensor)


def test_views_with_gaps_nan_and_gradients_cross_by_value():
    base = torch.randn(6, 8, dtype=torch.float64, requires_grad=True)
    view = base[::2, 1::3].T
    back = unpack(pack(view))
    assert torch.equal(back, view.detach())
    assert not back.requires_grad
    nan = torch.tensor([float("nan"), -0.0, float("inf")])
    assert pack(unpack(pack(nan))) == pack(nan)


class EqualToEverything:
    def __eq__(self, other):
        return True

    def __hash__(self):
        return 0


class Lazy(torch.Tensor):
    pass


@pytest.mark.parametrize(
    "strange",
    [object(), EqualToEverything(), {1: 2}, {1, 2}, range(3), lambda: 0, torch.ones(2).to_sparse(), torch.empty(2, device="meta"),
     Lazy(), type("MyFloat", (float,), {})(1.0), type("MyDict", (dict,), {})(), 1j],
    ids=lambda v: type(v).__name__,
)  # fmt: skip
def test_what_is_not_plain_data_arrives_as_a_name_without_behaviour(strange):
    for wrapped in (strange, [strange], {"x": strange}):
        back = unpack(pack(wrapped))
        inner = back if wrapped is strange else back[0] if isinstance(back, list) else back["x"]
        assert type(inner) is Opaque
        assert inner != 1.0
        assert str(inner)


def test_an_object_whose_class_lies_about_its_name_is_still_named():
    class Liar:
        __module__ = 7

    assert type(unpack(pack(Liar()))) is Opaque


def test_too_large_or_too_deep_is_named_not_sent():
    big = unpack(pack([1, torch.zeros(100)], max_bytes=300))
    assert type(big[1]) is Opaque
    assert "400 bytes, more than the 300" in str(big[1])
    expanded = unpack(pack(torch.zeros(1).expand(2**40)))
    assert "more than" in str(expanded)
    deep = []
    for _ in range(100_000):
        deep = [deep]
    assert "nested more than 40 deep" in str(unpack(pack(deep)))
    text = unpack(pack("x" * 1000, max_bytes=300))
    assert "1000 characters, more than the 300" in str(text)
    many = unpack(pack(list(range(MAX_NODES))))
    assert "more than the 262144 values that cross" in str(many)
    assert len(unpack(pack(list(range(MAX_NODES - 1))))) == MAX_NODES - 1


@pytest.mark.parametrize("cut", [0, 3, 8, 20, -1])
def test_cut_bytes_are_refused(cut):
    data = pack({"x": torch.ones(3), "y": [1.5, "text", b"raw"]})
    with pytest.raises(BorderError):
        unpack(data[:cut])


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 150), st.integers(0, 255))
def test_damaged_bytes_never_raise_anything_else(junk, place, byte):
    data = bytearray(pack({"x": torch.ones(2, 2), "t": (1, "a")}))
    data[min(place, len(data) - 1)] = byte
    for attack in (junk, bytes(data), (10).to_bytes(8, "little") + junk):
        try:
            unpack(attack)
        except BorderError:
            continue


@pytest.mark.parametrize("header", ['{"x": [8, "float32", [3]]}', '{"x": [4, "object", [1]]}', '{"x": [4, "float32", [-1]]}',
                                    '{"b": [-5]}', '{"b": [1e9]}', '{"q": 1}', '{"x": 3}', "[1]", '{"d": [[1, 2]]}'])  # fmt: skip
def test_a_forged_header_is_refused(header):
    raw = header.encode()
    with pytest.raises(BorderError):
        unpack(len(raw).to_bytes(8, "little") + raw + b"\0" * 8)
