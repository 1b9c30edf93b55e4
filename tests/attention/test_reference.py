"""The oracle agrees with torch where both are defined, and holds the course's conventions where torch has others."""

import pytest
import torch
import torch.nn.functional as F

from course_lib.attention import attention_reference, packed_reference


def qkv(batch, q_len, kv_len, q_heads, kv_heads, head_dim, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shapes = (batch, q_len, q_heads, head_dim), (batch, kv_len, kv_heads, head_dim), (batch, kv_len, kv_heads, head_dim)
    return tuple(torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)


@pytest.mark.parametrize("causal", [False, True])
def test_it_equals_torch_for_as_many_queries_as_keys(causal):
    q, k, v = qkv(2, 9, 9, 4, 2, 8)
    expected = F.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)), is_causal=causal, enable_gqa=True)
    out, lse = attention_reference(q, k, v, causal=causal)
    torch.testing.assert_close(out, expected.transpose(1, 2))
    assert lse.shape == (2, 4, 9)


def test_causal_is_bottom_right_and_a_row_without_a_key_gives_zeros():
    q, k, v = qkv(1, 4, 2, 1, 1, 8)
    out, lse = attention_reference(q, k, v, causal=True)
    assert (out[0, :2] == 0).all()
    assert lse[0, 0].isneginf().tolist() == [True, True, False, False]
    torch.testing.assert_close(out[0, 2, 0], v[0, 0, 0])  # query 2 sees key 0 only
    torch.testing.assert_close(lse[0, 0, 2], (q[0, 2, 0] @ k[0, 0, 0]) * 8**-0.5)


@pytest.mark.parametrize(("q_heads", "kv_heads"), [(28, 4), (6, 2), (8, 8), (8, 1)])
def test_a_query_head_reads_the_kv_head_of_its_group(q_heads, kv_heads):
    q, k, v = qkv(1, 3, 5, q_heads, kv_heads, 4)
    v[:] = torch.arange(kv_heads)[:, None]
    out, _ = attention_reference(q, k, v)
    torch.testing.assert_close(out[0, 0, :, 0], torch.arange(q_heads).div(q_heads // kv_heads, rounding_mode="floor").double())


def test_a_window_is_the_last_keys_with_the_own_one():
    q, k, v = qkv(1, 3, 7, 1, 1, 4)
    out, lse = attention_reference(q, k, v, causal=True, window=2)
    for i in range(3):
        one = attention_reference(q[:, i : i + 1], k[:, i + 3 : i + 5], v[:, i + 3 : i + 5])
        torch.testing.assert_close((out[:, i], lse[:, :, i]), (one[0][:, 0], one[1][:, :, 0]))
    with pytest.raises(ValueError, match="window must be 1 or more and needs causal=True, got window=2, causal=False"):
        attention_reference(q, k, v, window=2)


def test_without_keys_or_rows_there_is_nothing():
    out, lse = attention_reference(*qkv(2, 3, 0, 2, 1, 4))
    assert out.shape == (2, 3, 2, 4)
    assert (out == 0).all()
    assert lse.isneginf().all()
    assert attention_reference(*qkv(2, 0, 3, 2, 1, 4))[0].shape == (2, 0, 2, 4)


def test_packed_sequences_do_not_see_each_other():
    q, k, v = (x[0] for x in qkv(1, 9, 11, 4, 2, 8))
    cu_q, cu_k = torch.tensor([0, 2, 2, 9], dtype=torch.int32), torch.tensor([0, 5, 8, 11], dtype=torch.int32)
    out, lse = packed_reference(q, k, v, cu_q, cu_k, causal=True)
    last = attention_reference(q[None, 2:9], k[None, 8:11], v[None, 8:11], causal=True)
    torch.testing.assert_close((out[2:9], lse[:, 2:9]), (last[0][0], last[1][0]))
    assert lse[:, 2:6].isneginf().all()  # seven queries on three keys: the first four see none
