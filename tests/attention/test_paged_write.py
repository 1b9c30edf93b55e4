"""The paged write puts K, turned as the model turns it, and V where the slots say, and touches nothing else."""

import pytest
import torch

from course_lib.attention.paged_write import paged_write
from course_lib.model.rope import rotate

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def tables(positions, head_dim, theta=10000.0):
    """cos, sin float32 [tokens, head_dim / 2] of positions, as model/rope.py makes them."""
    frequency = 1.0 / theta ** (torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
    angle = torch.tensor(positions, dtype=torch.float32)[:, None] * frequency
    return angle.cos(), angle.sin()


def tensors(tokens, q_heads, kv_heads, dim, dtype, blocks=4, block_size=16):
    made = torch.Generator().manual_seed(tokens)
    q, k, v = (torch.randn(tokens, n, dim, generator=made).to(dtype) for n in (q_heads, kv_heads, kv_heads))
    pools = [torch.full((blocks, block_size, kv_heads, dim), float("nan"), dtype=dtype) for _ in range(2)]
    return q, k, v, *pools


@pytest.mark.parametrize("impl", ["triton", "dense"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("q_heads", "kv_heads", "dim"), [(6, 2, 64), (20, 1, 80), (3, 3, 256)])
def test_it_turns_as_the_model_does_at_far_positions(q_heads, kv_heads, dim, dtype, impl):
    """At position 0 every pairing is right; from 1000 on a wrong one is garbage. One rounding of the same float32 values."""
    q, k, v, k_pool, v_pool = tensors(4, q_heads, kv_heads, dim, dtype)
    cos, sin = tables([0, 1000, 4097, 100_003], dim)
    slots = torch.tensor([17, 63, -1, 5])
    turned = paged_write(k, v, k_pool, v_pool, slots, cos=cos, sin=sin, q=q, impl=impl)
    wanted_k, wanted_q = (rotate(x[None], cos[None], sin[None])[0].to(dtype) for x in (k, q))
    close = {"rtol": 2 * torch.finfo(dtype).eps, "atol": 1e-6}  # a multiply-add may round once less
    torch.testing.assert_close(turned, wanted_q, **close)
    flat_k, flat_v = k_pool.flatten(0, 1), v_pool.flatten(0, 1)
    for token in (0, 1, 3):
        torch.testing.assert_close(flat_k[slots[token]], wanted_k[token], **close)
        assert torch.equal(flat_v[slots[token]], v[token])
    untouched = [i for i in range(64) if i not in (17, 63, 5)]
    assert flat_k[untouched].isnan().all()
    assert flat_v[untouched].isnan().all()


def test_the_other_pairing_gives_something_else():
    """Interleaved pairs (2i, 2i + 1) at position 1000: what the test above would catch."""
    q, k, v, k_pool, v_pool = tensors(1, 2, 1, 64, torch.float32)
    cos, sin = tables([1000], 64)
    paged_write(k, v, k_pool, v_pool, torch.tensor([0]), cos=cos, sin=sin, q=q)
    even, odd = k[..., ::2], k[..., 1::2]
    interleaved = torch.stack((even * cos - odd * sin, odd * cos + even * sin), -1).flatten(-2)
    assert (k_pool[0, 0] - interleaved[0]).abs().max() > 0.1


@pytest.mark.parametrize("impl", ["triton", "dense"])
def test_without_positions_it_copies(impl):
    _, k, v, k_pool, v_pool = tensors(3, 2, 2, 64, torch.bfloat16, block_size=8)
    assert paged_write(k, v, k_pool, v_pool, torch.tensor([9, 8, 31]), impl=impl) is None
    assert torch.equal(k_pool.flatten(0, 1)[[9, 8, 31]], k)
    assert torch.equal(v_pool.flatten(0, 1)[[9, 8, 31]], v)


@pytest.mark.parametrize("impl", ["triton", "dense"])
def test_q_k_v_may_be_views_of_one_product(impl):
    qkv = torch.randn(3, 8, 64, generator=torch.Generator().manual_seed(2))
    q, k, v = qkv[:, :4], qkv[:, 4:6], qkv[:, 6:]
    _, _, _, k_pool, v_pool = tensors(3, 4, 2, 64, torch.float32)
    cos, sin = tables([7, 8, 9], 64)
    turned = paged_write(k, v, k_pool, v_pool, torch.tensor([7, 8, 9]), cos=cos, sin=sin, q=q, impl=impl)
    torch.testing.assert_close(turned, rotate(q[None], cos[None], sin[None])[0])
    torch.testing.assert_close(k_pool[0, 7:10], rotate(k[None], cos[None], sin[None])[0])
    assert paged_write(k[:0], v[:0], k_pool, v_pool, torch.zeros(0, dtype=torch.int64), impl=impl) is None


def test_bad_input_is_refused_with_the_numbers_and_nothing_is_written():
    q, k, v, k_pool, v_pool = tensors(2, 4, 2, 64, torch.float32)
    cos, sin = tables([1, 2], 64)
    slots = torch.tensor([3, 4])

    def refused(words, error=ValueError, k=k, v=v, k_pool=k_pool, v_pool=v_pool, slots=slots, **more):
        for impl in ("triton", "dense"):
            with pytest.raises(error, match=words):
                paged_write(k, v, k_pool, v_pool, slots, **{"cos": cos, "sin": sin, "q": q, "impl": impl} | more)

    refused(r"token 1 has slot 64, and the pool has places 0\.\.63", slots=torch.tensor([3, 64]))
    refused("token 0 has slot -2", slots=torch.tensor([-2, 3]))
    refused("tokens 0 and 1 both have slot 3", slots=torch.tensor([3, 3]))
    refused(r"int64 \[2\]", slots=slots.int())
    refused("both .*kv_heads, head_dim", v=v[:1])
    refused("the cache of these k and v is", k_pool=k_pool[:, :, :1], v_pool=v_pool[:, :, :1])
    refused("one dtype for all", TypeError, k=k.half())
    refused(r"cos is float32 \[2, 32\]", cos=cos.bfloat16())
    refused("come together", sin=None)
    refused("come together", cos=None, sin=None)
    refused("a multiple of 2", q=q[:, :3])
    refused("stride of 1", k=k.mT.contiguous().mT)
    with pytest.raises(ValueError, match="impl is"):
        paged_write(k, v, k_pool, v_pool, slots, impl="fast")
    assert k_pool.isnan().all()
