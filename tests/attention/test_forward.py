"""The forward kernel, interpreted, equals the oracle on awkward shapes, strides, heads and lengths; the dense path likewise."""

import pytest
import torch

from course_lib.attention import Tile, attention_reference, flash_attention, forward
from course_lib.attention.forward import describable
from tests.attention.flash_cases import assert_within_budget, random_qkv

TALL, WIDE, SQUARE = (Tile(*size, 4, 1, descriptors=True) for size in ((32, 16), (16, 32), (16, 16)))
POINTERS, WIDE_POINTERS = Tile(32, 16, 4, 1), Tile(16, 32, 4, 1)
SHAPES = [  # batch, q_len, kv_len, q_heads, kv_heads, head_dim, dtype, causal, tile
    (1, 1, 1, 1, 1, 64, torch.float32, False, TALL),
    (2, 33, 47, 2, 1, 80, torch.bfloat16, True, TALL),  # offset of no whole tile
    (1, 31, 64, 2, 2, 96, torch.float16, False, SQUARE),
    (1, 65, 65, 4, 2, 64, torch.bfloat16, True, WIDE),
    (1, 40, 17, 3, 1, 64, torch.float32, True, TALL),  # 23 rows see no key: a tile of them is empty
    (1, 40, 17, 3, 1, 64, torch.float32, True, POINTERS),
    (1, 16, 33, 2, 2, 128, torch.float16, True, WIDE_POINTERS),
    (2, 17, 15, 2, 1, 80, torch.bfloat16, False, POINTERS),
    (1, 5, 48, 2, 1, 256, torch.bfloat16, True, POINTERS),
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "-".join(map(str, s[:6])))
def test_it_equals_the_oracle(shape):
    *sizes, dtype, causal, tile = shape
    q, k, v = random_qkv(*sizes, dtype)
    found = flash_attention(q, k, v, causal=causal, return_lse=True, impl="triton", tile=tile)
    assert_within_budget(found, attention_reference(q, k, v, causal=causal), v, dtype)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "-".join(map(str, s[:6])))
@pytest.mark.parametrize("with_lse", [True, False])
def test_so_does_the_dense_path(shape, with_lse):
    *sizes, dtype, causal, _ = shape
    q, k, v = random_qkv(*sizes, dtype)
    expected = attention_reference(q, k, v, causal=causal)
    found = flash_attention(q, k, v, causal=causal, return_lse=with_lse, impl="dense")
    assert_within_budget(found if with_lse else (found, expected[1].float()), expected, v, dtype)


@pytest.mark.parametrize("with_lse", [True, False])
def test_the_dense_path_cuts_long_queries_without_a_seam(with_lse):
    q, k, v = random_qkv(1, 700, 650, 2, 1, 64, torch.float32)
    expected = attention_reference(q, k, v, causal=True)
    found = flash_attention(q, k, v, causal=True, return_lse=with_lse, impl="dense")
    assert_within_budget(found if with_lse else (found, expected[1].float()), expected, v, torch.float32)


@pytest.mark.parametrize("impl", ["triton", "dense"])
@pytest.mark.parametrize(("q_len", "kv_len", "batch"), [(0, 5, 2), (3, 0, 2), (3, 5, 0), (0, 0, 1)])
def test_without_queries_keys_or_batch_there_are_zeros(impl, q_len, kv_len, batch):
    q, k, v = random_qkv(batch, q_len, kv_len, 2, 1, 64, torch.float16)
    out, lse = flash_attention(q, k, v, return_lse=True, impl=impl)
    assert (out.shape, lse.shape) == (q.shape, (batch, 2, q_len))
    assert (out == 0).all()
    assert lse.isneginf().all()


@pytest.mark.parametrize("tile", [POINTERS, TALL], ids=["pointers", "descriptors"])
def test_inputs_may_lie_apart_and_what_lies_between_does_not_reach_the_result(tile):
    """q, k and v are views into one tensor of heads-first layout, whose other elements are NaN. So is `out`'s."""
    q, k, v = random_qkv(2, 18, 20, 4, 2, 64, torch.float16)
    wide = [torch.full((2, 6, 32, 72), torch.nan, dtype=torch.float16) for _ in range(4)]
    views = [w[:, : x.shape[2], 3 : 3 + x.shape[1], :64].transpose(1, 2) for w, x in zip(wide, (q, k, v, q), strict=True)]
    for view, x in zip(views[:3], (q, k, v), strict=True):
        view.copy_(x)
    out = views[3]
    found = flash_attention(*views[:3], causal=True, return_lse=True, out=out, impl="triton", tile=tile)
    assert found[0] is out
    assert_within_budget(found, attention_reference(q, k, v, causal=True), v, torch.float16)
    assert int(wide[3].isnan().sum()) == wide[3].numel() - out.numel()  # nothing else was written


def test_an_axis_of_one_element_may_have_any_stride_and_repeated_ones_go_through_pointers():
    q, k, v = random_qkv(1, 4, 4, 1, 1, 64, torch.float16)
    odd = torch.as_strided(q, q.shape, (7, 64, 3, 1))  # batch and head have one element
    expected = attention_reference(q, k, v)
    assert_within_budget(flash_attention(odd, k, v, return_lse=True, impl="triton", tile=WIDE), expected, v, torch.float16)
    shared = [x.expand(1, 4, 2, 64) for x in (k, v)]
    with pytest.raises(ValueError, match="loads by descriptors"):
        flash_attention(q.expand(1, 4, 2, 64), *shared, impl="triton", tile=WIDE)
    out = flash_attention(q.expand(1, 4, 2, 64), *shared, impl="triton", tile=POINTERS)
    assert torch.equal(out[:, :, 0], out[:, :, 1])


def test_a_descriptor_needs_a_base_and_strides_of_whole_16_bytes():
    """8 elements of fp16: a view that starts at element 8 -> True, at element 4 -> False; rows 72 apart -> True, 68 -> False."""
    memory = torch.zeros(4096, dtype=torch.float16)
    for start, row, expected in ((0, 64, True), (8, 64, True), (4, 64, False), (0, 72, True), (0, 68, False), (0, 0, False)):
        view = torch.as_strided(memory, (1, 4, 1, 64), (1, row, 1, 1), start)
        assert describable(view) is expected, (start, row)
        assert describable(torch.zeros(1, 4, 1, 64), view) is expected


@pytest.mark.parametrize("impl", ["triton", "dense"])
def test_the_only_key_wins_with_a_score_of_minus_20000(impl):
    """A finite mask value (say -1e4) would be larger, and masked keys would take over."""
    q = torch.full((1, 1, 1, 64), -50.0)
    k, v = torch.full((1, 1, 1, 64), 50.0), torch.arange(64.0).reshape(1, 1, 1, 64)
    out, lse = flash_attention(q, k, v, causal=True, return_lse=True, impl=impl)
    assert torch.equal(out, v)
    assert lse.item() == pytest.approx(-20000.0)


@pytest.mark.parametrize("impl", ["triton", "dense"])
@pytest.mark.parametrize(("q_heads", "kv_heads"), [(28, 4), (6, 2), (8, 1)])
def test_a_query_head_reads_the_kv_head_of_its_group(impl, q_heads, kv_heads):
    q, k, v = random_qkv(1, 1, 2, q_heads, kv_heads, 64, torch.float16)
    v[:] = torch.arange(kv_heads)[:, None]
    out = flash_attention(q, k, v, impl=impl)
    assert out[0, 0, :, 0].tolist() == [head // (q_heads // kv_heads) for head in range(q_heads)]


def test_the_scale_is_used_and_auto_on_the_cpu_is_dense():
    q, k, v = random_qkv(1, 7, 9, 1, 1, 64, torch.float32)
    expected = attention_reference(q, k, v, scale=0.03)
    for impl in ("triton", "dense"):
        assert_within_budget(flash_attention(q, k, v, scale=0.03, return_lse=True, impl=impl), expected, v, torch.float32)
    assert torch.equal(flash_attention(q, k, v), flash_attention(q, k, v, impl="dense"))


def test_the_tile_is_chosen_for_the_keys_that_a_query_sees_on_average(monkeypatch):
    asked = []
    monkeypatch.setattr(forward, "choose_tile", lambda *_, keys, descriptors: asked.append(keys) or SQUARE)
    q, k, v = random_qkv(1, 16, 24, 1, 1, 64, torch.float32)
    for causal in (False, True):
        flash_attention(q, k, v, causal=causal, impl="triton")
    assert asked == [24, 16]  # causal: 9 to 24 of them
